"""How a session appears in every view: the nouns. `sessions.decide.appearance` decides which."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from corral.model.verdict import Activity, State


class Colour(StrEnum):
    """Of a sign. What each looks like is up to the view."""

    GREEN = "green"
    BLUE = "blue"
    AMBER = "amber"
    GREY = "grey"
    RED = "red"
    VIOLET = "violet"
    FAINT = "faint"


class StateWord(Struct, frozen=True, kw_only=True):
    """A state, or one activity of a live session, without a session: for counts, filters and headings."""

    state: State
    activity: Activity | None = None
    word: str
    sign: str
    colour: Colour


class Appearance(Struct, frozen=True, kw_only=True):
    """One session as people see it. Views paint it and decide nothing."""

    word: str
    sign: str
    colour: Colour
    since: float | None = None
    """Epoch seconds: how long it has been so, shown as an age beside the word; None when that is not known."""
    lost_at: float | None = None
    """Epoch seconds: when a lost session last did something, shown as a time of day beside the word."""
    needs_you: bool = False
    order: tuple[float, float]
    """Sorted by it, those that need you come first, and nothing moves while its state stays the same."""
