"""Our entries in a config.toml: put in and taken out, with every other byte, comment and order kept."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from corral.hooks.command import is_our_command
from corral.hooks.edit.entries import EditRefused, Entry, newline_of
from corral.model.hook_target import HookRules

TIMEOUT_SECONDS = 5
_SECTION = "[[hooks]]"


def find_entries(text: str) -> list[Entry]:
    """The entries of ours that are there, in their order."""
    return [
        # kimi-cli 1.51 writes an empty matcher when it rewrites its configuration (2026-11).
        Entry(str(hook.get("event")), hook["command"], is_narrowed=hook.get("matcher", "") != "")
        for hook in _hooks(_parse(text))
        if _is_ours(hook)
    ]


def add_entries(text: str, entries: Sequence[Entry]) -> str:
    """The text with our entries behind the hooks that are there. Raises EditRefused."""
    before = _parse(text)
    hooks = before.get("hooks", [])
    if not isinstance(hooks, list) or not all(isinstance(hook, dict) for hook in cast(list[object], hooks)):
        raise EditRefused("hooks is not a list of tables")
    edited = _extend_inline(text, entries) if _is_inline(before, text) else _append_sections(text, entries)
    wanted = {**before, "hooks": [*cast(list[object], hooks), *(_table(entry) for entry in entries)]}
    if _parse(edited) != wanted:
        raise EditRefused("it could not be edited without changing something else")
    return edited


def remove_entries(text: str, created: Sequence[str]) -> str:
    """The text without our entries. A list that is in `created` was made by us and goes when it is empty."""
    before = _parse(text)
    if not any(_is_ours(hook) for hook in _hooks(before)):
        return text
    edited = _shorten_inline(text) if _is_inline(before, text) else _cut_sections(before, text)
    kept = [hook for hook in _hooks(before) if not _is_ours(hook)]
    empty: dict[str, Any] = {"hooks": []}
    if {**empty, **_parse(edited)} != {**before, "hooks": kept}:
        raise EditRefused("our entries could not be removed without changing something else")
    return edited


def list_missing(text: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    """The containers that adding these entries will create."""
    return ("hooks",) if entries and "hooks" not in _parse(text) else ()


def new_text(entries: Sequence[Entry]) -> str:
    """A whole config.toml with nothing but our entries."""
    return _append_sections("", entries)


def find_switch_off(text: str) -> str | None:
    """A setting that keeps every hook from running: the Kimis have none."""
    return None


def find_rejection(text: str, rules: HookRules) -> str | None:
    """What the CLI does not accept by its own rules (the first bad entry), and why; None when it accepts all."""
    document = _parse(text)
    if rules.largest_number is not None and (number := _find_larger(document, rules.largest_number)) is not None:
        return f"the number {number} (too large)"
    hooks = document.get("hooks", [])
    if not isinstance(hooks, list):
        return "hooks, which is not a list"
    for number, hook in enumerate(cast(list[object], hooks), start=1):
        if fault := _find_fault(hook, rules):
            return f"hooks entry {number} ({fault})"
    return None


def _find_larger(document: dict[str, Any], largest: int) -> int | None:
    waiting: list[object] = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += cast(dict[str, object], value).values()
        elif isinstance(value, list):
            waiting += cast(list[object], value)
        elif isinstance(value, int) and abs(value) > largest:
            return value
    return None


def _find_fault(hook: object, rules: HookRules) -> str | None:
    if not isinstance(hook, dict):
        return "not a table"
    entry = cast(dict[str, object], hook)
    if rules.fields is not None and (unknown := sorted(entry.keys() - set(rules.fields))):
        return f"unknown field {unknown[0]!r}"
    if (event := entry.get("event")) not in rules.events:
        return f"unknown event {event!r}" if "event" in entry else "no event"
    if not isinstance(command := entry.get("command"), str) or (rules.fields is not None and not command):
        return "no command"
    if not isinstance(entry.get("matcher", ""), str):
        return "matcher is not a text"
    return _find_timeout_fault(entry["timeout"], rules) if "timeout" in entry else None


def _find_timeout_fault(timeout: object, rules: HookRules) -> str | None:
    if rules.coerces and isinstance(timeout, str) and timeout.strip().isdecimal():
        timeout = int(timeout)
    is_whole = isinstance(timeout, (int, float)) and timeout == timeout // 1
    if not is_whole or (isinstance(timeout, bool) and not rules.coerces):
        return f"timeout {timeout!r} is not a whole number"
    if not 1 <= cast(float, timeout) <= rules.longest_timeout_s:
        return f"timeout {timeout} is not between 1 and {rules.longest_timeout_s}"
    return None


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise EditRefused(str(error)) from error
    except RecursionError as error:
        raise EditRefused("nested too deeply") from error


def _hooks(document: dict[str, Any]) -> list[dict[str, Any]]:
    hooks = document.get("hooks")
    if not isinstance(hooks, list):
        return []
    return [cast(dict[str, Any], hook) for hook in cast(list[object], hooks) if isinstance(hook, dict)]


def _is_ours(hook: dict[str, Any]) -> bool:
    return is_our_command(hook.get("command"))


def _table(entry: Entry) -> dict[str, Any]:
    return {"event": entry.event, "command": entry.command, "timeout": TIMEOUT_SECONDS}


def _sections(text: str) -> list[tuple[int, int]]:
    """Where each [[hooks]] begins and where its last statement ends, sub-tables included."""
    sections: list[list[int]] = []
    inside = False
    for statement in list_statements(text):
        if statement.header == _SECTION:
            sections.append([statement.start, statement.end])
            inside = True
            continue
        if statement.header is not None:
            inside = inside and statement.header.lstrip("[").startswith("hooks.")
        if inside:
            sections[-1][1] = statement.end
    return [(start, end) for start, end in sections]


def _is_inline(document: dict[str, Any], text: str) -> bool:
    """`hooks = [ … ]`: the one other way to write the list."""
    return "hooks" in document and not _sections(text)


def _append_sections(text: str, entries: Sequence[Entry]) -> str:
    newline = newline_of(text)
    sections = _sections(text)
    # Behind the last one, not at the end of the file: a list of tables is best left in one piece.
    place = next_line(text, sections[-1][1]) if sections else len(text)
    blocks = "".join(newline + newline.join(_lines(entry)) + newline for entry in entries)
    head = text[:place]
    if head and not head.endswith("\n"):
        head += newline
    return (head + blocks if head else blocks[len(newline) :]) + text[place:]


def _lines(entry: Entry) -> list[str]:
    import tomlkit

    values = (f"{name} = {cast(Any, tomlkit.item(value)).as_string()}" for name, value in _table(entry).items())
    return [_SECTION, *values]


def _cut_sections(document: dict[str, Any], text: str) -> str:
    """Takes our sections out, each with the empty line before it."""
    ours = [_is_ours(hook) for hook in _hooks(document)]
    for (start, end), is_ours in reversed(list(zip(_sections(text), ours, strict=True))):
        if not is_ours:
            continue
        start = text.rfind("\n", 0, start) + 1
        above = text[:start].removesuffix("\n").removesuffix("\r")
        if above.endswith("\n") or not above:
            start = len(above)
        text = text[:start] + text[next_line(text, end) :]
    return text


def _extend_inline(text: str, entries: Sequence[Entry]) -> str:
    import tomlkit

    statement, array = _inline_array(text)
    for entry in entries:
        table = cast(Any, tomlkit.inline_table())
        table.update(_table(entry))
        array.append(table)
    return _replace_value(text, statement, array)


def _shorten_inline(text: str) -> str:
    statement, array = _inline_array(text)
    for index in reversed(range(len(array))):
        if _is_ours(cast(dict[str, Any], array[index])):
            del array[index]
    return _replace_value(text, statement, array)


def _inline_array(text: str) -> tuple[Statement, Any]:
    """The one statement that assigns the list, and the list as tomlkit has it."""
    import tomlkit

    for statement in list_statements(text):
        if statement.header is not None:
            break
        # Parsed on its own: nothing else of the file passes through another program's hands.
        words = text[statement.start : statement.end]
        if words.startswith(("hooks", '"', "'")) and "hooks" in tomllib.loads(words):
            return statement, cast(Any, tomlkit.parse(words))["hooks"]
    raise EditRefused("hooks is written in a way that can't be edited")


def _replace_value(text: str, statement: Statement, array: Any) -> str:
    key = text[statement.start : statement.end].split("=", 1)[0]
    return text[: statement.start] + f"{key}= {array.as_string()}" + text[statement.end :]


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
