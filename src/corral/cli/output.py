"""How results leave the program: JSON for machines, lines for people."""

from __future__ import annotations

import sys


def print_json(report: object) -> None:
    """One indented JSON document. Bytes of a path that are no UTF-8 appear as \\udcXX, as Python names them."""
    import msgspec

    try:
        text = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    except UnicodeEncodeError:
        import json

        text = json.dumps(msgspec.to_builtins(report), indent=2)
    sys.stdout.write(text + "\n")


def print_lines(lines: list[str]) -> None:
    sys.stdout.write("".join(line + "\n" for line in lines))
