"""What a terminal can show: width, colour, cells, ages, tables, and a session's state in a few words."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from corral.machine.text import control, printable

if TYPE_CHECKING:
    from corral.model.session import Appearance

COLOURS = {
    "green": "32",
    "blue": "34",
    "amber": "33",
    "red": "31",
    "violet": "35",
    "grey": "90",
    "faint": "2",
    "bold": "1",
}


def use_colour() -> bool:
    """Only on a terminal, and not if NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str | None, enabled: bool) -> str:
    return control(f"\x1b[{COLOURS[colour]}m") + text + control("\x1b[0m") if enabled and colour else text


def terminal_width() -> int:
    """The width of the terminal; a pipe has no limit, so that nothing is cut there."""
    if not sys.stdout.isatty():
        return 10_000
    if (columns := os.environ.get("COLUMNS", "")).isdecimal():
        return int(columns)
    return os.get_terminal_size(sys.stdout.fileno()).columns or 80


def cells(text: str) -> int:
    """How many columns a text needs."""
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
    return wide - sum(1 for character in text if unicodedata.combining(character))


def fit(text: str, width: int) -> str:
    """Cut to a width, with an ellipsis."""
    if cells(text) <= width:
        return text
    kept = ""
    for character in text:
        if cells(kept) + cells(character) > width - 1:
            break
        kept += character
    return kept + "…"


def pad(text: str, width: int) -> str:
    return text + " " * max(0, width - cells(text))


def age(seconds: float) -> str:
    """A rough span for people: 40 s, 2 min, 3 h, 5 d."""
    seconds = max(0.0, seconds)
    for limit, unit, name in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // unit)} {name}"
    return f"{int(seconds // 86_400)} d"


def say_state(shown: Appearance, now: float) -> str:
    """The state with its age or time of day: "busy 2 min", "lost 21:08"; with the date when that was not today."""
    if shown.since is not None:
        return f"{shown.word} {age(now - shown.since)}"
    if shown.lost_at is None:
        return shown.word
    then = time.localtime(shown.lost_at)
    is_today = then[:3] == time.localtime(now)[:3]
    return f"{shown.word} {time.strftime('%H:%M' if is_today else '%b %d %H:%M', then)}"


def tilde(path: str | None) -> str:
    """A path as people write it, with control characters shown as escapes."""
    if not path:
        return "–"
    path = printable(path)
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path


def table(rows: Sequence[Sequence[str]], gives_way: Sequence[int], width: int) -> list[str]:
    """Aligned lines that fit the width. `gives_way` lists columns in the order in which they are narrowed."""
    if not rows:
        return []
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    for column in gives_way:
        spare = width - sum(widths) - 2 * (sum(1 for size in widths if size) - 1)
        if spare >= 0:
            break
        least = 0 if column != gives_way[-1] else 8
        widths[column] = max(least, widths[column] + spare)
        if widths[column] < 4:
            widths[column] = 0
    lines: list[str] = []
    for row in rows:
        shown = [pad(fit(cell, size), size) for cell, size in zip(row, widths, strict=True) if size]
        lines.append("  ".join(shown).rstrip())
    return lines
