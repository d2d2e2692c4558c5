"""How results leave the program: JSON for machines, lines for people."""

from __future__ import annotations

import sys
from typing import Any, cast


def print_json(report: object) -> None:
    """One indented JSON document. Bytes of a path that are no UTF-8 appear as \\udcXX, as Python names them."""
    import msgspec

    try:
        text = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    except UnicodeEncodeError:
        import json

        text = json.dumps(msgspec.to_builtins(report), indent=2)
    sys.stdout.write(text + "\n")


def to_plain(value: Any) -> Any:
    """Records of the standard library and of msgspec alike as plain objects, by the names of their fields."""
    names: tuple[str, ...] | None = getattr(value, "_fields", None) or getattr(value, "__struct_fields__", None)
    if names is not None:
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {name: to_plain(one) for name, one in cast("dict[str, Any]", value).items()}
    return [to_plain(one) for one in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value


def print_lines(lines: list[str]) -> None:
    sys.stdout.write("".join(line + "\n" for line in lines))
