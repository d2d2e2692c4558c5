"""Decides the word, sign and colour of a session, whether it needs you, and its place in a list. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.model.session import Appearance, Colour, StateWord
from corral.model.verdict import Activity, State

if TYPE_CHECKING:
    from corral.model.session import Session

STATE_WORDS = (
    StateWord(state=State.LIVE, activity=Activity.WAITING, word="waiting", sign="◆", colour=Colour.AMBER),
    StateWord(state=State.LIVE, activity=Activity.BUSY, word="busy", sign="◐", colour=Colour.BLUE),
    StateWord(state=State.LIVE, activity=Activity.READY, word="ready", sign="●", colour=Colour.GREEN),
    StateWord(state=State.LIVE, word="live", sign="●", colour=Colour.GREEN),
    StateWord(state=State.PENDING, word="starting", sign="◌", colour=Colour.GREY),
    StateWord(state=State.ORPHANED, word="lost", sign="✖", colour=Colour.RED),
    StateWord(state=State.UNKNOWN, word="unknown", sign="?", colour=Colour.VIOLET),
    StateWord(state=State.ELSEWHERE, word="elsewhere", sign="⇄", colour=Colour.GREY),
    StateWord(state=State.IDLE, word="idle", sign="○", colour=Colour.GREY),
    StateWord(state=State.EMPTY, word="empty", sign="·", colour=Colour.FAINT),
)
"""In the order of a list: those that run, those that were lost, those in doubt, the rest."""

_WORDS = {(one.state, one.activity): one for one in STATE_WORDS}
_WAITING, _LOST = 0, 1
_PLACES = {State.LIVE: 2, State.PENDING: 2, State.UNKNOWN: 3, State.ELSEWHERE: 4, State.ORPHANED: 5, State.IDLE: 5}
_LAST = 6


def decide_appearance(session: Session, *, dismissed: bool = False) -> Appearance:
    """`dismissed`: the person has dismissed this loss, so it no longer needs anybody."""
    state, activity, record = session.state, session.activity, session.record
    shown = _WORDS[state, activity if state is State.LIVE else None]
    word = shown.word
    since = lost_at = None
    needs_you, place = False, _PLACES.get(state, _LAST)
    match state:
        case State.LIVE if activity is Activity.READY:
            since = session.updated_at
        case State.LIVE if activity is not None:
            since = record.turn_started_at if record else None
            if activity is Activity.WAITING:
                needs_you, place = True, _WAITING
        case State.PENDING if session.silence is not None:
            word = "unconfirmed"
        case State.ORPHANED:
            lost_at = (record.updated_at or record.turn_started_at) if record else None
            if not dismissed:
                needs_you, place = True, _LOST
        case State.UNKNOWN if session.verdict.maybe_pids:
            word = "maybe open"
        case State.ELSEWHERE:
            word = session.elsewhere or word
        case State.IDLE:
            since = session.updated_at
        case _:
            pass
    return Appearance(
        word=word,
        sign=shown.sign,
        colour=shown.colour,
        since=since,
        lost_at=lost_at,
        needs_you=needs_you,
        order=(place, -_newest(session)),
    )


def _newest(session: Session) -> float:
    """Of a running session its start, since its last change would make it jump in the list; of others that change."""
    running = session.state in (State.LIVE, State.PENDING)
    return (session.pid_started_at if running else session.updated_at) or 0.0
