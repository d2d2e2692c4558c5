"""Tables in docs/benchmarks.md, each between markers of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"


def write_between(begin: str, end: str, lines: Sequence[str]) -> None:
    """Replaces what stands between the two markers."""
    text = PAGE.read_text()
    head, tail = text[: text.index(begin) + len(begin)], text[text.index(end) :]
    PAGE.write_text("\n".join([head, "", *lines, "", tail]))
