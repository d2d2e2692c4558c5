"""Questions that a program asks its terminal, and their answers: none must come twice or too late.

Part of the holder: standard library only.
"""

from __future__ import annotations

import re

# Device attributes, status and cursor position, mode and keyboard requests, XTVERSION, window reports, DECREQTPARM,
# DECID, ENQ; colours, clipboard and palette asked for by OSC … ?; DECRQSS, XTGETTCAP; APC (kitty graphics) whole.
_QUERY = re.compile(
    rb"\x1b\[[>=?]?[0-9;]*c|\x1b\[\??[0-9;]*n|\x1b\[\??[0-9;]*\$p|\x1b\[>[0-9;]*q|\x1b\[\?u"
    rb"|\x1b\[(?:1[1345689]|2[01])(?:;[0-9;]*)?t|\x1b\[[01]?x|\x1bZ|\x05"
    rb"|\x1b\](?:4|5|1[0-9]|50|52|6[01]|99)(?:;[^;\x07\x1b]*)*;\?(?:\x07|\x1b\\)"
    rb"|\x1bP[0-9;]*[$+]q[^\x1b]*\x1b\\|\x1b_[^\x1b]*\x1b\\"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]P_][^\x07\x1b]*\x1b?)?\Z")
_LONGEST = 1 << 16
_ASKED = re.compile(rb"\x1b\[(?:0?(c)|5(n)|(6)n)")
_HALF_ASKED = re.compile(rb"\x1b(?:\[[056]?)?\Z")
_ATTRIBUTES = b"\x1b[?1;2c"  # as xterm.js says: what every terminal can do
_WELL = b"\x1b[0n"
_STRING_STARTS = b"]P_^X"


class QueryFilter:
    """Replayed output without its queries, so that no terminal answers what was asked long ago."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """What may be shown now; a sequence that is not complete yet waits for its end."""
        data = self._rest + data
        self._rest = b""
        unfinished = _UNFINISHED.search(data)
        if unfinished is not None and len(data) - unfinished.start() <= _LONGEST:
            self._rest = data[unfinished.start() :]
            data = data[: unfinished.start()]
        return _QUERY.sub(b"", data)

    def flush(self) -> bytes:
        """The rest, when the replay is over: what follows completes it."""
        rest, self._rest = self._rest, b""
        return rest


class Unattended:
    """Answers the few questions without which programs take their terminal for a lesser one, for as long as they run.

    kimi-cli 1.51 warns and shows no status line if nobody says where the cursor is (2026-11).
    Colours, names and protocols are the viewer's own: those questions stay unanswered.
    """

    def __init__(self) -> None:
        self._rest = b""

    def answer(self, data: bytes, rows: int) -> bytes:
        """What to type for the queries in this output, which may end within one.

        The cursor is said to be in the last row: a program then takes no row below it for free, wherever it is.
        """
        data = self._rest + data
        unfinished = _HALF_ASKED.search(data)
        self._rest = unfinished[0] if unfinished else b""
        return b"".join(
            _ATTRIBUTES if found[1] else _WELL if found[2] else b"\x1b[%d;1R" % rows for found in _ASKED.finditer(data)
        )

    def forget(self) -> None:
        """A viewer is here: it answers what was half asked."""
        self._rest = b""


def strip_answers(data: bytes) -> bytes:
    """The input without a terminal's answers to queries and its focus reports; keys stay.

    Cursor position reports look like F3 with a modifier: `ESC [ 1 ; 2 R` counts as an answer.
    """
    if b"\x1b" not in data:
        return data
    kept: list[bytes] = []
    position = 0
    while (start := data.find(b"\x1b", position)) >= 0:
        kept.append(data[position:start])
        end = _find_end(data, start)
        if not _is_answer(data[start:end]):
            kept.append(data[start:end])
        position = end
    kept.append(data[position:])
    return b"".join(kept)


def _find_end(data: bytes, start: int) -> int:
    """The offset after the sequence that begins with the ESC at `start`."""
    kind = data[start + 1 : start + 2]
    if kind == b"[":
        for position in range(start + 2, len(data)):
            if not 0x20 <= data[position] <= 0x3F:
                return position + 1 if 0x40 <= data[position] <= 0x7E else position
        return len(data)
    if kind and kind in _STRING_STARTS:
        ends = [data.find(b"\x1b\\", start + 2) + 2, data.find(b"\x07", start + 2) + 1 if kind == b"]" else 0]
        return min((end for end in ends if end > start + 2), default=len(data))
    return start + 1


def _is_answer(sequence: bytes) -> bool:
    kind, body, final = sequence[1:2], sequence[2:-1], sequence[-1:]
    if kind and kind in _STRING_STARTS:
        # Nobody types these; Alt+] or Alt+P alone comes without an end.
        return len(sequence) > 2 and (sequence.endswith(b"\x1b\\") or final == b"\x07")
    if kind != b"[" or len(sequence) < 3:
        return False
    match final:
        case b"c" | b"u":  # device attributes, keyboard flags; a key event has no such prefix
            return body[:1] in (b"?", b">", b"=")
        case b"R":
            return b";" in body
        case b"n":
            return True
        case b"y":
            return b"$" in body
        case b"t" | b"x":
            return b";" in body
        case b"I" | b"O":
            return body == b""
        case _:
            return False
