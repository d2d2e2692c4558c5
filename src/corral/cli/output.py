"""What corral prints and asks: JSON for machines, lines for people, and nothing that could steer a terminal."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from corral.machine.text import control, readable, safe

if TYPE_CHECKING:
    from corral.usage import Progress

_OUTPUT = "corral_output"


class Output(io.TextIOWrapper):
    """A standard stream that lets only corral's own controls through to the terminal."""

    def write(self, text: str, /) -> int:
        super().write(safe(text, lines=True))
        return len(text)


def guard_stream(stream: TextIO, encoding: str | None = None) -> TextIO:
    """The same stream, guarded. Characters that a terminal can't show are replaced."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    encoding = encoding or stream.encoding
    buffered, through = stream.line_buffering, stream.write_through
    stream.flush()
    raw = cast(BinaryIO, stream.detach())
    return Output(raw, encoding=encoding, errors="replace", line_buffering=buffered, write_through=through)


def print_json(report: object) -> None:
    """One indented JSON document. Bytes of a path that are not UTF-8 appear as \\udcXX, as in Python."""
    from corral.machine.json_text import encode_json

    text = encode_json(report, indent=2).decode()
    if not text.isascii() and sys.stdout.encoding.lower() != "utf-8":
        import json

        text = "".join(sign if sign.isascii() else json.dumps(sign)[1:-1] for sign in text)
    sys.stdout.write(text + "\n")


def print_csv(rows: Iterable[Sequence[object]]) -> None:
    """One line a row, whatever is in it."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows([safe_line(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def print_lines(lines: list[str]) -> None:
    """Each is one line, whatever is in it."""
    sys.stdout.write("".join(safe_line(line) + "\n" for line in lines))


def safe_line(line: str) -> str:
    """A line whose newlines are foreign text."""
    return line.replace("\n", "\\n") if "\n" in line else line


def tell(text: str) -> None:
    """Say something beside the result, as one line on standard error."""
    print(readable(f"corral: {text}"), file=sys.stderr)


def can_ask() -> bool:
    """Whether a person can answer; elsewhere an option has to."""
    return os.isatty(0) and os.isatty(2)


def ask(question: str) -> bool:
    """True only if yes was typed."""
    print(f"corral: {question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def progress_bar() -> Callable[[Progress], None] | None:
    """Shows how far logs are read: only on a terminal, and only once that has taken a while."""
    if not sys.stderr.isatty():
        return None
    import time

    begun = time.monotonic()

    def show(progress: Progress) -> None:
        if time.monotonic() - begun < 0.5 or not progress.total_bytes:
            return
        share = progress.done_bytes / progress.total_bytes
        begin, end = control("\r"), control("\r\x1b[K") if share >= 1 else ""
        bar = "█" * int(share * 30)
        print(f"{begin}reading logs {bar:<30} {share:4.0%}{end}", end="", file=sys.stderr, flush=True)

    return show


def name_files_in_utf8() -> None:
    """Start this program again in Python's UTF-8 mode, once, if file names have another encoding here.

    It uses options of the interpreter, not the environment: programs that corral starts keep theirs.
    """
    if sys.getfilesystemencoding() == "utf-8" or not sys.executable or find_output_encoding() is not None:
        return
    output = sys.stdout.encoding if sys.stdout is not None else "ascii"  # pyright: ignore[reportUnnecessaryComparison]
    options = ["-X", "utf8", "-X", f"{_OUTPUT}={output}"]
    os.execv(sys.executable, [sys.executable, *options, *sys.orig_argv[1:]])


def find_output_encoding() -> str | None:
    """The terminal's encoding, if this program was started again; else None."""
    found = sys._xoptions.get(_OUTPUT)  # pyright: ignore[reportPrivateUsage] - the only way to them
    return found if isinstance(found, str) else None
