"""What a listing may ask of those that went before it."""

from __future__ import annotations

from typing import Protocol

from corral.model.record import Resting, SessionRecord


class BrokenCache(Exception):
    """The cache holds something that corral never wrote: a failing disk. It must be rebuilt."""


class Known(Protocol):
    """What an earlier survey read: a session, or a whole directory, is valid only for an equal fingerprint."""

    def load(self) -> None: ...
    def find_settled(self, directory: str, fingerprint: bytes) -> list[SessionRecord | Resting] | None: ...
    def settle(self, directory: str, fingerprint: bytes) -> None: ...
    def find(self, path: str, fingerprint: tuple[int, ...]) -> SessionRecord | None: ...
    def keep(self, path: str, fingerprint: tuple[int, ...], record: SessionRecord) -> None: ...
