"""Our entries in a settings.json: put in and taken out by position, every other byte kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from corral.hooks.command import is_our_command
from corral.hooks.edit import EditRefused, Entry, newline_of
from corral.hooks.jsonc import Node, comment_end, parse, skip


def find_entries(text: str) -> list[Entry]:
    """The entries of ours that are there, in their order."""
    return [Entry(event, hook["command"]) for event, _, _, hook in _our_hooks(parse(text))]


def add_entries(text: str, entries: Sequence[Entry]) -> str:
    """The text with our entries at the end of their lists. Raises EditRefused."""
    before = _plain(text)
    edited = text
    for entry in entries:
        edited = _add_entry(edited, entry)
    wanted = before
    hooks = wanted.setdefault("hooks", {})
    for entry in entries:
        hooks.setdefault(entry.event, []).append(_group(entry))
    if _plain(edited) != wanted:
        raise EditRefused("it could not be edited without changing something else")
    return edited


def remove_entries(text: str, created: Sequence[str]) -> str:
    """The text without our entries. What is in `created` was made by us, and goes too if it is empty then."""
    while found := next(iter(_our_hooks(parse(text))), None):
        event, group, hook_node, _ = found
        hooks = group.find("hooks")
        assert hooks is not None and hooks.items is not None
        if len(hooks.items) > 1 or len(group.members or ()) > 1:
            text = _cut(text, hooks, hook_node.start, hook_node.end)
            continue
        root_hooks = parse(text).find("hooks")
        listing = root_hooks.find(event) if root_hooks else None
        assert root_hooks is not None and listing is not None
        if len(listing.items or ()) == 1 and event in created:
            text = _cut_member(text, root_hooks, event)
        else:
            text = _cut(text, listing, group.start, group.end)
    root = parse(text)
    hooks = root.find("hooks")
    if "hooks" in created and hooks is not None and hooks.members == []:
        text = _cut_member(text, root, "hooks")
    return text


def list_missing(text: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    """The containers that adding these entries will create."""
    hooks = _root(text).find("hooks")
    events = tuple(dict.fromkeys(entry.event for entry in entries if hooks is None or hooks.find(entry.event) is None))
    return (("hooks",) if hooks is None else ()) + events


def new_text(entries: Sequence[Entry]) -> str:
    """A whole settings.json with nothing but our entries."""
    return add_entries("{}\n", entries)


def find_switch_off(text: str) -> str | None:
    """A setting that keeps every hook from running."""
    root = parse(text)
    node = root.find("disableAllHooks")
    return "disableAllHooks is true: no hook runs" if node is not None and node.value is True else None


def _group(entry: Entry) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": entry.command}]}


def _root(text: str) -> Node:
    root = parse(text)
    if root.members is None:
        raise EditRefused("line 1: not an object")
    return root


def _plain(text: str) -> dict[str, Any]:
    return _root(text).plain()


def _our_hooks(root: Node) -> list[tuple[str, Node, Node, dict[str, Any]]]:
    """Event, group, hook and its value for each entry of ours."""
    hooks = root.find("hooks") if root.members is not None else None
    found: list[tuple[str, Node, Node, dict[str, Any]]] = []
    for event, _, listing in (hooks.members if hooks else None) or ():
        for group in listing.items or ():
            inner = group.find("hooks")
            for hook in (inner.items if inner else None) or ():
                value = hook.plain()
                if isinstance(value, dict) and is_our_command(value.get("command")):  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
                    found.append((event, group, hook, value))  # pyright: ignore[reportUnknownArgumentType]
    return found


def _add_entry(text: str, entry: Entry) -> str:
    root = _root(text)
    hooks = root.find("hooks")
    if hooks is None:
        return _append(text, root, "hooks", {entry.event: [_group(entry)]})
    if hooks.members is None:
        raise EditRefused(f"line {_line(text, hooks.start)}: hooks is not an object")
    listing = hooks.find(entry.event)
    if listing is None:
        return _append(text, hooks, entry.event, [_group(entry)])
    if listing.items is None:
        raise EditRefused(f"line {_line(text, listing.start)}: hooks.{entry.event} is not a list")
    return _append(text, listing, None, _group(entry))


def _append(text: str, container: Node, key: str | None, value: Any) -> str:
    """Puts a member or an item at the end of a container, in the container's own layout."""
    starts = [start for _, start, _ in container.members or ()] or [node.start for node in container.items or ()]
    ends = [node.end for _, _, node in container.members or ()] or [node.end for node in container.items or ()]
    newline = newline_of(text)
    base = _indent_of_line(text, container.start)
    unit = _indent_unit(text)
    if not starts:
        return _fill(text, container, base, unit, newline, key, value)
    on_lines = "\n" in text[container.start : starts[0]]
    end = ends[-1]
    comma = skip(text, end)
    has_comma = text[comma : comma + 1] == ","
    place = _end_of_remarks(text, comma + 1 if has_comma else end)
    if on_lines:
        indent = _indent_of_line(text, starts[-1])
        added = newline + indent + _render(key, value, indent, unit, newline)
    else:
        added = " " + _render(key, value, None, unit, newline)
        place = comma + 1 if has_comma else end
    if has_comma:
        return text[:place] + added + text[place:]
    return text[:end] + "," + text[end:place] + added + text[place:]


