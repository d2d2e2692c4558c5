"""Terminals that outlive their viewers: a small holder process each, found and spoken to through a Unix socket.

The door of the room: others call these functions, and each imports what it needs when it is called. The holder, which
has to be small, imports it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corral.model.terminal import Terminal
    from corral.terminals.client import Client as Client
    from corral.terminals.client import Line as Line
    from corral.terminals.client import Patience as Patience
    from corral.terminals.modes import ModeReader as ModeReader
    from corral.terminals.queries import QueryFilter as QueryFilter


def terminals_dir() -> str:
    """Where the holders of this state directory have their sockets."""
    from corral.terminals.directory import terminals_dir

    return terminals_dir()


def list_terminals(directory: str) -> list[Terminal]:
    """Every terminal that left a readable record or exit status, oldest first."""
    from corral.terminals.directory import list_terminals

    return list_terminals(directory)


def find_terminal(directory: str, tab: str) -> Terminal | None:
    """One of them by name; None when nothing of it is left."""
    from corral.terminals.directory import find_terminal

    return find_terminal(directory, tab)


def own_tab() -> str | None:
    """The terminal of ours in which this very process runs."""
    import os

    from corral.terminals.directory import TAB_VARIABLE

    return os.environ.get(TAB_VARIABLE)


def open_client(directory: str, tab: str) -> Client:
    """A viewer that blocks, greeted by the holder. Raises NotReachable."""
    from corral.terminals.client import Client

    return Client(directory, tab)


def open_line(directory: str, tab: str) -> Line:
    """A viewer for an event loop, connected and nothing said yet; connecting itself blocks. Raises NotReachable."""
    from corral.terminals.client import Line

    return Line(directory, tab)


def track_modes() -> ModeReader:
    """Knows from what is shown how to put a terminal back as it was."""
    from corral.terminals.modes import ModeReader

    return ModeReader()


def filter_queries() -> QueryFilter:
    """Takes out of what is shown a second time what the program asked its terminal."""
    from corral.terminals.queries import QueryFilter

    return QueryFilter()


def say_end(status: int | None) -> str:
    """How a program ended, in words; `status` is the exit code, or the negative signal."""
    from corral.terminals.directory import say_end

    return say_end(status)
