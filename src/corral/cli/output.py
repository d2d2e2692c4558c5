"""How results leave the program: JSON for machines, lines for people, and nothing that could steer a terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence

from corral.light_typing import cast
from corral.system.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO  # noqa: F401 - one is named in a cast


class Output(io.TextIOWrapper):
    """A standard stream: whatever is written, by whomever, only controls of our own reach the terminal."""

    def write(self, text: str, /) -> int:
        super().write(safe(text, lines=True))
        return len(text)


def guard_stream(stream: TextIO) -> TextIO:
    """The same stream, guarded. Signs that a terminal can't show are replaced, never fatal."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    encoding, buffered, through = stream.encoding, stream.line_buffering, stream.write_through
    stream.flush()
    raw = cast("BinaryIO", stream.detach())
    return Output(raw, encoding=encoding, errors="replace", line_buffering=buffered, write_through=through)


def print_json(report: object) -> None:
    """One indented JSON document. Bytes of a path that are no UTF-8 appear as \\udcXX, as Python names them."""
    from corral.system.json_text import encode_json

    sys.stdout.write(encode_json(report, indent=2).decode() + "\n")


def print_csv(rows: Iterable[Sequence[object]]) -> None:
    """One line a row, whatever is in it."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows([safe_line(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def print_lines(lines: list[str]) -> None:
    """Each is one line, whatever is in it."""
    sys.stdout.write("".join(safe_line(line) + "\n" for line in lines))


def safe_line(line: str) -> str:
    """A line in which newlines are foreign."""
    return line.replace("\n", "\\n") if "\n" in line else line
