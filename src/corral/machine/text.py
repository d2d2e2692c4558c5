"""Foreign text made fit for a terminal: what moves a cursor, hides or turns text around is shown as its escape."""

from __future__ import annotations

import os
import re

ONE_LINE_WIDTH = 120

_DROPPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_ENDLESS_WORD = r"\S{400,}"
"""Longer than paths and names of sessions are. Compiled only for a message: most commands give none."""
_ENDLESS_LINE = 2000
_JOINER = "\u200d"  # of emoji sequences
_UNSAFE = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
"""Controls, what turns the direction of text, separators of lines, broken Unicode."""
_MARK = "\ufdd0" + os.urandom(4).hex()
"""Begins a control of our own until it is written: no foreign text can have it."""


def control(sequence: str) -> str:
    """A sequence for the terminal that is ours, in a text whose other controls are all foreign."""
    return f"{_MARK}{sequence.encode().hex()}\ufdd1"


def safe(text: str, *, lines: bool = False) -> str:
    """As a terminal gets it: `control`s are carried out, all else that is unsafe becomes \\uXXXX, also in JSON.

    With `lines`, newlines are ours.
    """
    if text.isascii() and text.isprintable():
        return text
    pattern = f"{_MARK}([0-9a-f]*)\ufdd1|{_UNSAFE}"

    def replace(found: re.Match[str]) -> str:
        if found[1] is not None:
            return bytes.fromhex(found[1]).decode()
        return "\n" if lines and found[0] == "\n" else f"\\u{ord(found[0]):04x}"

    return re.sub(pattern, replace, text)


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
    """A message with foreign words in it, as one line; what nobody would read to its end is cut."""
    line = re.sub(_ENDLESS_WORD, lambda word: _cut(word[0]), printable(message))
    return _cut(line, 1000) if len(line) > _ENDLESS_LINE else line


def _cut(text: str, kept: int = 80) -> str:
    """Its beginning and its end; the end of a message says what is wrong."""
    left_out = len(text) - kept - kept // 2
    return f"{text[:kept]}…[{left_out} more]…{text[-(kept // 2) :]}"


def _show(character: str) -> str:
    if " " <= character <= "~" or character == _JOINER:
        return character
    import unicodedata  # only for what is not plain: most commands meet none of it

    return " " if unicodedata.category(character) in _DROPPED else character
