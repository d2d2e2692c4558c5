"""Foreign text made fit for one line of a table: no control characters, no broken Unicode, bounded."""

from __future__ import annotations

import re

ONE_LINE_WIDTH = 120

_DROPPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_ENDLESS_WORD = r"\S{400,}"
"""Longer than paths and names of sessions are. Compiled only for a message: most commands give none."""
_ENDLESS_LINE = 2000
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


def readable(message: str) -> str:
    """A message with foreign words in it: printable line by line, and what nobody would read to its end is cut."""
    return "\n".join(map(_readable_line, message.split("\n")))


def _readable_line(line: str) -> str:
    line = re.sub(_ENDLESS_WORD, lambda word: _cut(word[0]), printable(line))
    return _cut(line, 1000) if len(line) > _ENDLESS_LINE else line


def _cut(text: str, kept: int = 80) -> str:
    """Its begin and its end; the end of a message says what is wrong."""
    left_out = len(text) - kept - kept // 2
    return f"{text[:kept]}…[{left_out} more]…{text[-(kept // 2) :]}"


def _show(character: str) -> str:
    if " " <= character <= "~" or character == _JOINER:
        return character
    import unicodedata  # only for what is not plain: most commands meet none of it

    return " " if unicodedata.category(character) in _DROPPED else character
