"""Finds the parts of a JSON text with comments and trailing commas by position, to edit it in place."""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
from typing import Any, cast

from corral.hooks.edit import EditRefused

_MAX_DEPTH = 100
_BLANKS = re.compile(r"[ \t\r\n]*")


class Node:
    """One value and where it stands: text[start:end]."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.value: Any = None
        """Of a scalar."""
        self.members: list[tuple[str, int, Node]] | None = None
        """Of an object: key, where the key starts, value."""
        self.items: list[Node] | None = None

    def find(self, key: str) -> Node | None:
        """A member of an object by its key."""
        return next((node for name, _, node in self.members or () if name == key), None)

    def plain(self) -> Any:
        """The value as Python has it."""
        if self.members is not None:
            return {name: node.plain() for name, _, node in self.members}
        if self.items is not None:
            return [node.plain() for node in self.items]
        return self.value


def parse(text: str) -> Node:
    """The root value. Raises EditRefused with the line of the first fault."""
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
        opening = self.text[position : position + 1]
        if opening == "{":
            return self._object(position, depth)
        if opening == "[":
            return self._array(position, depth)
        node = Node(position)
        try:
            node.value, node.end = self.decoder.raw_decode(self.text, position)
        except (ValueError, IndexError, RecursionError) as error:
            raise self.fault(position, "a value was expected") from error
        return node

    def _object(self, position: int, depth: int) -> Node:
        node = Node(position)
        node.members = []
        keys: set[str] = set()
        position = skip(self.text, position + 1)
        while self.text[position : position + 1] != "}":
            if self.text[position : position + 1] != '"':
                raise self.fault(position, "a key in double quotes was expected")
            key_start = position
            key, position = self._key(position)
            position = skip(self.text, position)
            if self.text[position : position + 1] != ":":
                raise self.fault(position, "a colon was expected")
            member = self.value(skip(self.text, position + 1), depth + 1)
            if key in keys:
                raise self.fault(key_start, f"the key {key!r} appears twice")
            keys.add(key)
            node.members.append((key, key_start, member))
            position = self._after_item(member.end, "}")
        node.end = position + 1
        return node

    def _array(self, position: int, depth: int) -> Node:
        node = Node(position)
        node.items = []
        position = skip(self.text, position + 1)
        while self.text[position : position + 1] != "]":
            item = self.value(position, depth + 1)
            node.items.append(item)
            position = self._after_item(item.end, "]")
        node.end = position + 1
        return node

    def _after_item(self, position: int, closing: str) -> int:
        position = skip(self.text, position)
        found = self.text[position : position + 1]
        if found == ",":
            return skip(self.text, position + 1)
        if found != closing:
            raise self.fault(position, f"a comma or {closing} was expected")
        return position

    def _key(self, position: int) -> tuple[str, int]:
        try:
            return cast("tuple[str, int]", scanstring(self.text, position + 1, True))
        except ValueError as error:
            raise self.fault(position, "a key that does not end") from error

    def _refuse(self, constant: str) -> Any:
        raise ValueError(constant)
