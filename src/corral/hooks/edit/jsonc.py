"""Finds the parts of a JSON text with comments and trailing commas by position, to edit it in place."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from json.decoder import scanstring  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
from typing import Any, NamedTuple, cast

from corral.hooks.edit import EditRefused

_MAX_DEPTH = 100
_BLANKS = re.compile(r"[ \t\r\n]*")


class Node:
    """One value and where it is: text[start:end]."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.value: Any = None
        """Of a scalar."""
        self.kind = ""
        """"{" of an object, "[" of a list."""
        self.parts: list[Part] = []
        """What is in an object or a list, in its order."""

    def find(self, key: str) -> Node | None:
        """A member of an object by its key."""
        return next((part.node for part in self.parts if part.key == key), None)

    def plain(self) -> Any:
        """The value as Python has it."""
        if self.kind == "{":
            return {part.key: part.node.plain() for part in self.parts}
        return [part.node.plain() for part in self.parts] if self.kind else self.value


class Part(NamedTuple):
    """A member of an object, which starts with its key, or an item of a list."""

    key: str | None
    start: int
    node: Node

    @property
    def end(self) -> int:
        return self.node.end


@lru_cache(maxsize=2)
def parse(text: str) -> Node:
    """The root value, which nobody changes. Raises EditRefused with the line of the first fault.

    An installation asks for the text before and after it several times: in a large one, that is most of its work.
    """
    scanner = _Scanner(text)
    position = skip(text, 0)
    root = scanner.value(position, 0)
    end = skip(text, root.end)
    if end != len(text):
        raise scanner.fault(end, "text after the end")
    return root


def skip(text: str, position: int) -> int:
    """Past white space and comments."""
    while True:
        position = _BLANKS.match(text, position).end()  # pyright: ignore[reportOptionalMemberAccess] - it may be empty
        end = comment_end(text, position) if text.startswith("/", position) else None
        if end is None:
            return position
        position = end


def comment_end(text: str, position: int) -> int | None:
    """Where the comment that begins here ends; None if none does."""
    if text.startswith("//", position):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        return end - 1 if text[end - 1] == "\r" else end
    if text.startswith("/*", position):
        end = text.find("*/", position + 2)
        if end < 0:
            raise EditRefused(f"line {text.count(chr(10), 0, position) + 1}: a comment without an end")
        return end + 2
    return None


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.decoder = json.JSONDecoder(parse_constant=self._refuse)

    def fault(self, position: int, what: str) -> EditRefused:
        return EditRefused(f"line {self.text.count(chr(10), 0, position) + 1}: {what}")

    def value(self, position: int, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self.fault(position, "nested too deeply")
        node = Node(position)
        if self.text[position : position + 1] in ("{", "["):
            self._fill(node, depth)
            return node
        try:
            node.value, node.end = self.decoder.raw_decode(self.text, position)
        except (ValueError, IndexError, RecursionError) as error:
            raise self.fault(position, "a value was expected") from error
        return node

    def _fill(self, node: Node, depth: int) -> None:
        node.kind = self.text[node.start]
        closing = "}" if node.kind == "{" else "]"
        keys: set[str | None] = set()
        position = skip(self.text, node.start + 1)
        while self.text[position : position + 1] != closing:
            start, key = position, None
            if closing == "}":
                key, position = self._key(start)
                if key in keys:
                    raise self.fault(start, f"the key {key!r} appears twice")
                keys.add(key)
            part = Part(key, start, self.value(position, depth + 1))
            node.parts.append(part)
            position = skip(self.text, part.end)
            if self.text[position : position + 1] == ",":
                position = skip(self.text, position + 1)
            elif self.text[position : position + 1] != closing:
                raise self.fault(position, f"a comma or {closing} was expected")
        node.end = position + 1

    def _key(self, position: int) -> tuple[str, int]:
        """The key that begins here, and where its value does."""
        if self.text[position : position + 1] != '"':
            raise self.fault(position, "a key in double quotes was expected")
        try:
            key, end = cast("tuple[str, int]", scanstring(self.text, position + 1, True))
        except ValueError as error:
            raise self.fault(position, "a key that does not end") from error
        colon = skip(self.text, end)
        if self.text[colon : colon + 1] != ":":
            raise self.fault(colon, "a colon was expected")
        return key, skip(self.text, colon + 1)

    def _refuse(self, constant: str) -> Any:
        raise ValueError(constant)
