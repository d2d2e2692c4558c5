"""A copy of a broken ledger with a header made anew: SQLite refuses a whole file for damage in its first bytes."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress

from corral.store.private_file import make_private, name_aside

_HEADER = struct.Struct(">16sH6B4I8I20x2I")
_WAL, _FRACTIONS, _FORMAT, _UTF8 = 2, (64, 32, 32), 4, 1
_FIXED = (slice(0, 24), slice(44, 92))
"""What is the same in every ledger; the rest are counters, which SQLite can do without."""


@contextmanager
def with_sound_header(broken: str, page_bytes: int) -> Generator[str]:
    """The file itself if its header is that of a ledger, else the path of a copy, with its log, that is gone after."""
    sound = _make_header(page_bytes)
    if _is_sound(broken, sound, page_bytes):
        yield broken
        return
    copy = name_aside(os.path.join(os.path.dirname(broken), "ledger.db"))  # swept if we are killed
    try:
        for suffix in ("-wal", ""):
            with suppress(FileNotFoundError):
                make_private(copy + suffix)
                shutil.copyfile(broken + suffix, copy + suffix)
        with open(copy, "r+b") as file:
            file.write(sound)
        yield copy
    finally:
        for suffix in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                os.unlink(copy + suffix)


def _is_sound(path: str, sound: bytes, page_bytes: int) -> bool:
    with open(path, "rb") as file:
        found = file.read(_HEADER.size)
        size = os.fstat(file.fileno()).st_size
    if len(found) < _HEADER.size:
        return True  # nothing could be saved
    if found[18:20] == b"\1\1":  # without a write-ahead log
        found = found[:18] + sound[18:20] + found[20:]
    counted = found[24:28] != found[92:96] or int.from_bytes(found[28:32]) * page_bytes == size
    return counted and all(found[part] == sound[part] for part in _FIXED)


def _make_header(page_bytes: int) -> bytes:
    """Change counters that differ (1 and 0) let SQLite take the number of pages from the file's size."""
    size = 1 if page_bytes == 1 << 16 else page_bytes
    counters, about = (1, 0, 0, 0), (1, _FORMAT, 0, 0, _UTF8, 0, 0, 0)
    return _HEADER.pack(b"SQLite format 3\0", size, _WAL, _WAL, 0, *_FRACTIONS, *counters, *about, 0, 0)
