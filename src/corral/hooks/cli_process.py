"""Part of the hook program: finds the agent CLI among the hook's ancestors and tells what it is."""

# pathlib is too slow to import in a hook.

import os
from typing import NamedTuple

SHELLS = frozenset(("sh", "dash", "bash", "zsh", "ksh", "mksh", "ash", "fish", "busybox"))
MAX_LEVELS = 12
_KIMI_CLI_WORDS = (b"kimi", b"kimi-cli", b"kimi-legacy", b"kimi_cli")


class CliProcess(NamedTuple):
    """The process that ran our hook."""

    provider: str
    pid: int
    start_ticks: int
    comm: str


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that we need."""

    comm: str
    state: str
    parent_pid: int
    start_ticks: int


def find_cli(provider: str, client_type: object) -> CliProcess | None:
    """The first ancestor that is no shell, if it is an agent CLI that we know; else None.

    `provider` is what our command line says. The process and `client_type` outrank it: `kimi migrate` copies
    kimi-cli's hooks into kimi-code's config (kimi-code 2.1.0, seen 2026-11).
    """
    pid = os.getppid()
    for _ in range(MAX_LEVELS):
        stat = read_stat(pid)
        if stat is None:
            return None
        if stat.comm not in SHELLS:
            name = _provider_of(pid, stat.comm, provider, client_type)
            return CliProcess(name, pid, stat.start_ticks, stat.comm) if name else None
        pid = stat.parent_pid
    return None


def read_stat(pid: int) -> Stat | None:
    """None when there is no such process to be seen."""
    try:
        data = read_proc(pid, "stat")
        # comm may contain anything, ")" included: fields are counted after the last parenthesis.
        close = data.rindex(b")")
        fields = data[close + 2 :].split(None, 20)
        comm = os.fsdecode(data[data.index(b"(") + 1 : close])
        return Stat(comm, fields[0].decode(), int(fields[1]), int(fields[19]))
    except (ValueError, IndexError):
        return None


def read_proc(pid: int, name: str, limit: int = 1 << 22) -> bytes:
    """Up to `limit` bytes of a file in /proc/PID; empty when it may not be read."""
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    parts: list[bytes] = []
    try:
        while limit > 0 and (part := os.read(fd, min(limit, 1 << 16))):
            parts.append(part)
            limit -= len(part)
    except OSError:
        pass
    finally:
        os.close(fd)
    return b"".join(parts)


def read_link(pid: int, name: str) -> str:
    """The target of a link in /proc/PID; empty when it may not be read."""
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""


def serves_many(process: CliProcess, home: str) -> bool:
    """True if the process can serve several sessions at once (`acp`, `web`, `serve`), as far as can be told.

    The Kimis overwrite their command line, but their TUI, the one mode that moves from session to session,
    needs a terminal. Without one a Kimi is a one-shot run, which has a single session anyway, or a server.
    `kimi web` may have a terminal, and registers itself by PID (kimi-code 2.1.0, seen 2026-11).
    """
    if process.provider == "qwen-code":
        words = read_proc(process.pid, "cmdline", 1 << 16).split(b"\0")
        return b"--acp" in words or b"--experimental-acp" in words or b"serve" in words[1:4]
    if not read_link(process.pid, "fd/0").startswith(("/dev/pts/", "/dev/tty", "/dev/console")):
        return True
    return process.provider == "kimi-code" and _is_server_instance(process.pid, home)


def find_version(process: CliProcess) -> str | None:
    """The version of the running program, or None: nothing is run to find out."""
    if process.provider == "kimi-cli":
        return _python_version(process)
    package, script = {
        "qwen-code": ("@qwen-code/qwen-code", _script_argument(process.pid)),
        "kimi-code": ("@moonshot-ai/kimi-code", _started_by_shell(process.pid)),
    }[process.provider]
    return _package_version(process, script, package) if script else None


def _provider_of(pid: int, comm: str, provider: str, client_type: object) -> str | None:
    if provider == "qwen-code":
        return provider if comm in ("node", "qwen") or _is_node(pid) else None
    if comm == "kimi-code":
        return "kimi-code"
    if comm == "Kimi Code":
        return "kimi-cli"
    # A process title is a courtesy of the CLI; without it the program behind the process has to do.
    if client_type is not None:
        return "kimi-code" if comm == "node" or _is_node(pid) else None
    if comm.startswith("python") or comm == "kimi":
        words = (word.rpartition(b"/")[2] for word in read_proc(pid, "cmdline", 1 << 16).split(b"\0"))
        return "kimi-cli" if any(word in _KIMI_CLI_WORDS for word in words) else None
    return None


def _is_node(pid: int) -> bool:
    # Node 24 names its main thread "MainThread", so comm does not show the program.
    return os.path.basename(read_link(pid, "exe").removesuffix(" (deleted)")).startswith("node")


def _is_server_instance(pid: int, home: str) -> bool:
    directory = os.path.join(home, "server", "instances")
    wanted = str(pid).encode()
    try:
        names = sorted(os.listdir(directory))[:64]
    except OSError:
        return False
    for name in names:
        data = _read_small(os.path.join(directory, name))
        head, found, tail = data.partition(b'"pid":')
        if found and head and tail[:24].lstrip().split(b",")[0].split(b"}")[0].strip() == wanted:
            return True
    return False


def _python_version(process: CliProcess) -> str | None:
    """From the one `kimi_cli-*.dist-info` beside the extension modules that the process has loaded."""
    marker = b"/site-packages/"
    places: set[bytes] = set()
    for line in read_proc(process.pid, "maps").splitlines():
        start = line.find(b"/")
        end = line.find(marker, start)
        if start >= 0 and end >= 0:
            places.add(line[start : end + len(marker)])
    versions: set[str] = set()
    for place in places:
        try:
            names = os.listdir(place)
        except OSError:
            continue
        for raw in names:
            name = os.fsdecode(raw)
            version = name.removeprefix("kimi_cli-").removesuffix(".dist-info")
            if name == f"kimi_cli-{version}.dist-info" and _is_older(process, place + raw):
                versions.add(version)
    return versions.pop() if len(versions) == 1 else None


def _script_argument(pid: int) -> str | None:
    """The script that node runs: its first argument that is no option."""
    words = read_proc(pid, "cmdline", 1 << 16).split(b"\0")[1:]
    script = next((word for word in words if word and not word.startswith(b"-")), b"")
    return os.path.join(read_link(pid, "cwd"), os.fsdecode(script)) if script else None


def _started_by_shell(pid: int) -> str | None:
    """The program that a shell says it ran: kimi-code hides its command line, but not its environment."""
    for entry in read_proc(pid, "environ", 1 << 20).split(b"\0"):
        if entry.startswith(b"_="):
            return os.fsdecode(entry[2:])
    return None


def _package_version(process: CliProcess, script: str, package: str) -> str | None:
    import json

    directory = os.path.dirname(os.path.realpath(script))
    for _ in range(4):
        path = os.path.join(directory, "package.json")
        data = _read_small(path)
        if data:
            try:
                fields = json.loads(data)
            except ValueError:
                return None
            if isinstance(fields, dict) and fields.get("name") == package:  # pyright: ignore[reportUnknownMemberType]
                version = fields.get("version")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                return version if isinstance(version, str) and _is_older(process, path) else None
        directory = os.path.dirname(directory)
    return None


def _is_older(process: CliProcess, path: str | bytes) -> bool:
    """False if the file changed after the process began: an update that this process does not run yet."""
    import time

    try:
        changed_at = os.stat(path).st_ctime
    except OSError:
        return False
    began = process.start_ticks / os.sysconf("SC_CLK_TCK")
    return changed_at <= time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + began + 0.05


def _read_small(path: str) -> bytes:
    from corral.sidecar.files import FileBytes, read_regular

    found = read_regular(path, 1 << 18)
    return found.data if isinstance(found, FileBytes) else b""
