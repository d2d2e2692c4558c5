"""A program's output as viewers join it: the ring, the modes, and where a viewer begins. Standard library only."""

from __future__ import annotations

from corral.sidecar.light_typing import NamedTuple
from corral.terminals.modes import Modes
from corral.terminals.ring import Ring

_REPLAY_BYTES = 1 << 18
_LINE_BYTES = 1 << 14


class Beginning(NamedTuple):
    """How a viewer is brought to what the screen shows now."""

    offset: int
    """Its first byte; less than the ring's oldest if it has to be told of a gap first."""
    before: bytes = b""
    """Modes to set before the replay."""
    after: bytes = b""
    """Modes to set after the replay."""
    repaint: bool = False
    """The program has to paint anew, as the ring does not have all it takes."""


class Stream:
    """Ring and modes, fed together."""

    def __init__(self, capacity: int) -> None:
        self.ring = Ring(capacity)
        self.modes = Modes()

    def feed(self, data: bytes) -> None:
        self.ring.append(data)
        self.modes.feed(data)

    def resume_offset(self) -> int:
        """Where one may begin to listen now without hearing half a sequence."""
        return max(self.ring.oldest, self.ring.head - self.modes.incomplete_bytes)

    def plan_beginning(self, wanted: int | None) -> Beginning:
        """For a viewer that has seen all before `wanted`, or (None, or an offset that never was) nothing."""
        ring = self.ring
        if wanted is not None and wanted <= ring.head:
            return Beginning(wanted, repaint=wanted < ring.oldest)
        if ring.oldest == 0:
            return Beginning(0)
        if self.modes.alternate:
            return Beginning(self.resume_offset(), before=self.modes.restore(), repaint=True)
        return Beginning(self._find_line(ring.head - _REPLAY_BYTES), after=self.modes.restore(), repaint=True)

    def _find_line(self, offset: int) -> int:
        """Where a line begins after this offset: a replay must not start inside a sequence."""
        offset = max(offset, self.ring.oldest)
        newline = self.ring.read(offset, _LINE_BYTES).find(b"\n")
        return offset + newline + 1 if newline >= 0 else self.resume_offset()
