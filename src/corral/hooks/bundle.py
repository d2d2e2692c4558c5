"""Packs the hook program into one file that needs nothing but a Python."""

from __future__ import annotations

import importlib.util
import io
import marshal
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_MAIN = b"from corral.hooks.program import main\n\nmain()\n"
_EMPTY = ("corral/__init__.py", "corral/hooks/__init__.py", "corral/verdicts/__init__.py")
_MODULES = (
    "hooks/program.py",
    "hooks/cli_process.py",
    "hooks/journal_file.py",
    "hooks/report.py",
    "hooks/session_place.py",
    "verdicts/open_sessions.py",
)
_WHEN = (1980, 1, 1, 0, 0, 0)
_UNCHECKED_HASH_PYC = 0b01


def list_sources() -> dict[str, bytes]:
    """Every source file of the program by its name in the archive."""
    sources = {"__main__.py": _MAIN, **dict.fromkeys(_EMPTY, b"")}
    for module in _MODULES:
        sources[f"corral/{module}"] = (_ROOT / module).read_bytes()
    for path in sorted((_ROOT / "sidecar").glob("*.py")):
        sources[f"corral/sidecar/{path.name}"] = path.read_bytes()
    return sources


def build_program() -> bytes:
    """The archive: compiled code for this Python, and the sources, which any other Python falls back to."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, source in list_sources().items():
            # Compiled first: that is the order in which zipimport looks.
            _add(archive, name + "c", _compile(name, source))
            _add(archive, name, source)
    return buffer.getvalue()


def find_problem(path: str) -> str | None:
    """Why the program at `path` is not this version of it, in words; None when it is.

    Sources are compared, not bytes: the compiled code may differ from one Python to the next.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            wanted = list_sources()
            names = {name for name in archive.namelist() if not name.endswith(".pyc")}
            if names == set(wanted) and all(archive.read(name) == data for name, data in wanted.items()):
                return None
    except FileNotFoundError:
        return "is missing"
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        return f"can't be read: {error}"
    return "is of another corral version"


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _WHEN)
    entry.external_attr = 0o600 << 16
    archive.writestr(entry, data)


def _compile(name: str, source: bytes) -> bytes:
    """A .pyc that is never checked against a clock: flags say "hash", and "do not look"."""
    code = SourceFileLoader("<hook>", name).source_to_code(source, f"<hook>/{name}", _optimize=2)
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH_PYC.to_bytes(4, "little")
    return header + importlib.util.source_hash(source) + marshal.dumps(code)
