"""How a command adds itself to the command line: a summary, a description, and examples that are shown as written."""

from __future__ import annotations

import argparse
from typing import NoReturn, TypeAlias, cast

from corral.cli.screen import terminal_width
from corral.machine.text import readable

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # pyright: ignore[reportPrivateUsage]


OF_ONE_SESSION = "exit codes: 0 ok · 1 that can't be an id · 2 usage · 3 ambiguous · 4 not found"
"""For commands that are about one session."""


class Parser(argparse.ArgumentParser):
    """Of all commands: what was typed is foreign text in what argparse says of it."""

    def error(self, message: str) -> NoReturn:
        super().error(readable(message))


def add_command(
    commands: Commands, name: str, *, summary: str, description: str, epilog: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=format_help,  # pyright: ignore[reportArgumentType]
    )


def format_help(prog: str) -> argparse.HelpFormatter:
    """Text as written, no wider than one can read. A given width also spares argparse an import on every start."""
    return _Help(prog, width=min(terminal_width(), 110))


class _Help(argparse.RawDescriptionHelpFormatter):
    def _format_action(self, action: argparse.Action) -> str:
        """Sub-commands as a plain list: argparse puts a line above them, and indents them out of their column."""
        if action.nargs == argparse.PARSER:
            listed = cast("argparse._SubParsersAction[argparse.ArgumentParser]", action)  # pyright: ignore[reportPrivateUsage]
            return "".join(map(self._format_action, listed._get_subactions()))  # pyright: ignore[reportPrivateUsage]
        return super()._format_action(action)


def parse_pid(text: str) -> int:
    """A number that a process can have; 0 and negative ones mean groups, not processes."""
    from corral.sidecar.record import MAX_PID

    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_PID):
        raise argparse.ArgumentTypeError(f"{text!r} is not a process id: a whole number from 1 to {MAX_PID}")
    return int(text)


def find_nested(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser | None:
    """The parser of a sub-command."""
    for action in list_actions(parser):
        if isinstance(action.choices, dict):
            return action.choices.get(name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return None


def list_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """All options and arguments; argparse offers no public way to ask."""
    return parser._actions  # pyright: ignore[reportPrivateUsage]


def parse_port(text: str) -> int:
    """A port to listen on, for `type=` of an option; 0 is any free one, as everywhere."""
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 1 to 65535, or 0 for any free one")
    return int(text)
