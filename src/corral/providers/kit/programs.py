"""Agent CLIs on PATH: which product and version a command is, told from its files without running it.

    for path in find_on_path("kimi", variables.get("PATH", "")):
        match identify(path):
            case Installed(product="@moonshot-ai/kimi-code", version=version): ...
            case None: ...     # a binary, a shim, a script of one's own: only running it would tell

Nothing is cached here: the caller keeps answers by the file's identity if it asks often.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from corral.model.restore import Program
from corral.providers.contract import Environment, Programs
from corral.sidecar.files import Unreadable, open_regular, read_regular

_SCRIPT_HEAD = 4096
_SMALL_FILE = 1 << 20
_PARENTS = 6

_IMPORT = re.compile(rb"^(?:from|import)\s+([A-Za-z_][\w.]*)", re.MULTILINE)
# What pip, uv and distlib write when the interpreter's path is too long for a shebang, or has a space in it.
_EXEC = re.compile(rb"^'''exec' (.+?) \"\$0\" \"\$@\"", re.MULTILINE)
# What pnpm (and npm's cmd-shim) write instead of a link.
_BASEDIR = re.compile(rb"\"\$basedir/([^\"$]+\.[cm]?js)\"")
_SEPARATORS = re.compile(r"[-_.]+")
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+.\w]*\w)?")


class Installed(NamedTuple):
    """What a command turned out to be."""

    product: str
    """The distribution's name in its registry: "kimi-cli", "@moonshot-ai/kimi-code"."""
    version: str
    place: str
    """The directory that proves it: the `.dist-info`, or the npm package's own."""


def find_program(provider: str, programs: Programs, env: Environment) -> Program | None:
    """The first that works, else the first that does not, with its problem. Others of the same name are passed over.

    What the config names is taken at its word, unless its files say that it is something else.
    """
    unusable: Program | None = None
    chosen = env.programs.get(provider)
    for path in _list_candidates(chosen, programs.commands, env.variables.get("PATH", "")):
        installed = identify(path) or _ask(path, programs, env)
        if installed is None or installed.product != programs.product:
            if path != chosen:
                continue
            if installed is None:
                return Program(provider=provider, path=path, version=None)
            problem = f"it is {installed.product}, not {programs.product}"
            return Program(provider=provider, path=path, version=installed.version, problem=problem)
        version = programs.find_update(path, installed.version, env) or installed.version
        program = Program(provider=provider, path=path, version=version, problem=programs.find_problem(version))
        if program.problem is None:
            return program
        unusable = unusable or program
    return unusable


def _list_candidates(chosen: str | None, commands: Sequence[str], path_variable: str) -> Iterator[str]:
    if chosen is not None:
        yield chosen
    for command in commands:
        yield from find_on_path(command, path_variable)


def _ask(path: str, programs: Programs, env: Environment) -> Installed | None:
    """By its own word: others may have a command of the same name, and say something else before their version."""
    said, before = env.ask_version(path) or "", programs.says_before_version
    version = parse_version(said)
    is_it = said.startswith(before) if before else said == f"{version}{programs.says_after_version}"
    return Installed(programs.product, version, path) if version is not None and is_it else None


def find_on_path(name: str, path_variable: str) -> Iterator[str]:
    """Every executable `name` on PATH in order, each target once. Relative PATH entries are left out."""
    seen: set[tuple[int, int]] = set()
    for directory in path_variable.split(os.pathsep):
        if not os.path.isabs(directory):
            continue
        path = os.path.join(directory, name)
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            continue
        if not stat.S_ISREG(status.st_mode) or not os.access(path, os.X_OK):
            continue
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            yield path


def identify(path: str) -> Installed | None:
    """Which product and version the command at `path` is; None when its files do not say."""
    real = os.path.realpath(path)
    head = _read_head(real)
    if head is None:
        return None
    if shim := _BASEDIR.search(head):
        return find_npm_package(os.path.realpath(os.path.join(os.path.dirname(real), os.fsdecode(shim[1]))))
    if interpreter := _find_interpreter(head):
        if module := _find_imported_module(head):
            return _find_distribution(module, interpreter, real)
        return None
    return find_npm_package(real)


