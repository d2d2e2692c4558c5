"""Part of the hook program: the process that called our hook, and what it shows of itself. Standard library only."""

# pathlib, re, json and typing are too slow to import in a hook.

from __future__ import annotations

import os

from corral.sidecar.light import NamedTuple

SHELLS = frozenset(("sh", "dash", "bash", "zsh", "ksh", "mksh", "ash", "fish", "busybox"))
MAX_LEVELS = 12
_SMALL_FILE = 1 << 18
_PACKAGE_LEVELS = 4


class Caller(NamedTuple):
    """The first ancestor of the hook that is not a shell."""

    pid: int
    start_ticks: int
    comm: str
    cwd: str
    """Empty when it may not be read."""


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that we need."""

    comm: str
    state: str
    parent_pid: int
    start_ticks: int


def find_caller() -> Caller | None:
    """None when there is nothing but shells above us, or nothing to be seen."""
    pid = os.getppid()
    for _ in range(MAX_LEVELS):
        stat = read_stat(pid)
        if stat is None:
            return None
        if stat.comm not in SHELLS:
            return Caller(pid, stat.start_ticks, stat.comm, read_link(pid, "cwd"))
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


def read_words(caller: Caller) -> list[bytes]:
    """Its command line, as far as it has not overwritten it."""
    return read_proc(caller.pid, "cmdline", 1 << 16).split(b"\0")


def read_variable(caller: Caller, name: str) -> str | None:
    """A variable that it was started with, as far as it has not overwritten it."""
    wanted = os.fsencode(name) + b"="
    for entry in read_proc(caller.pid, "environ", 1 << 20).split(b"\0"):
        if entry.startswith(wanted):
            return os.fsdecode(entry[len(wanted) :])
    return None


def has_terminal(caller: Caller) -> bool:
    """Whether it reads from a terminal."""
    return read_link(caller.pid, "fd/0").startswith(("/dev/pts/", "/dev/tty", "/dev/console"))


def is_node(caller: Caller) -> bool:
    """Whether Node runs it. Node 24 names its main thread "MainThread", so comm does not always show it."""
    program = os.path.basename(read_link(caller.pid, "exe").removesuffix(" (deleted)"))
    return caller.comm == "node" or program.startswith("node")


def find_npm_version(caller: Caller, script: str, package: str) -> str | None:
    """The version of the npm package that a script belongs to, if it is that package; None when it is not known."""
    from corral.sidecar.light import loads

    directory = os.path.dirname(os.path.realpath(os.path.join(caller.cwd, script)))
    for _ in range(_PACKAGE_LEVELS):
        path = os.path.join(directory, "package.json")
        if data := read_small(path):
            try:
                fields = loads(data.decode("utf-8"))
            except (ValueError, RecursionError):
                return None
            if isinstance(fields, dict) and fields.get("name") == package:  # pyright: ignore[reportUnknownMemberType]
                version = fields.get("version")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                return version if isinstance(version, str) and is_older(caller, path) else None
        directory = os.path.dirname(directory)
    return None


def find_python_version(caller: Caller, package: str) -> str | None:
    """From the one `package-*.dist-info` beside the extension modules that it has loaded; None when not known."""
    marker = b"/site-packages/"
    places: set[bytes] = set()
    for line in read_proc(caller.pid, "maps").splitlines():
        start = line.find(b"/")
        end = line.find(marker, start)
        if start >= 0 and end >= 0:
            places.add(line[start : end + len(marker)])
    versions = {version for place in places for version in _list_versions(caller, place, package)}
    return versions.pop() if len(versions) == 1 else None


def _list_versions(caller: Caller, site_packages: bytes, package: str) -> list[str]:
    try:
        entries = os.listdir(site_packages)
    except OSError:
        return []
    found: list[str] = []
    for entry in entries:
        text = os.fsdecode(entry)
        version = text.removeprefix(f"{package}-").removesuffix(".dist-info")
        if text == f"{package}-{version}.dist-info" and is_older(caller, site_packages + entry):
            found.append(version)
    return found


def is_older(caller: Caller, path: str | bytes) -> bool:
    """False if the file changed after the process began: an update that this process does not run yet."""
    import time

    try:
        changed_at = os.stat(path).st_ctime
    except OSError:
        return False
    began = caller.start_ticks / os.sysconf("SC_CLK_TCK")
    return changed_at <= time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + began + 0.05


def read_small(path: str) -> bytes:
    """A file of at most 256 KiB; empty when it can't be read."""
    from corral.sidecar.files import FileBytes, read_regular

    found = read_regular(path, _SMALL_FILE)
    return found.data if isinstance(found, FileBytes) else b""
