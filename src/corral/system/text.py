"""Foreign text made fit for one line of a table: no control characters, no broken Unicode, bounded."""

from __future__ import annotations

import unicodedata

ONE_LINE_WIDTH = 120

_DROPPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINER = "\u200d"  # of emoji sequences


def one_line(text: str, width: int = ONE_LINE_WIDTH) -> str | None:
    """The words of `text` on one line, at most `width` characters; None when nothing visible is left."""
    # Looking at four times the width is enough, and keeps a pasted megabyte from costing anything.
    kept = "".join(_show(character) for character in text[: width * 4])
    words = " ".join(kept.split())
    if len(words) > width:
        words = words[: width - 1].rstrip() + "…"
    return words or None


def printable(text: str) -> str:
    """Foreign text without control characters: each becomes its escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape", "replace").decode() for one in text)


def _show(character: str) -> str:
    if " " <= character <= "~" or character == _JOINER:
        return character
    return " " if unicodedata.category(character) in _DROPPED else character
