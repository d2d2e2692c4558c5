"""The records of one home as an earlier survey read them: a whole directory at once, or one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from corral.model.known import BrokenShelf
from corral.model.record import Resting, SessionRecord
from corral.model.verdict import State
from corral.sessions.decide.state import decide_resting

_Entry = tuple[str, int, SessionRecord]
"""A path, the fingerprint it had, and what was read there."""

_encode = msgspec.msgpack.Encoder().encode
_decode_entries = msgspec.msgpack.Decoder(list[_Entry]).decode
_decode_ids = msgspec.msgpack.Decoder(tuple[list[str], float]).decode


class Shelf(NamedTuple):
    """What is known of one directory. Nothing is decoded until it is needed."""

    directory: str
    seal: bytes
    """What the directory looked like as a whole; empty when it was still changing."""
    resting_ids: bytes
    """The ids of the entries below, and when the newest record of them all was written."""
    notable: bytes
    """Entries that a survey wants to see: not idle, or with a runtime.json beside them."""
    resting: bytes
    """All other entries."""


class KnownRecords:
    """Each record is valid only for an equal fingerprint, each directory only for an equal seal."""

    def __init__(self, provider: str, home: str, read: Callable[[], Iterable[Shelf]]) -> None:
        self.provider = provider
        self.home = home
        self._read = read
        self._shelves: dict[str, Shelf] | None = None
        self._settled: set[str] = set()
        """Directories that were found as they had been."""
        self._open: dict[str, _Directory] = {}
        """Directories that were listed one by one."""

    def load(self) -> None:
        """Read now what would be read at the first question."""
        if self._shelves is None:
            self._shelves = {shelf.directory: shelf for shelf in self._read()}

    def find_settled(self, directory: str, seal: bytes) -> list[SessionRecord | Resting] | None:
        """All sessions of a directory in which nothing has changed, else None."""
        shelf = self._shelf(directory)
        if shelf is None or shelf.seal != seal:
            return None
        try:
            notable = _decode_entries(shelf.notable)
            ids, recorded_at = _decode_ids(shelf.resting_ids)
        except msgspec.DecodeError:
            return None
        self._settled.add(directory)
        found: list[SessionRecord | Resting] = [entry[2] for entry in notable]
        if ids:
            found.append(Resting(ids, lambda: _load_resting(shelf), recorded_at))
        return found

    def find(self, path: str, fingerprint: tuple[int, ...]) -> SessionRecord | None:
        return self._directory(path).find(path, fingerprint)

    def keep(self, path: str, fingerprint: tuple[int, ...], record: SessionRecord) -> None:
        self._directory(path).keep(path, fingerprint, record)

    def settle(self, directory: str, seal: bytes) -> None:
        """Every session of the directory was found or kept just now, and it looks like this as a whole."""
        if directory in self._open:
            self._open[directory].seal = seal

    def changes(self) -> dict[str, Shelf | None]:
        """What to store for each directory in which something is new or gone; None when nothing is left of it."""
        self.load()
        changed: dict[str, Shelf | None] = {}
        for name, directory in self._open.items():
            if directory.has_changed():
                try:
                    changed[name] = directory.shelve()
                except UnicodeEncodeError:
                    changed[name] = None  # a path that is no UTF-8: read anew each time
        gone = (self._shelves or {}).keys() - self._settled - self._open.keys()
        return changed | dict.fromkeys(gone)

    def _shelf(self, directory: str) -> Shelf | None:
        self.load()
        return (self._shelves or {}).get(directory)

    def _directory(self, path: str) -> _Directory:
        name = os.path.dirname(path)
        found = self._open.get(name)
        if found is None:
            found = self._open[name] = _Directory(name, self._shelf(name))
        return found


class _Directory:
    """One directory whose sessions are asked for one by one."""

    def __init__(self, name: str, shelf: Shelf | None) -> None:
        self._name = name
        self._seal_before = shelf.seal if shelf is not None else b""
        self._entries = _decode_shelf(shelf) if shelf is not None else {}
        self._met: set[str] = set()
        self._is_fresh = False
        self.seal = b""

    def find(self, path: str, fingerprint: tuple[int, ...]) -> SessionRecord | None:
        entry = self._entries.get(path)
        # The hash of a tuple of integers is the same in every run.
        if entry is None or entry[1] != hash(fingerprint):
            return None
        self._met.add(path)
        return entry[2]

    def keep(self, path: str, fingerprint: tuple[int, ...], record: SessionRecord) -> None:
        self._met.add(path)
        self._is_fresh = True
        self._entries[path] = (path, hash(fingerprint), record)

    def has_changed(self) -> bool:
        return self._is_fresh or self.seal != self._seal_before or len(self._met) < len(self._entries)

    def shelve(self) -> Shelf | None:
        kept = [entry for path, entry in self._entries.items() if path in self._met]
        if not kept:
            return None
        resting: list[_Entry] = []
        notable: list[_Entry] = []
        for entry in kept:
            record = entry[2]
            is_resting = record.sidecar is None and decide_resting(record)[0] is State.IDLE
            (resting if is_resting else notable).append(entry)
        ids = [entry[2].session_id for entry in resting]
        recorded_at = max((entry[2].recorded_at or 0.0 for entry in resting), default=0.0)
        return Shelf(self._name, self.seal, _encode((ids, recorded_at)), _encode(notable), _encode(resting))


def _load_resting(shelf: Shelf) -> list[SessionRecord]:
    try:
        return [entry[2] for entry in _decode_entries(shelf.resting)]
    except msgspec.DecodeError as error:
        raise BrokenShelf(str(error)) from error


def _decode_shelf(shelf: Shelf) -> dict[str, _Entry]:
    try:
        entries = _decode_entries(shelf.notable) + _decode_entries(shelf.resting)
    except msgspec.DecodeError:
        return {}
    return {entry[0]: entry for entry in entries}
