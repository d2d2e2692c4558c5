"""What a command is: its help, its arguments, what it does. And how to call corral itself."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from corral.cli.screen import terminal_width, tilde
from corral.machine.text import readable

HELP_WIDTH = 80
ONE_SESSION = "exit codes: 0 ok · 1 this can't be an id · 2 usage · 3 ambiguous · 4 not found"
"""For commands that show one session."""
SESSION = "an id, a unique prefix of it, or provider:id"
JSON = "print JSON (docs/json.md)"


class Parser(argparse.ArgumentParser):
    """What was typed is foreign text in what argparse says about it."""

    def error(self, message: str) -> NoReturn:
        super().error(readable(message))


class Command(NamedTuple):
    """One word after `corral`."""

    help: str
    """What it does in one paragraph; then, as written: examples, more to know, exit codes."""
    add_arguments: Callable[[argparse.ArgumentParser], object]
    run: Callable[[argparse.Namespace], int]

    def build_parser(self, prog: str) -> argparse.ArgumentParser:
        # Given `prog` and a width, argparse makes a help text, and imports what that takes, only when asked for it.
        parser = Parser(prog=prog, **self.texts())
        self.add_arguments(parser)
        return parser

    def texts(self) -> dict[str, Any]:
        """What argparse takes of it."""
        description, _, epilog = self.help.partition("\n\n")
        return {"description": description, "epilog": epilog, "formatter_class": _format_help}


def _format_help(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, width=min(terminal_width(), HELP_WIDTH))


def parse_pid(text: str) -> int:
    """A number that a process can have; 0 and negative numbers mean groups."""
    from corral.sidecar.record import MAX_PID

    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_PID):
        raise argparse.ArgumentTypeError(f"{text!r} is not a process id: a whole number from 1 to {MAX_PID}")
    return int(text)


def parse_port(text: str) -> int:
    """A port to listen on; 0 is any free one, as everywhere."""
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 1 to 65535, or 0 for any free one")
    return int(text)


def own_command() -> str:
    """What to type here to call this program again: `corral` if PATH leads to it, else the way that it was called."""
    called = sys.argv[0]
    for folder in os.get_exec_path():
        if os.path.realpath(os.path.join(folder, "corral")) == os.path.realpath(called):
            return "corral"
    if os.path.basename(called) != "corral":
        return "corral"
    checkout = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
    in_checkout = os.path.commonpath([checkout, os.getcwd()]) == checkout
    return os.path.relpath(called) if in_checkout else tilde(os.path.abspath(called))
