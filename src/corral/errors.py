"""Exceptions that views catch: first the one that a person is meant to see, with what to do and the exit code."""

from __future__ import annotations

from collections.abc import Sequence


class CorralError(Exception):
    """Something the person can understand and act on. Anything else that rises is a bug (exit code 70).

    The message, what it lists and each hint are one line each: a newline in them is foreign.
    """

    def __init__(self, message: str, *, hint: str | Sequence[str] | None = None, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.listed: tuple[str, ...] = ()
        self.hints = (hint,) if isinstance(hint, str) else tuple(hint or ())
        self.exit_code = exit_code


class NotFound(CorralError):
    """Nothing is called so."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, exit_code=4)


class Ambiguous(CorralError):
    """Several things are called so."""

    def __init__(self, message: str, listed: Sequence[str] = (), *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, exit_code=3)
        self.listed = tuple(listed)


class NotReachable(Exception):
    """A terminal has no holder to speak to, and why."""


class Silent(NotReachable):
    """There is one, and it does not answer."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy
