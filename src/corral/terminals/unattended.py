"""What a program is told that asks its terminal while nobody looks. Standard library only."""

from __future__ import annotations

import re

_QUERY = re.compile(rb"\x1b\[(?:0?(c)|5(n)|(6)n)")
_UNFINISHED = re.compile(rb"\x1b(?:\[[056]?)?\Z")
_ATTRIBUTES = b"\x1b[?1;2c"  # as xterm.js says: what every terminal can do
_WELL = b"\x1b[0n"


class Unattended:
    """Answers the few questions without which programs take their terminal for a lesser one, for as long as they run.

    kimi-cli 1.51 that is not told where the cursor is says so in a warning, and shows no status line (2026-11).
    Colours, names and protocols are the viewer's own: those questions stay without an answer.
    """

    def __init__(self) -> None:
        self._rest = b""

    def answer(self, data: bytes, rows: int) -> bytes:
        """What to type for the queries in this output, which may end within one.

        The cursor is said to be in the last row: a program then takes no row below it for free, wherever it is.
        """
        data = self._rest + data
        unfinished = _UNFINISHED.search(data)
        self._rest = unfinished[0] if unfinished else b""
        return b"".join(
            _ATTRIBUTES if found[1] else _WELL if found[2] else b"\x1b[%d;1R" % rows for found in _QUERY.finditer(data)
        )

    def forget(self) -> None:
        """Somebody looks: what was half asked is theirs."""
        self._rest = b""