def _fill(text: str, container: Node, base: str, unit: str, newline: str, key: str | None, value: Any) -> str:
    """Puts the first thing into an empty container, behind the remarks that may stand in it."""
    closing = container.end - 1
    indent = base + unit
    added = newline + indent + _render(key, value, indent, unit, newline)
    last = container.start + 1 + len(text[container.start + 1 : closing].rstrip(" \t\r\n"))
    if "\n" in text[last:closing]:
        return text[:last] + added + text[last:]
    return text[:closing] + added + newline + base + text[closing:]


def _render(key: str | None, value: Any, indent: str | None, unit: str, newline: str) -> str:
    """JSON text; on one line if `indent` is None."""
    if indent is None:
        body = json.dumps(value, ensure_ascii=False)
    else:
        lines = json.dumps(value, ensure_ascii=False, indent=unit).split("\n")
        body = (newline + indent).join(lines)
    return body if key is None else f"{json.dumps(key)}: {body}"


def _end_of_remarks(text: str, position: int) -> int:
    """Past comments that stand on the same line: they belong to what is before them."""
    end = position
    while True:
        start = end
        while text[start : start + 1] in (" ", "\t"):
            start += 1
        found = comment_end(text, start)
        if found is None or "\n" in text[start:found]:
            return end
        end = found


def _cut_member(text: str, container: Node, key: str) -> str:
    start, node = next((start, node) for name, start, node in container.members or () if name == key)
    return _cut(text, container, start, node.end)


def _cut(text: str, container: Node, start: int, end: int) -> str:
    """Takes one member or item out, with one comma and, if it had lines of its own, those."""
    after = skip(text, end)
    comma: int | None = None
    if text[after : after + 1] == ",":
        end = after + 1 if not text[end:after].strip() else end
        comma = None if end == after + 1 else after
    else:
        comma = _comma_before(text, container, start)
    line_start = text.rfind("\n", 0, start) + 1
    line_end = end
    while text[line_end : line_end + 1] in (" ", "\t", "\r"):
        line_end += 1
    if not text[line_start:start].strip() and text[line_end : line_end + 1] == "\n" and line_start > container.start:
        start, end = line_start, line_end + 1
    elif text[start - 1 : start] == " " and comma is not None:
        start -= 1
    if comma is None:
        return text[:start] + text[end:]
    if comma < start:
        return text[:comma] + text[comma + 1 : start] + text[end:]
    return text[:start] + text[end:comma] + text[comma + 1 :]


def _comma_before(text: str, container: Node, start: int) -> int | None:
    """The comma that parts what starts here from what is before it."""
    ends = [node.end for _, _, node in container.members or ()] or [node.end for node in container.items or ()]
    before = [end for end in ends if end <= start]
    if not before:
        return None
    comma = skip(text, before[-1])
    return comma if text[comma : comma + 1] == "," else None


def _indent_of_line(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = start
    while text[end : end + 1] in (" ", "\t"):
        end += 1
    return text[start:end]


def _indent_unit(text: str) -> str:
    root = parse(text)
    if root.members and "\n" in text[root.start : root.members[0][1]]:
        return _indent_of_line(text, root.members[0][1]) or "  "
    return "  "


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
