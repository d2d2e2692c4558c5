"""Prose in the documents is at most 100 columns wide; tables, code and what can't be broken may be wider."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 100
UNBREAKABLE = ("|", "#", "<", "!")  # table rows, headings, HTML comments, images


def documents() -> list[str]:
    done = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, check=True, text=True, timeout=60)
    return done.stdout.splitlines()


def wide_lines(text: str) -> list[str]:
    found: list[str] = []
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip().removeprefix("- ")
        if words.startswith("```"):
            in_code = not in_code
        can_be_broken = not in_code and " " in words and not words.startswith(UNBREAKABLE)
        if len(line) > WIDTH and can_be_broken and not (words.startswith("[") and words.endswith(")")):
            found.append(f"{number}: {line}")
    return found


@pytest.mark.parametrize("document", documents())
def test_prose_fits_into_100_columns(document):
    assert wide_lines((ROOT / document).read_text()) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("word " * 21, 1),
        ("- " + "word " * 21, 1),
        ("word " * 20, 0),
        ("| " + "word " * 21 + "|", 0),
        ("```\n" + "word " * 21 + "\n```", 0),
        ("```\n```\n" + "word " * 21, 1),
        ("- " + "x" * 101, 0),
        (f"[a name](https://example.org/{'x' * 101})", 0),
    ],
)
def test_a_wide_line_is_found_where_it_can_be_broken(text, found):
    assert len(wide_lines(text)) == found
