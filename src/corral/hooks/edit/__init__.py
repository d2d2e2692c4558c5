"""Editing somebody else's configuration: our entries in and out, every other byte kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from msgspec import Struct

from corral.model.hook_target import ConfigFormat, HookTarget


class Entry(Struct, frozen=True, order=True):
    """One hook of ours."""

    event: str
    command: str
    is_narrowed: bool = False
    """As found: it runs for some sessions only."""


class EditRefused(Exception):
    """The configuration stays as it is; the message says what is wrong with it, and where."""


class ConfigUnreadable(EditRefused):
    """What is in its place can't be read as text."""


def describe_fault(refusal: EditRefused) -> str:
    """Why we can't see or install hooks: a sentence for the person, who has to fix it."""
    what = str(refusal) if isinstance(refusal, ConfigUnreadable) else f"does not parse: {refusal}"
    return f"the configuration {what}; corral leaves it as it is until you fix it"


def decode_config(data: bytes) -> str:
    """The text of a configuration; refuses what its CLI would not read either."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise EditRefused("it begins with a byte order mark")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise EditRefused(f"line {line}: not UTF-8") from error


def newline_of(text: str) -> str:
    """The line ending the text uses first."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


class Format(Struct, frozen=True):
    """How a configuration is edited. Each function works on the text and touches nothing else.

    Where nothing is left after our entries were taken out, there is no file either if it was all ours.
    """

    find_entries: Callable[[str], list[Entry]]
    add_entries: Callable[[str, Sequence[Entry]], str]
    remove_entries: Callable[[str, Sequence[str]], str]
    list_missing: Callable[[str, Sequence[Entry]], tuple[str, ...]]
    new_text: Callable[[Sequence[Entry]], str]
    find_switch_off: Callable[[str], str | None]
    is_ours: bool = False
    """The whole file is."""


def format_of(kind: ConfigFormat, target: HookTarget) -> Format:
    """How this kind of configuration of that target is edited. Raises EditRefused."""
    match kind:
        case ConfigFormat.TOML_HOOKS:
            from corral.hooks.edit import toml_config as module
        case ConfigFormat.JSON_HOOKS:
            from corral.hooks.edit import json_config as module
        case ConfigFormat.OWN_FILE:
            from corral.hooks.edit.own_file import make_format

            return make_format(target.write_own)
        case _:
            assert_never(kind)
    return Format(
        module.find_entries,
        module.add_entries,
        module.remove_entries,
        module.list_missing,
        module.new_text,
        module.find_switch_off,
    )


def find_rejection(target: HookTarget, text: str) -> str | None:
    """Why the CLI runs no hook of this configuration, by its own rules; None when it accepts it."""
    if target.rules is None:
        return None
    from corral.hooks.edit.toml_config import find_rejection as find_in_toml

    found = find_in_toml(text, target.rules)
    return f"{target.provider} rejects {found}, {target.rules.effect}" if found else None
