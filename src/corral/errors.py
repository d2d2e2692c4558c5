"""The one exception that a person is meant to see: a message, what to do, and the exit code."""

from __future__ import annotations


class CorralError(Exception):
    """Something the person can understand and act on. Anything else that rises is a bug (exit code 70)."""

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


class NotFound(CorralError):
    """Nothing is called so."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, exit_code=4)


class Ambiguous(CorralError):
    """Several things are called so; the message lists them."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, exit_code=3)
