"""Keys first: terminals that flood at the same time share a small part of the server's time."""

from __future__ import annotations

_MUCH_BYTES = 16 << 10
_RECENT_SECONDS = 0.5
_TIMES = 8.0
"""Measured with ten floods on two cores: with less, keys in another tab wait for their turn among the programs."""
_LONGEST_SECONDS = 0.1


class Pace:
    """One for all terminals of a server; for the event loop's thread alone. A flood that is alone is not slowed."""

    def __init__(self) -> None:
        self._floods: dict[object, float] = {}

    def rest_seconds(self, terminal: object, size: int, begun: float, now: float) -> float:
        """How long this terminal should be left alone after so many bytes of it were passed on since `begun`."""
        if size < _MUCH_BYTES:
            return 0.0
        self._floods = {one: at for one, at in self._floods.items() if now - at < _RECENT_SECONDS}
        self._floods[terminal] = now
        return min(_LONGEST_SECONDS, (now - begun) * _TIMES * (len(self._floods) - 1))
