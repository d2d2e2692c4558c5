"""Our entries in a config.toml: put in and taken out, with every other byte, comment and order kept.

Sections of ours are text: added at the end of the file, and cut out again. A list on one statement, `hooks = [ … ]`,
is edited by tomlkit. Whatever was edited is read again by tomllib, and refused if it does not say what is wanted.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any, cast

from corral.hooks.command import is_our_command
from corral.hooks.edit import EditRefused, Entry, newline_of
from corral.model.hook_target import HookRules

TIMEOUT_SECONDS = 5
_HEADER = r"[ \t]*\[\[[ \t]*hooks[ \t]*\]\][^\n]*"
_REMARKS = r"(?:\n[ \t]*(?:\#[^\n]*|\r?))*"
_ASSIGNMENT = r"\n[ \t]*[\w\"'-]+[ \t]*=[^\n]*"
# A section with the empty line before it. Remarks and blanks belong to it only between its own statements: those after
# the last one may be about something else.
_SECTION = re.compile(rf"(?:(?:(?<=\n)|\A)[ \t]*\r?\n)?^({_HEADER}(?:{_REMARKS}{_ASSIGNMENT})*)(?:\n|\Z)", re.MULTILINE)


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
    tables = [_table(entry) for entry in entries]
    edited = _edit_list(text, added=tables) if _is_list(text) else _append_sections(text, tables)
    if _parse(edited) != {**before, "hooks": [*cast(list[object], hooks), *tables]}:
        raise EditRefused("it could not be edited without changing something else")
    return edited


def remove_entries(text: str, created: Sequence[str]) -> str:
    """The text without our entries. A list that is in `created` was made by us and goes when it is empty."""
    before = _parse(text)
    kept = [hook for hook in _hooks(before) if not _is_ours(hook)]
    if len(kept) == len(_hooks(before)):
        return text
    edited = _edit_list(text) if _is_list(text) else _SECTION.sub(_cut_ours, text)
    if {"hooks": [], **_parse(edited)} != {**before, "hooks": kept}:
        raise EditRefused("our entries could not be removed without changing something else")
    return edited


def list_missing(text: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    """The containers that adding these entries will create."""
    return ("hooks",) if entries and "hooks" not in _parse(text) else ()


def new_text(entries: Sequence[Entry]) -> str:
    """A whole config.toml with nothing but our entries."""
    return _append_sections("", [_table(entry) for entry in entries])


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


def _is_list(text: str) -> bool:
    """Whether it has `hooks = [ … ]`: no section can be added to that."""
    try:
        tomllib.loads(f"{text}\n[[hooks]]\n")
    except tomllib.TOMLDecodeError:
        return True
    return False


def _append_sections(text: str, tables: Sequence[dict[str, Any]]) -> str:
    import tomlkit

    newline = newline_of(text)
    for table in tables:
        lines = (f"{name} = {cast(Any, tomlkit.item(value)).as_string()}" for name, value in table.items())
        between = newline if text.endswith("\n") else newline * 2 if text else ""
        text += between + newline.join(["[[hooks]]", *lines, ""])
    return text


def _cut_ours(section: re.Match[str]) -> str:
    try:
        found = _hooks(tomllib.loads(section[1] + "\n"))
    except tomllib.TOMLDecodeError:
        return section[0]  # it has a text over several lines, as ours never do
    return "" if any(_is_ours(hook) for hook in found) else section[0]


def _edit_list(text: str, added: Sequence[dict[str, Any]] = ()) -> str:
    """`hooks = [ … ]` without our entries, and with those that are added."""
    import tomlkit

    document: Any = tomlkit.parse(text)
    if tomlkit.dumps(document) != text:
        raise EditRefused("it is written in a way that can't be edited")
    hooks = document["hooks"]
    for index in reversed(range(len(hooks))):
        if _is_ours(hooks[index]):
            del hooks[index]
    for table in added:
        inline: Any = tomlkit.inline_table()
        inline.update(table)
        hooks.append(inline)
    return tomlkit.dumps(document)
