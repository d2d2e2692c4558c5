"""What an event log says of a session's turns, whatever its events are called."""

from __future__ import annotations

from msgspec import Struct

from corral.machine.text import one_line
from corral.model.record import TurnState

_LATEST = 1e11  # epoch seconds; milliseconds or nonsense are beyond


class Wire(Struct, kw_only=True):
    """What the log says. Without a log there was no turn."""

    exists: bool = True
    turn: TurnState = TurnState.NONE
    turn_started_at: float | None = None
    unfinished: str | None = None
    waits_for: str | None = None
    first_prompt: str | None = None
    created_at: float | None = None
    updated_at: float | None = None
    recorded_at: float | None = None
    """When the newest record was written, as it says itself."""
    notes: list[str] = []


class TextPart(Struct):
    text: str | None = None


class Question(Struct):
    question: str = ""


def join_parts(parts: str | list[TextPart]) -> str | None:
    """A prompt in one line, its images left out."""
    return one_line(parts if isinstance(parts, str) else " ".join(part.text for part in parts if part.text))


def join_questions(questions: list[Question]) -> str | None:
    return one_line(" / ".join(item.question for item in questions))


def to_seconds(value: object, *, per_second: int = 1) -> float | None:
    """A time of the log in epoch seconds; None for what is none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value / per_second if 0 < value / per_second < _LATEST else None
