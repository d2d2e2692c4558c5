"""`corral`: finds the command, imports its module alone, and is the only place that prints an error."""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import os
import sys
from collections.abc import Sequence

from corral.cli.output import find_output_encoding, guard_stream, name_files_in_utf8, print_lines
from corral.errors import CorralError
from corral.machine.text import printable, readable
from corral.version import __version__

COMMANDS = {
    "ps": "list sessions: who is live, who needs you, what was lost",
    "show": "show one session in full",
    "explain": "show how corral knows: each claim, its file, rule and verdict",
    "pid": "show which session a process serves",
    "resume": "continue a session here, as the same conversation",
    "run": "start an agent in a terminal that outlives this one",
    "attach": "go to a running session: its terminal, its tmux pane",
    "terminals": "list the terminals that corral keeps",
    "kill": "end the process that serves a session",
    "serve": "serve the page: sessions, tabs and usage in a browser",
    "url": "print a new link to the page",
    "logins": "list or end the browsers that are logged in to the page",
    "watch": "print changes as they happen",
    "top": "show what live sessions use: CPU, memory, processes",
    "usage": "add up tokens and money by day, project, model …",
    "sql": "query what was spent, in SQL",
    "statusline": "print one short line for a prompt or a status bar",
    "hooks": "have agent CLIs report their sessions: install, uninstall, status",
    "sidecar": "write and check runtime.json, for programs in other languages",
    "prices": "show what models cost, with source and date",
    "doctor": "check what is installed and what can't be read",
    "demo": "try everything in a throw-away home, without an agent",
    "config": "show corral's own configuration",
    "completion": "print shell completion for bash, zsh or fish",
}
_MODULES = {
    **dict.fromkeys(("show", "explain", "pid", "resume", "kill"), "session"),
    **dict.fromkeys(("run", "attach"), "terminals"),
    **dict.fromkeys(("url", "logins"), "serve"),
    "doctor": "hooks",
    "prices": "config",
}
"""Commands that share a module; every other has one of its own name."""
_HELP = """\
usage: corral [COMMAND] [OPTIONS]

corral knows every coding-agent session on this machine: whether it is live,
idle or lost, what it used, and how to get back in.

commands:
{commands}

options:
  -h, --help  show this text; after a command: its options and examples
  --version   print the version

Without a command, corral runs ps.
SESSION is an id, a unique prefix of it, or provider:id.
exit codes: 0 ok · 1 refused or failed · 2 usage · 3 ambiguous · 4 not found ·
            70 a bug"""

_TOLD_BESIDE = {"show", "explain", "pid", "resume", "sql", "hooks", "run", "attach", "terminals", "kill", "top"}
"""Commands that use the defaults when the configuration is faulty, and say so; the others report it themselves."""
_STARTS_OTHERS = {"run"}
_BUG = 70
_NO_OUTPUT = 1
_END_AT_ONCE = frozenset({"usage", "statusline"})
"""Prompts and status bars wait for these. They close what they open; the kernel frees the rest faster than Python."""


def build_parser(command: str) -> argparse.ArgumentParser:
    module = importlib.import_module(f"corral.cli.{_MODULES.get(command, command)}")
    found = module.COMMANDS[command]
    parser = found.build_parser(f"corral {command}")
    parser.set_defaults(run=found.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. `corral` alone is `corral ps`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] in (["-h"], ["--help"]):
        commands = "\n".join(f"  {name:<10}  {summary}" for name, summary in COMMANDS.items())
        print_lines(_HELP.format(commands=commands).splitlines())
        return 0
    if words[:1] == ["--version"]:
        print_lines([f"corral {__version__}"])
        return 0
    if not words or words[0].startswith("-"):
        words.insert(0, "ps")
    command, words, rest = _split_rest(words)
    try:
        if command not in COMMANDS:
            raise _unknown_command(command)
        args = build_parser(command).parse_args(words)
        if rest:
            args.rest = rest
        if command in _TOLD_BESIDE:
            tell_config_problem()
        return args.run(args)
    except CorralError as error:
        _tell(error)
        return error.exit_code


def _split_rest(words: list[str]) -> tuple[str, list[str], list[str]]:
    """The command, its words, and after `--` those of another program: argparse can't tell them from options."""
    command, *words = words
    if command not in _STARTS_OTHERS or "--" not in words:
        return command, words, []
    end = words.index("--")
    return command, words[:end], words[end + 1 :]


def _unknown_command(word: str) -> CorralError:
    import difflib

    near = difflib.get_close_matches(word, COMMANDS, n=1)
    hint = f"did you mean {near[0]}?" if near else "corral --help lists the commands"
    return CorralError(f"unknown command {word!r}", hint=hint, exit_code=2)


def _tell(error: CorralError) -> None:
    print(readable(f"corral: {error.message}"), file=sys.stderr)
    for line in (*error.listed, *error.hints):  # in full, so that they can be copied
        print(f"  {printable(line)}", file=sys.stderr)


def tell_config_problem() -> None:
    """If the configuration is not in force, say why on standard error."""
    from corral.providers.settings import read_settings

    if (config := read_settings()).problem:
        from corral.cli.config import faulty

        _tell(faulty(config))


def _prepare_output() -> int:
    """Guard what is written. Not zero if there is no output at all."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        print("corral: there is no standard output", file=sys.stderr)
        return _NO_OUTPUT
    encoding = find_output_encoding()
    sys.stdout, sys.stderr = guard_stream(sys.stdout, encoding), guard_stream(sys.stderr, encoding)
    return 0


def run() -> None:
    """The console script."""
    name_files_in_utf8()
    gc.disable()  # commands are short: collecting costs more than it frees
    code = _prepare_output()
    try:
        if code == 0:
            code = main()
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # The reader (head, less) has left: nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF):
            raise
        # The disk behind the output is full, or it was closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"corral: the output could not be written: {error.strerror}", file=sys.stderr)
        code = 1
    except Exception:  # noqa: BLE001 - the last line of defence: say that it is a bug, and show it
        import traceback

        traceback.print_exc()
        print("corral: this is a bug; please report it with the lines above", file=sys.stderr)
        code = _BUG
    if sys.argv[1:2] and sys.argv[1] in _END_AT_ONCE:
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
