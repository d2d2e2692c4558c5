"""Where a running agent is, and how to get there."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from corral.model.process import ProcessIdentity
from corral.model.session import Session


class Pane(NamedTuple):
    """One pane of one tmux server."""

    socket: str
    pane_id: str
    """As tmux names it for as long as it lives: `%3`."""
    name: str
    """As people name it: `work:2.1`."""
    pid: int
    """The process that tmux started in it."""


class InTab(Struct, frozen=True):
    """In a terminal of ours."""

    tab: str


class InPane(Struct, frozen=True):
    """In a pane of the user's tmux."""

    pane: Pane


class InTerminal(Struct, frozen=True, kw_only=True):
    """In a terminal that we have no way into."""

    pid: int
    program: str
    tty: str
    keeper: str | None
    """The program behind that terminal, with its pid: "sshd (pid 812)"; None when it is not known."""


class Nowhere(Struct, frozen=True):
    """It runs without a terminal, or is gone."""

    reason: str


Whereabouts = InTab | InPane | InTerminal | Nowhere
_NOT_SERVED = Nowhere("no process serves it")


class Way(Struct, frozen=True, kw_only=True):
    """How to get to a pane of tmux."""

    command: tuple[str, ...] | None
    """From here; None from within another tmux server, where neither way works."""
    from_outside: tuple[str, ...]
    """What shows the pane in a terminal outside tmux."""
    is_here: bool
    """We run in a pane of this same server: the command only switches to another."""


class Found(Struct, frozen=True):
    """A process that has the session or may have it, and where it is."""

    identity: ProcessIdentity
    where: Whereabouts

    def say_where(self) -> str:
        """In one sentence."""
        pid = self.identity.pid
        match where := self.where:
            case InTab():
                return f"pid {pid} runs in a terminal of corral"
            case InPane():
                return f"pid {pid} runs in tmux, pane {where.pane.name}"
            case InTerminal():
                keeper = f", a terminal of {where.keeper}" if where.keeper else ""
                return f"pid {pid} ({where.program}) runs on {where.tty}{keeper}"
            case Nowhere():
                return where.reason


class Look(Struct, frozen=True):
    """What was found of one session."""

    session: Session
    processes: tuple[Found, ...]

    @property
    def where_served(self) -> Whereabouts:
        """Where the verified process is that serves it, the last one if there are several."""
        serving = self.session.verdict.processes
        return next((one.where for one in self.processes if serving and one.identity == serving[-1]), _NOT_SERVED)
