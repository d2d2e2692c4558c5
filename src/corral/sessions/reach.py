"""Which sessions of a home a process in doubt could have open, and which one may have written what is unexplained."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from corral.machine.process_homes import identify
from corral.model.process import Reach, Recognised
from corral.model.record import SessionRecord
from corral.model.verdict import ClaimVerdict
from corral.sessions.decide.witness import is_explained


class Doubt(Struct, frozen=True):
    """The processes that could have one session open."""

    pids: tuple[int, ...] = ()
    written: str | None = None
    """The time of a write that no known process explains, for people to read."""


NO_DOUBT = Doubt()
_identify = lru_cache(maxsize=None)(identify)


def forget_directories() -> None:
    """A survey looks at each directory once; the next one looks again."""
    _identify.cache_clear()


def contains(reach: Reach, record: SessionRecord) -> bool:
    """Whether a process with this reach could have this session open without having written to it."""
    if reach.directories is None or record.session_id in reach.ids:
        return True
    if not reach.directories:
        return False
    if record.work_dir is None or record.work_dir in reach.paths:
        return True
    found = _identify(record.work_dir)
    return reach.renamed if found is None else found in reach.directories


class Reaching:
    """The processes in doubt that may be at work in one home."""

    def __init__(self, home: str, processes: Sequence[Recognised]) -> None:
        found = ((process, process.reach_in(home)) for process in processes)
        self._processes = [(process, reach) for process, reach in found if reach is not None]
        self.began = min((process.started_at for process, _ in self._processes), default=float("inf"))

    def __bool__(self) -> bool:
        return bool(self._processes)

    @property
    def is_empty_handed(self) -> bool:
        """Whether none of them could have a session open that it did not write to."""
        return all(reach.directories == () for _, reach in self._processes)

    def pids_of(self, record: SessionRecord) -> tuple[int, ...]:
        """Those that could have it open, whether anything was written or not."""
        return tuple(process.identity.pid for process, reach in self._processes if contains(reach, record))

    def doubt(self, record: SessionRecord, claims: Sequence[ClaimVerdict] = ()) -> Doubt:
        """Those that have it within reach, or that ran when it was written and nothing else explains that."""
        pids = dict.fromkeys(self.pids_of(record))
        written_at = record.recorded_at
        if written_at is None or written_at < self.began or is_explained(written_at, claims):
            return Doubt(tuple(pids)) if pids else NO_DOUBT
        pids |= {process.identity.pid: None for process, _ in self._processes if process.started_at <= written_at}
        return Doubt(tuple(pids), time.strftime("%H:%M", time.localtime(written_at))) if pids else NO_DOUBT
