"""A log for machines: one JSON object per line, rotated; it never carries what was typed or shown."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

from corral.system.json_text import encode_json

_LIMIT = 1 << 20
_KEPT = 3


class EventLog:
    """Appends to one file, 0600. A full disk loses lines, never work."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()

    def write(self, event: str, **fields: str | int | float | bool | None) -> None:
        line = encode_json({"at": round(time.time(), 3), "event": event, **fields}) + b"\n"
        with self._lock, suppress(OSError):
            self._rotate()
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(fd, line)
            finally:
                os.close(fd)

    def _rotate(self) -> None:
        try:
            if os.lstat(self._path).st_size < _LIMIT:
                return
        except FileNotFoundError:
            return
        for number in range(_KEPT - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        os.replace(self._path, f"{self._path}.1")
