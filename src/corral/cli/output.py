"""How results leave the program: JSON for machines, lines for people."""

from __future__ import annotations

import sys


def print_json(report: object) -> None:
    """One indented JSON document."""
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")


def print_lines(lines: list[str]) -> None:
    sys.stdout.write("".join(line + "\n" for line in lines))
