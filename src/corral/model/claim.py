"""Claims: statements that a process serves a session, as found, before anything is judged."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from corral.model.journal import JournalEventKind


class ClaimKind(StrEnum):
    """Where a claim was read. The order is the order of authority."""

    REGISTRY = "registry"
    LOCK = "lock"
    JOURNAL = "journal"
    LOG = "log"
    CHILD = "child"
    RUNTIME = "runtime.json"
    LAUNCH = "launch"


AUTHORITY = {kind: rank for rank, kind in enumerate(ClaimKind)}


class Claim(Struct, frozen=True, kw_only=True):
    """One statement "process P serves session S". Fields that the writer did not give are None."""

    kind: ClaimKind
    provider: str
    home: str
    scope: str | None
    """None when the writer does not name the container; joined only if the id is unique in the home."""
    session_id: str
    path: str
    pid: int
    written_at: float | None
    """Epoch seconds of the writing: the writer was alive then."""
    boottime: float | None = None
    """Seconds of CLOCK_BOOTTIME at the writing, where the writer says them."""
    hostname: str | None = None
    boot_id: str | None = None
    pid_ns: int | None = None
    start_ticks: int | None = None
    owner_uid: int | None = None
    """Owner of the file."""
    on_network_fs: bool = False
    work_dir: str | None = None
    """For display, and to raise doubt; never to identify."""
    version: str | None = None
    model: str | None = None
    source: str | None = None
    """How the session began in that process, in the provider's word: startup, resume, clear …"""
    activity: str | None = None
    """The provider's own word for what the process does now, where the claim carries it."""
    waits_for: str | None = None
    """Of a process that waits for a person: what for, in the provider's words."""
    ended_at: float | None = None
    """The writer says that the process left this session then."""
    end_reason: str | None = None
    many: bool = False
    """The process serves several sessions by nature: none of its claims supersedes another."""
    foreground: bool | None = None
    """Of a process with several sessions: whether this one is in front; None when its writer does not say."""
    missed: JournalEventKind | None = None
    """A report of that process was lost, which may have been later: it may have moved on, or at least left."""
    is_copy: bool | None = None
    """Of a record that names the directory it was written into: whether it is in another one now. None: it does not."""
    by_hook: bool = False
    """Our hook wrote it, not the process itself: it counts only while that process's hooks report."""
    silence: str | None = None
    """Of our own launch: why the provider is not expected to say which session the process has."""


class BadClaim(Struct, frozen=True, kw_only=True):
    """A record that names no valid process or session: shown as evidence, changes no state."""

    kind: ClaimKind
    provider: str
    home: str
    path: str
    reason: str
    session_id: str | None = None
    """As the file's place says, where it does; for display."""
    scope: str | None = None
