"""Keys first: terminals that flood at the same time share less of the machine the more they are."""

from __future__ import annotations

_MUCH_BYTES = 16 << 10
_FLOOD_BYTES = 512 << 10
"""Sent without a pause, it is a flood; what repaints or replays a screen is less."""
_RECENT_SECONDS = 0.5
_BYTES_PER_SECOND = 40_000_000
"""What two floods may send together; three half of it, ten a ninth. Writing to a terminal costs the program and the
kernel more than reading costs us: only programs that wait leave the processor to keys in other tabs."""
_LONGEST_SECONDS = 0.1


class Pace:
    """One for all terminals of a server; for the event loop's thread alone. A flood that is alone is not slowed."""

    def __init__(self) -> None:
        self._sent: dict[object, tuple[float, int]] = {}
        """When a terminal last sent much, and how much it did without a pause."""
        self._floods = 0

    def share_bytes(self, most: int) -> int:
        """How much to take at once of one terminal: little while many flood, so that none rests for long."""
        return max(_MUCH_BYTES, most // max(1, self._floods))

    def rest_seconds(self, terminal: object, size: int, now: float) -> float:
        """How long this terminal should be left alone after so many bytes of it were passed on."""
        if size < _MUCH_BYTES:
            return 0.0
        self._sent = {one: found for one, found in self._sent.items() if now - found[0] < _RECENT_SECONDS}
        total = self._sent.get(terminal, (now, 0))[1] + size
        self._sent[terminal] = now, total
        self._floods = sum(sent >= _FLOOD_BYTES for _, sent in self._sent.values())
        if total < _FLOOD_BYTES:
            return 0.0
        return min(_LONGEST_SECONDS, size * self._floods * (self._floods - 1) / _BYTES_PER_SECOND)
