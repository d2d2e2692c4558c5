"""Asking the person, on a terminal; elsewhere an option has to say it."""

from __future__ import annotations

import os
import sys

from corral.machine.text import readable


def can_ask() -> bool:
    return os.isatty(0) and os.isatty(2)


def ask(question: str) -> bool:
    """Yes only when yes was typed."""
    print(f"corral: {question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def tell(text: str) -> None:
    print(readable(f"corral: {text}"), file=sys.stderr)
