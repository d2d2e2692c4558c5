"""Which sessions a process has open, from its starts and ends in order. The hook carries it: no imports."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def open_sessions(events: Iterable[tuple[bool, str]]) -> list[int]:
    """Of (is a start, session id) in order: positions of the starts that no later end closes, oldest first.

    A start of a session that is already open counts as its newest start. An end without a start changes
    nothing, and so does a second end.
    """
    opened: dict[str, int] = {}
    for position, (is_start, session_id) in enumerate(events):
        opened.pop(session_id, None)
        if is_start:
            opened[session_id] = position
    return list(opened.values())


def current_positions(events: Iterable[tuple[bool, str]], many: bool) -> list[int]:
    """Positions of the starts whose sessions the process serves now: the newest open one, or all if `many`.

    kimi-code 2.1.0 starts the new session before it ends the old one, and its /fork starts and at once ends a
    session that the process never moves to: "the last start" would be wrong (seen 2026-11).
    """
    opened = open_sessions(events)
    return opened if many else opened[-1:]
