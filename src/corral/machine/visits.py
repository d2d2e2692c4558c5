"""Which directories a listing read, and what it found there: so that the next one need not read them again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from zlib import crc32


class Visits:
    """Every directory that was listed, with a checksum of its names."""

    def __init__(self) -> None:
        self.directories: dict[str, int] = {}
        self.deciders: set[str] = set()
        """Files whose content decides what is listed at all."""
        self.tied: dict[str, int] = {}
        """Logs, with a checksum of the names beside them."""

    def note(self, path: str, names: Iterable[str]) -> None:
        self.directories[path] = sum_names(names)

    def scan(self, path: str) -> list[os.DirEntry[str]]:
        """What is in a directory, by name; nothing where it can't be listed."""
        try:
            with os.scandir(path) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            found = []
        self.note(path, [entry.name for entry in found])
        return found

    def settle(self, path: str) -> None:
        """Nothing more can appear in a directory that matters: it need not be looked at again."""
        self.directories.pop(path, None)

    def tie(self, path: str, log: str) -> None:
        """What appears in a directory comes with growth of that log: checking the log is enough."""
        names = self.directories.pop(path, None)
        if names is not None:
            self.tied[log] = names

    def scan_below(self, path: str) -> None:
        """A directory and those in it."""
        for entry in self.scan(path):
            if entry.is_dir():
                self.scan(entry.path)


def sum_names(names: Iterable[str]) -> int:
    """Equal for the same names, in any order."""
    return crc32("\0".join(sorted(names)).encode(errors="surrogateescape"))
