"""A session's state on a terminal: its word with an age or a time of day. The word comes from `sessions`."""

from __future__ import annotations

import time

from corral.cli.screen import age
from corral.model.session import Appearance


def say_state(shown: Appearance, now: float) -> str:
    """Such as "busy 2 min" or "lost 21:08"."""
    if shown.since is not None:
        return f"{shown.word} {age(now - shown.since)}"
    return f"{shown.word} {_clock(shown.lost_at, now)}" if shown.lost_at is not None else shown.word


def _clock(at: float, now: float) -> str:
    """The time of day, with the date when it was not today."""
    then = time.localtime(at)
    same_day = time.strftime("%Y%j", then) == time.strftime("%Y%j", time.localtime(now))
    return time.strftime("%H:%M" if same_day else "%b %d %H:%M", then)
