"""How a program ended, in words: the same on the command line and on the page."""

from __future__ import annotations

import signal

_MEANINGS = {
    signal.SIGHUP: "it was hung up",
    signal.SIGINT: "it was interrupted",
    signal.SIGQUIT: "it was told to quit",
    signal.SIGTERM: "it was asked to end",
    signal.SIGKILL: "it was killed",
    signal.SIGABRT: "it gave up",
    signal.SIGSEGV: "it crashed",
    signal.SIGBUS: "it crashed",
    signal.SIGILL: "it crashed",
    signal.SIGFPE: "it crashed",
}
_USUALLY = {126: "as a rule: a program may not be run", 127: "as a rule: a program was not found"}


def say_end(status: int | None) -> str:
    """`status` is the exit code, or the negative signal; None where nobody saw it."""
    if status is None:
        return "ended"
    if status >= 0:
        meaning = f" ({_USUALLY[status]})" if status in _USUALLY else ""
        return f"ended with exit status {status}{meaning}"
    try:
        number = signal.Signals(-status)
    except ValueError:
        return f"ended by signal {-status}"
    meaning = f": {_MEANINGS[number]}" if number in _MEANINGS else ""
    return f"ended by signal {number.value} ({number.name}){meaning}"
