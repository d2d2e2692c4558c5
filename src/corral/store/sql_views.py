"""The views that `corral sql` offers, as views.sql defines and describes them."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

_COLUMN = re.compile(r"    .*?\bAS (\w+),?\s*(?:-- (.*))?\Z")
_VIEW = re.compile(r"CREATE TEMP VIEW (\w+) AS SELECT\Z")


class Column(NamedTuple):
    """A column, and what it means where its name does not say it."""

    name: str
    meaning: str


class View(NamedTuple):
    """One documented view."""

    name: str
    meaning: str
    columns: tuple[Column, ...]


def read_definitions() -> str:
    """The statements that make the views, on a connection to the ledger."""
    with open(os.path.join(os.path.dirname(__file__), "views.sql"), encoding="utf-8") as file:
        return file.read()


def list_views() -> list[View]:
    """Names, columns and meanings, in the order of the file."""
    views: list[View] = []
    for block in read_definitions().split("\n\n")[1:]:
        meaning, head, *lines = block.strip().split("\n")
        view = _VIEW.match(head)
        if view is None:
            raise ValueError(f"views.sql: {head!r} begins no view")
        columns: list[Column] = []
        for line in lines:
            if not line.startswith("    "):
                break
            found = _COLUMN.match(line)
            if found is None:
                raise ValueError(f"views.sql: {line!r} is no column")
            columns.append(Column(found[1], found[2] or ""))
        views.append(View(view[1], meaning.removeprefix("-- "), tuple(columns)))
    return views
