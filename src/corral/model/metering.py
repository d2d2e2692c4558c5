"""What sessions use of the machine: processes of one snapshot, how they are divided, and what each part uses."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from corral.model.key import SessionKey
from corral.model.session import Degraded, Session


class SeenProcess(Struct, frozen=True, kw_only=True):
    """One process of a snapshot of /proc, as far as it says whose it is."""

    pid: int
    start_ticks: int
    parent_pid: int
    group: int
    """The number of its process group; 0 when it can't be read from here."""
    kernel_session: int
    """The number of its session in the kernel's sense (setsid); 0 when it can't be read from here."""
    name: str = ""
    tab: str | None = None
    """The terminal of ours that its environment names."""


class Grounds(StrEnum):
    """By what a process whose parent is gone was found to belong to a session."""

    TAB = "tab"
    GROUP = "group"
    KERNEL_SESSION = "kernel_session"


class Adopted(Struct, frozen=True, kw_only=True):
    """A process whose parent is gone, and that is a session's all the same."""

    pid: int
    grounds: Grounds


class Share(Struct, frozen=True, kw_only=True):
    """The processes of one session."""

    pids: tuple[int, ...] = ()
    adopted: tuple[Adopted, ...] = ()


class Tree(Struct, frozen=True, kw_only=True):
    """A process with its descendants that is charged to no session: it serves several, or may be some session's."""

    pid: int
    sessions: tuple[SessionKey, ...]
    """Those that it serves; of a stray, those that it may belong to."""
    pids: tuple[int, ...]
    reason: str | None = None
    """Of a stray: why it is not known whose it is."""


class Division(Struct, frozen=True, kw_only=True):
    """A snapshot divided: every process is in one part at most."""

    shares: dict[SessionKey, Share]
    shared: tuple[Tree, ...]
    """Each serves several sessions."""
    strays: tuple[Tree, ...]
    """Each has lost its parent, and may be a session's."""


class MemoryKind(StrEnum):
    """What a figure of memory is."""

    PSS = "pss"
    """Pages that several processes share count in parts, so that figures add up."""
    RSS = "rss"
    """Shared pages count in full for each process: too much."""
    MIXED = "mixed"


class Use(Struct, frozen=True, kw_only=True):
    """What some processes use. Uses add."""

    processes: int = 0
    cpu_seconds: float = 0.0
    """Of those that run, and of the children that they have waited for."""
    memory_bytes: int = 0
    memory_kind: MemoryKind | None = None
    """None when there is none to speak of: zombies have no memory."""
    unreadable: int = 0
    """Processes below these that /proc does not show us: not in the figures."""

    def __add__(self, other: Use) -> Use:
        kinds = {kind for kind in (self.memory_kind, other.memory_kind) if kind is not None}
        return Use(
            processes=self.processes + other.processes,
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
            memory_bytes=self.memory_bytes + other.memory_bytes,
            memory_kind=MemoryKind.MIXED if len(kinds) > 1 else next(iter(kinds), None),
            unreadable=self.unreadable + other.unreadable,
        )


class MeteredSession(Struct, frozen=True, kw_only=True):
    """One session and what is its own."""

    session: Session
    use: Use | None
    """None when that is not known; then `reason` says why."""
    reason: str | None = None
    pids: tuple[int, ...] = ()
    adopted: tuple[Adopted, ...] = ()
    cpu_percent: float | None = None
    """Of one CPU, since the look before; None in a first look."""


class MeteredTree(Struct, frozen=True, kw_only=True):
    """What a tree uses that is charged to no session."""

    tree: Tree
    name: str
    use: Use


class Metering(Struct, frozen=True, kw_only=True):
    """What all live sessions use at one moment."""

    hostname: str
    taken_at: float
    sessions: tuple[MeteredSession, ...]
    shared: tuple[MeteredTree, ...] = ()
    strays: tuple[MeteredTree, ...] = ()
    degraded: tuple[Degraded, ...] = ()
