"""Signs and words for states: one table for every view, a shape, a colour and a word each."""

from __future__ import annotations

import time
from typing import NamedTuple

from corral.cli.screen import age
from corral.model.session import Session
from corral.model.verdict import Activity, State


class Said(NamedTuple):
    """A state as people see it."""

    sign: str
    colour: str
    words: str


def say_state(session: Session, now: float) -> Said:
    """The state of a session in a sign, a colour and a few words."""
    record = session.record
    match session.state:
        case State.LIVE:
            return _say_live(session, now)
        case State.PENDING:
            return Said("◌", "grey", "starting" if session.silence is None else "unconfirmed")
        case State.IDLE:
            since = f" {age(now - session.updated_at)}" if session.updated_at else ""
            return Said("○", "grey", f"idle{since}")
        case State.ORPHANED:
            at = (record.updated_at or record.turn_started_at) if record else None
            return Said("✖", "red", f"lost {_clock(at, now)}" if at else "lost")
        case State.UNKNOWN:
            return Said("?", "violet", "maybe open" if session.verdict.maybe_pids else "unknown")
        case State.ELSEWHERE:
            return Said("⇄", "grey", session.elsewhere or "elsewhere")
        case State.EMPTY:
            return Said("·", "faint", "empty")


def _say_live(session: Session, now: float) -> Said:
    record = session.record
    since = record.turn_started_at if record else None
    span = f" {age(now - since)}" if since else ""
    match session.activity:
        case Activity.WAITING:
            return Said("◆", "amber", f"waiting{span}")
        case Activity.BUSY:
            return Said("◐", "blue", f"busy{span}")
        case Activity.READY:
            return Said("●", "green", "ready")
        case None:
            return Said("●", "green", "live")


def _clock(at: float, now: float) -> str:
    """The time of day, with the date when it was not today."""
    then = time.localtime(at)
    same_day = time.strftime("%Y%j", then) == time.strftime("%Y%j", time.localtime(now))
    return time.strftime("%H:%M" if same_day else "%b %d %H:%M", then)