def find_npm_package(path: str) -> Installed | None:
    """The npm package that the file at `path` (real, not a link) belongs to: the nearest that has a name."""
    directory = path
    for _ in range(_PARENTS):
        directory = os.path.dirname(directory)
        if os.path.basename(directory) == "node_modules":
            return None
        # A package.json without a name only sets how the files beside it are loaded.
        content = read_regular(os.path.join(directory, "package.json"), _SMALL_FILE)
        if not isinstance(content, Unreadable):
            try:
                package = _PACKAGE.decode(content.data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return None
            if package.name and package.version:
                return Installed(package.name, package.version, directory)
    return None


def find_python_distribution(module: str, site_packages: str) -> Installed | None:
    """The distribution that brought the top-level `module` into this site-packages directory."""
    try:
        names = sorted(name for name in os.listdir(site_packages) if name.endswith(".dist-info"))
    except OSError:
        return None
    wanted = _normalise(module)
    own_name = [name for name in names if _normalise(name.partition("-")[0]) == wanted]
    for name in own_name or names:
        place = os.path.join(site_packages, name)
        if not own_name and not _has_entry_point(place, module):
            continue
        if installed := _read_metadata(place):
            return installed
    return None


def probe_version(path: str, timeout_seconds: float = 20.0) -> str | None:
    """What `path --version` prints, at most its first two lines; None when it fails or takes too long.

    It runs the program: for `doctor` and `resume` only, never for a listing. It has no terminal and no input.
    """
    import subprocess

    from corral.machine.descriptors import with_given_limit

    try:
        done = subprocess.run(
            with_given_limit([path, "--version"]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_seconds,
            check=False,
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    lines = done.stdout[:_SCRIPT_HEAD].decode(errors="replace").strip().splitlines()
    return "\n".join(line.strip() for line in lines[:2]) or None


def parse_version(text: str) -> str | None:
    """The first thing in `text` that looks like a version: "kimi, version 1.51.0" gives "1.51.0"."""
    found = _VERSION.search(text)
    return found[0] if found else None


def version_tuple(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparing: "1.52.0rc1" gives (1, 52, 0)."""
    numbers: list[int] = []
    for part in version.split("."):
        digits = re.match(r"\d+", part)
        if digits is None:
            break
        numbers.append(int(digits[0]))
        if digits[0] != part:
            break
    return tuple(numbers)


class _Package(msgspec.Struct):
    name: str | None = None
    version: str | None = None


_PACKAGE = msgspec.json.Decoder(_Package)


def _read_head(path: str) -> bytes | None:
    fd = open_regular(path)
    if isinstance(fd, Unreadable):
        return None
    try:
        return os.read(fd, _SCRIPT_HEAD)
    except OSError:
        return None
    finally:
        os.close(fd)


def _find_interpreter(head: bytes) -> str | None:
    """The absolute path of the Python that a console script names, as written: a virtualenv's is a link."""
    if not head.startswith(b"#!"):
        return None
    words = _split(head[2:].split(b"\n", 1)[0])
    if words and words[0].endswith("/sh") and (trick := _EXEC.search(head)):
        words = _split(trick[1])
    if words and os.path.isabs(words[0]) and "python" in os.path.basename(words[0]):
        return words[0]
    return None


def _split(text: bytes) -> list[str]:
    import shlex

    try:
        return shlex.split(os.fsdecode(text))
    except ValueError:
        return []


def _find_imported_module(head: bytes) -> str | None:
    for found in _IMPORT.finditer(head):
        module = found[1].decode().partition(".")[0]
        if module not in {"re", "sys", "os"}:
            return module
    return None


def _find_distribution(module: str, interpreter: str, script: str) -> Installed | None:
    # The script's own prefix comes second: `pip install --user` runs the system's Python from ~/.local/bin.
    for program in (interpreter, script):
        for site_packages in _list_site_packages(os.path.dirname(os.path.dirname(program))):
            if installed := find_python_distribution(module, site_packages):
                return installed
    return None


def _list_site_packages(prefix: str) -> Iterator[str]:
    for library in ("lib", "lib64", "local/lib"):
        parent = os.path.join(prefix, library)
        try:
            names = sorted(name for name in os.listdir(parent) if name.startswith("python3"))
        except OSError:
            continue
        for name in names:
            yield from (os.path.join(parent, name, kind) for kind in ("site-packages", "dist-packages"))


def _has_entry_point(place: str, module: str) -> bool:
    content = read_regular(os.path.join(place, "entry_points.txt"), _SMALL_FILE)
    if isinstance(content, Unreadable):
        return False
    return re.search(rf"=\s*{re.escape(module)}[.:]".encode(), content.data) is not None


def _read_metadata(place: str) -> Installed | None:
    content = read_regular(os.path.join(place, "METADATA"), _SMALL_FILE)
    if isinstance(content, Unreadable):
        return None
    fields: dict[str, str] = {}
    for line in content.data.decode(errors="replace").splitlines():
        if not line:
            break
        key, _, value = line.partition(":")
        fields.setdefault(key.lower(), value.strip())
    name, version = fields.get("name"), fields.get("version")
    return Installed(_SEPARATORS.sub("-", name).lower(), version, place) if name and version else None


def _normalise(name: str) -> str:
    return _SEPARATORS.sub("_", name).lower()
