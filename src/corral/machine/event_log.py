"""A log for machines: one JSON object per line, rotated; it never contains what was typed or shown."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler

from corral.machine.json_text import encode_json

LIMIT_BYTES = 1 << 20
KEPT = 3


class EventLog:
    """Appends to one file, 0600. A full disk loses lines, never work."""

    def __init__(self, path: str) -> None:
        self._file = _PrivateFile(path, maxBytes=LIMIT_BYTES, backupCount=KEPT, delay=True)

    def write(self, event: str, **fields: str | int | float | bool | None) -> None:
        line = encode_json({"at": round(time.time(), 3), "event": event, **fields}).decode()
        self._file.handle(logging.makeLogRecord({"msg": line}))
        with suppress(OSError):
            self._file.close()  # the next event opens it again, even if somebody has taken this file away


class _PrivateFile(RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=_open_private)

    def handleError(self, record: logging.LogRecord) -> None:
        """Says nothing: there is nobody to say it to."""


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
