"""Questions that a program asks its terminal, taken out of what is shown a second time."""

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
