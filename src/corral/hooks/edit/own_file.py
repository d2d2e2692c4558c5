"""A file that is all ours, in a dialect that its provider writes: made whole, known by our commands, and deleted whole.

The payload of such a CLI may not say which event it is about, so each command line does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from corral.hooks.command import is_our_command
from corral.hooks.edit import EditRefused, Entry, Format
from corral.hooks.program.reporter import EVENT_VARIABLE

_COMMAND = re.compile(rf"{EVENT_VARIABLE}=(\S+) ((?:[^\"\\\n]|\\.)*? \|\| :)")

Write = Callable[[Mapping[str, str]], str]


def find_entries(text: str) -> list[Entry]:
    """The entries of ours that are there, in their order."""
    found = [Entry(event, json.loads(f'"{command}"')) for event, command in _COMMAND.findall(text)]
    return [entry for entry in found if is_our_command(entry.command)]


def add_entries(write: Write, text: str, entries: Sequence[Entry]) -> str:
    """The whole file again. Raises EditRefused where it is somebody else's."""
    if text.strip() and not find_entries(text):
        raise EditRefused("line 1: corral did not write this file")
    return new_text(write, entries)


def remove_entries(text: str, created: Sequence[str]) -> str:
    """Nothing is left of a file that is ours."""
    return "" if find_entries(text) else text


def new_text(write: Write, entries: Sequence[Entry]) -> str:
    text = write({entry.event: f"{EVENT_VARIABLE}={entry.event} {entry.command}" for entry in entries})
    if sorted(find_entries(text)) != sorted(entries):
        raise EditRefused("its provider does not write every command into it")
    return text


def make_format(write: Write | None) -> Format:
    """Of a target that says how its file is written. Raises EditRefused for another."""
    if write is None:
        raise EditRefused("its provider does not say how it is written")
    return Format(
        find_entries=find_entries,
        add_entries=partial(add_entries, write),
        remove_entries=remove_entries,
        list_missing=lambda text, entries: (),
        new_text=partial(new_text, write),
        find_switch_off=lambda text: None,
        is_ours=True,
    )
