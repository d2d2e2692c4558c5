"""Finds the statements of a TOML text by position: headers and assignments of any length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Statement(NamedTuple):
    """text[start:end] is a header or an assignment, without its comment and line ending."""

    start: int
    end: int
    header: str | None
    """Of a header: its brackets and what is in them, without blanks. None for an assignment."""


def list_statements(text: str) -> Iterator[Statement]:
    """Every statement in order. The text must be valid TOML: nothing is checked here."""
    position = 0
    while position < len(text):
        character = text[position]
        if character in " \t\r\n":
            position += 1
        elif character == "#":
            position = _line_end(text, position)
        else:
            end = _statement_end(text, position)
            is_header = character == "["
            words = "".join(text[position:end].split()) if is_header else None
            yield Statement(position, end, words)
            position = end


def next_line(text: str, position: int) -> int:
    """The start of the line after this one, or the end of the text."""
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _statement_end(text: str, position: int) -> int:
    depth = 0
    end = position
    while position < len(text):
        character = text[position]
        if character in "\"'":
            position = end = _string_end(text, position)
            continue
        if character == "#":
            position = _line_end(text, position)
            continue
        if character == "\n" and depth == 0:
            break
        if character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        position += 1
        if character not in " \t\r\n":
            end = position
    return end


def _string_end(text: str, position: int) -> int:
    quote = text[position]
    if text.startswith(quote * 3, position):
        position += 3
        while position < len(text) and not text.startswith(quote * 3, position):
            position += 2 if quote == '"' and text[position] == "\\" else 1
        position += 3
        # Up to two quotes may stand right before the closing three.
        while text.startswith(quote, position):
            position += 1
        return position
    position += 1
    while position < len(text) and text[position] != quote:
        position += 2 if quote == '"' and text[position] == "\\" else 1
    return position + 1


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
