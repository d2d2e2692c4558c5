"""Packs the hook program into one file that needs nothing but a Python."""

from __future__ import annotations

import binascii
import importlib.util
import marshal
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from corral.sidecar.files import FileBytes, read_regular

_ROOT = Path(__file__).resolve().parents[2]
_PARTS = (
    "hooks/program/main.py",
    "hooks/program/journal_file.py",
    "hooks/program/report.py",
    "providers/kit/caller.py",
    "providers/kit/reported.py",
    "model/open_sessions.py",
    "sidecar/*.py",
    "providers/*/reporter.py",
)
MAX_BYTES = 4 << 20
_ANY_PYTHON = 2
"""A version of the marshal format that every Python 3 reads."""


@cache
def list_sources() -> Mapping[str, bytes]:
    """The source of every module of the program by its name. A package is empty: its parts are imported alone."""
    sources: dict[str, bytes] = {}
    for path in sorted(path for part in _PARTS for path in _ROOT.glob(part)):
        words = path.relative_to(_ROOT.parent).with_suffix("").parts
        sources.update({".".join(words[:end]): b"" for end in range(1, len(words))})
        if words[-1] != "__init__":
            sources[".".join(words)] = path.read_bytes()
    return sources


def build_program() -> bytes:
    """The starter, and behind it as comments: compiled code for this Python, and the sources for any other."""
    sources = list_sources()
    code = marshal.dumps({name: _compile(name, source) for name, source in sources.items()}, _ANY_PYTHON)
    packed = zlib.compress(marshal.dumps(dict(sources), _ANY_PYTHON), 9)
    magic = importlib.util.MAGIC_NUMBER.hex().encode()
    return b"%s\n# %s %s\n# %s\n" % (_starter(), magic, _encode(code), _encode(packed))


def find_problem(path: str) -> str | None:
    """Why the program at `path` is not this version of it, in words; None when it is.

    Sources are compared, not compiled code, which may differ from one Python to the next.
    """
    found = read_regular(path, MAX_BYTES)
    if not isinstance(found, FileBytes):
        return "is missing" if found.code == "io:ENOENT" else f"can't be read: {found.reason}"
    parts = _unpack(found.data)
    if parts is None:
        return "can't be read: it is damaged"
    return None if parts == (_starter(), list_sources()) else "is of another corral version"


def is_program(path: str) -> bool:
    """Whether the file at `path` is a hook program, of whatever version."""
    found = read_regular(path, MAX_BYTES)
    return isinstance(found, FileBytes) and _unpack(found.data) is not None


def _unpack(data: bytes) -> tuple[bytes, Any] | None:
    try:
        starter, _, packed = data.rsplit(b"\n# ", 2)
        return starter, marshal.loads(zlib.decompress(binascii.a2b_base64(packed)))
    except (ValueError, EOFError, TypeError, zlib.error):
        return None


def _starter() -> bytes:
    return (_ROOT / "hooks" / "program" / "starter.py").read_bytes()


def _compile(name: str, source: bytes) -> bytes:
    return marshal.dumps(compile(source, f"<hook>/{name}", "exec", dont_inherit=True, optimize=2)) if source else b""


def _encode(data: bytes) -> bytes:
    return binascii.b2a_base64(data, newline=False)
