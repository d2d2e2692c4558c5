"""Exceptions that views catch. `CorralError` is the one that a person sees, with what to do and the exit code."""

from __future__ import annotations

from collections.abc import Sequence


class CorralError(Exception):
    """Something the person can understand and act on. Any other exception is a bug (exit code 70).

    The message, each listed item and each hint are one line: a newline in them is foreign text.
    """

    def __init__(self, message: str, *, hint: str | Sequence[str] | None = None, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.listed: tuple[str, ...] = ()
        self.hints = (hint,) if isinstance(hint, str) else tuple(hint or ())
        self.exit_code = exit_code


class NotFound(CorralError):
    """Nothing has this name."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, exit_code=4)


class Ambiguous(CorralError):
    """Several things have this name."""

    def __init__(self, message: str, listed: Sequence[str] = (), *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, exit_code=3)
        self.listed = tuple(listed)


class NotReachable(Exception):
    """A terminal's holder can't be reached; the message says why."""


class Silent(NotReachable):
    """The holder is there, and does not answer."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy
