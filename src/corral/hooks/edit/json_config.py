"""Our entries in a settings.json: put in and taken out by position, every other byte kept."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from corral.hooks.command import is_our_command
from corral.hooks.edit import EditRefused, Entry, newline_of
from corral.hooks.edit.jsonc import Node, Part, comment_end, parse, skip


def find_entries(text: str) -> list[Entry]:
    """The entries of ours that are there, in their order."""
    hooks = parse(text).find("hooks")
    return [
        Entry(event, hook["command"], is_narrowed=is_matched or hook.get("type") != "command")
        for event, _, listing in (hooks.parts if hooks else ())
        if event is not None
        for hook, is_matched in _our_hooks(listing)
    ]


def add_entries(text: str, entries: Sequence[Entry]) -> str:
    """The text with our entries at the end of their lists. Raises EditRefused."""
    root = _root(text)
    groups = _by_event(entries)
    edited = _insert(text, root, groups)
    wanted: dict[str, Any] = root.plain()
    hooks: dict[str, list[Any]] = wanted.setdefault("hooks", {}) if entries else {}
    for event, added in groups.items():
        hooks[event] = hooks.get(event, []) + added
    if _root(edited).plain() != wanted:
        raise EditRefused("it could not be edited without changing something else")
    return edited


def remove_entries(text: str, created: Sequence[str]) -> str:
    """The text without our entries. What is in `created` was made by us, and goes too if it is empty then."""
    root = parse(text)
    hooks = root.find("hooks")
    if hooks is None or hooks.kind != "{":
        return text
    cuts: list[_Cut] = []
    left = 0
    for event in hooks.parts:
        found = _cuts_in(event.node)
        if found and event.key in created and found == [_Cut(event.node, part) for part in event.node.parts]:
            cuts.append(_Cut(hooks, event))
        else:
            cuts += found
            left += 1
    if not left and "hooks" in created:
        cuts = [_Cut(root, part) for part in root.parts if part.key == "hooks"]
    # From the end: what is before a cut keeps its place.
    for cut in reversed(cuts):
        text = _cut(text, cut)
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
    node = parse(text).find("disableAllHooks")
    return "disableAllHooks is true: no hook runs" if node is not None and node.value is True else None


def _root(text: str) -> Node:
    root = parse(text)
    if root.kind != "{":
        raise EditRefused("line 1: not an object")
    return root


class _Cut(NamedTuple):
    """A member or an item that goes, and what it is in."""

    container: Node
    part: Part


def _cuts_in(listing: Node) -> list[_Cut]:
    """Our hooks in the list of one event, in their order: the whole group where nothing else is in it."""
    cuts: list[_Cut] = []
    for group in listing.parts:
        inner = group.node.find("hooks")
        ours = [hook for hook in inner.parts if _is_ours(hook.node.plain())] if inner else []
        if inner is None or not ours:
            continue
        if len(ours) == len(inner.parts) and len(group.node.parts) == 1:
            cuts.append(_Cut(listing, group))
        else:
            cuts += [_Cut(inner, hook) for hook in ours]
    return cuts


def _our_hooks(listing: Node) -> Iterator[tuple[dict[str, Any], bool]]:
    """Each with whether its group has a matcher that may leave something out."""
    for group in (part.node for part in listing.parts):
        inner, matcher = group.find("hooks"), group.find("matcher")
        is_matched = matcher is not None and matcher.plain() not in ("", "*")
        for value in (hook.node.plain() for hook in (inner.parts if inner else ())):
            if _is_ours(value):
                yield value, is_matched


def _is_ours(hook: Any) -> bool:
    return isinstance(hook, dict) and is_our_command(cast("dict[str, Any]", hook).get("command"))


def _by_event(entries: Sequence[Entry]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for entry in entries:
        groups.setdefault(entry.event, []).append({"hooks": [{"type": "command", "command": entry.command}]})
    return groups


def _insert(text: str, root: Node, groups: dict[str, list[Any]]) -> str:
    """Each group at the end of its event's list; lists that are missing behind the others."""
    unit = _indent_unit(text, root)
    hooks = root.find("hooks")
    if hooks is None:
        return _append(text, root, unit, [("hooks", groups)]) if groups else text
    if hooks.kind != "{":
        raise EditRefused(f"line {_line(text, hooks.start)}: hooks is not an object")
    listings = {event: listing for event, _, listing in hooks.parts if event in groups}
    for event, listing in listings.items():
        if listing.kind != "[":
            raise EditRefused(f"line {_line(text, listing.start)}: hooks.{event} is not a list")
    missing = [(event, added) for event, added in groups.items() if event not in listings]
    # From the end: what is before an insertion keeps its place.
    text = _append(text, hooks, unit, missing) if missing else text
    for event, listing in reversed(listings.items()):
        text = _append(text, listing, unit, [(None, group) for group in groups[event]])
    return text


def _append(text: str, container: Node, unit: str, added: Sequence[tuple[str | None, Any]]) -> str:
    """Puts members or items at the end of a container, in the container's own layout."""
    newline = newline_of(text)
    if not container.parts:
        return _fill(text, container, unit, newline, added)
    last = container.parts[-1]
    comma = skip(text, last.end)
    has_comma = text[comma : comma + 1] == ","
    place = comma + 1 if has_comma else last.end
    indent = None
    between = " "
    if "\n" in text[container.start : container.parts[0].start]:
        place = _end_of_remarks(text, place)
        indent = _indent_of_line(text, last.start)
        between = newline + indent
    body = ",".join(between + _render(key, value, indent, unit, newline) for key, value in added)
    if has_comma:
        return text[:place] + body + text[place:]
    return text[: last.end] + "," + text[last.end : place] + body + text[place:]


def _fill(text: str, container: Node, unit: str, newline: str, added: Sequence[tuple[str | None, Any]]) -> str:
    """Puts the first things into an empty container, behind the remarks that may stand in it."""
    closing = container.end - 1
    base = _indent_of_line(text, container.start)
    indent = base + unit
    body = ",".join(newline + indent + _render(key, value, indent, unit, newline) for key, value in added)
    last = container.start + 1 + len(text[container.start + 1 : closing].rstrip(" \t\r\n"))
    if "\n" in text[last:closing]:
        return text[:last] + body + text[last:]
    return text[:closing] + body + newline + base + text[closing:]


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


def _cut(text: str, cut: _Cut) -> str:
    """Takes one member or item out, with one comma and, if it had lines of its own, those."""
    container, (_, start, node) = cut
    end = node.end
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
    before = bisect_right(container.parts, start, key=lambda part: part.end)
    if not before:
        return None
    comma = skip(text, container.parts[before - 1].end)
    return comma if text[comma : comma + 1] == "," else None


def _indent_of_line(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = start
    while text[end : end + 1] in (" ", "\t"):
        end += 1
    return text[start:end]


def _indent_unit(text: str, root: Node) -> str:
    if root.parts and "\n" in text[root.start : root.parts[0].start]:
        return _indent_of_line(text, root.parts[0].start) or "  "
    return "  "


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
