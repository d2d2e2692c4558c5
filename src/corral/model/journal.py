"""Journals: what one agent process reported through our hooks, in order."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from corral.sidecar.identity import ProcessIdentity


class JournalEventKind(StrEnum):
    """A session began or ended in that process."""

    START = "start"
    END = "end"


class JournalEvent(Struct, frozen=True, kw_only=True):
    """One report. Fields that the provider does not give are None."""

    event: JournalEventKind
    session_id: str
    at: float
    """Epoch seconds."""
    boottime: float
    """Seconds of CLOCK_BOOTTIME; events are in its order, which no clock step can change."""
    awake: float | None = None
    """Seconds of CLOCK_MONOTONIC, in which the machine's sleep does not count; None in journals of older versions."""
    source: str | None = None
    """Of a start, in the provider's word: startup, resume, clear … Ours: "heartbeat", for one we missed."""
    reason: str | None = None
    """Of an end, in the provider's word. Ours: "replaced", where the provider does not report the end."""
    work_dir: str | None = None
    scope: str | None = None
    """The container that holds the session, where exactly one was found."""
    model: str | None = None
    model_source: str | None = None
    """Where the model was read: "payload", "KIMI_MODEL_NAME", "config.toml"."""


class Journal(Struct, frozen=True, kw_only=True):
    """Everything one process reported. It says nothing about whether that process still runs."""

    provider: str
    path: str
    identity: ProcessIdentity
    hostname: str
    home: str
    version: str | None
    many: bool
    """The process serves several sessions by nature: all that it has not ended are current."""
    events: tuple[JournalEvent, ...]
    dropped_events: int = 0
    """Events of ended sessions that were left out to keep the journal small."""
    owner_uid: int | None = None
    """Owner of the file."""
    heard_at: float | None = None
    """Epoch seconds: when its current session was confirmed last, without anything new."""
    heard_awake: float | None = None
    """The same in seconds of CLOCK_MONOTONIC; None when it never was, or in journals of older versions."""
    home_id: tuple[int, int] | None = None
    """Device and inode of the home, the same wherever it is mounted; None in journals of older versions."""
    missed: JournalEventKind | None = None
    """A report of that process was lost, of this kind: a start, or nothing but ends."""

    @property
    def reported_at(self) -> float:
        """Epoch seconds of its newest report; 0 when it has none."""
        return max((*(event.at for event in self.events), self.heard_at or 0.0))

    @property
    def spoke_awake(self) -> float | None:
        """Seconds of CLOCK_MONOTONIC of its newest report, if its session was ever confirmed without a need."""
        if self.heard_awake is None:
            return None
        return max((self.heard_awake, *(event.awake for event in self.events if event.awake is not None)))
