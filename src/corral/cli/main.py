"""`corral`: finds the command, imports that module alone, and is the only place that prints an error."""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import os
import sys
from collections.abc import Sequence

from corral.cli.output import find_output_encoding, guard_stream, name_files_in_utf8
from corral.cli.parsers import Parser, format_help
from corral.errors import CorralError
from corral.machine.text import printable, readable
from corral.version import __version__

COMMANDS = {
    "ps": "list sessions: who is live, who needs you, what got lost",
    "show": "one session in full",
    "explain": "how corral knows: every claim, its file, the rule, the verdict",
    "pid": "which session a process serves",
    "resume": "continue a session, in place, as the same conversation",
    "run": "start an agent in a terminal that outlives this one",
    "attach": "go to a running session: its terminal, its tmux pane",
    "terminals": "the terminals that corral keeps",
    "kill": "end the process that serves a session",
    "serve": "the page: sessions, tabs and what happens, in a browser",
    "url": "a new link into the running server",
    "logins": "the browsers that are logged in to the page",
    "watch": "what changes, as it happens",
    "top": "what live sessions use of this machine: CPU, memory, processes",
    "usage": "what was spent: tokens and money by day, project, model …",
    "sql": "questions of your own over what was spent, in SQL",
    "statusline": "one short line for a prompt, a status bar or an agent's status line",
    "hooks": "ask a CLI to report its sessions: install, uninstall, status",
    "sidecar": "the runtime.json protocol for other languages",
    "prices": "what models cost, with source and date",
    "doctor": "what is installed, what was found, what could not be read",
    "demo": "try everything in a throw-away home, without an agent",
    "config": "corral's own configuration",
    "completion": "shell completion for bash, zsh and fish",
}

_TOLD_BESIDE = {"show", "explain", "pid", "resume", "sql", "hooks", "run", "attach", "terminals", "kill", "top"}
"""Commands that go on with the defaults when the configuration is faulty; the others tell it themselves."""
_STARTS_OTHERS = {"run"}
_BUG = 70
_NO_OUTPUT = 1


_END_AT_ONCE = frozenset({"usage", "statusline"})
"""For prompts and status bars: they close what they open, and the kernel frees the rest sooner than Python would."""


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser of one command; of none of them, but with their names, when it is another word."""
    parser = Parser(
        prog="corral",
        description="Knows every coding-agent session on this machine: live, idle or lost, and how to get back in.",
        epilog=(
            "corral alone is corral ps. corral COMMAND --help has options, examples and exit codes.\n"
            "A SESSION is an id, a unique prefix of it, or provider:id.\n"
            "exit codes: 0 ok · 1 refused or failed · 2 usage · 3 ambiguous · 4 not found · 70 a bug"
        ),
        formatter_class=format_help,  # pyright: ignore[reportArgumentType]
    )
    parser.add_argument("--version", action="version", version=f"corral {__version__}", help="print the version")
    # Without `prog` argparse would build a help text here, and import what that takes.
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog="corral")
    if command in COMMANDS:
        module = importlib.import_module(f"corral.cli.{command}")
        module.add_parser(commands).set_defaults(run=module.run)
        return parser
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary, add_help=False)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. `corral` alone is `corral ps`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or (words[0].startswith("-") and words[0] not in {"-h", "--help", "--version"}):
        words.insert(0, "ps")
    words, rest = _split_rest(words)
    try:
        if words[0] not in COMMANDS and not words[0].startswith("-"):
            raise _unknown_command(words[0])
        args = build_parser(words[0]).parse_args(words)
        if rest:
            args.rest = rest
        if args.command in _TOLD_BESIDE:
            tell_config_problem()
        return args.run(args)
    except CorralError as error:
        _tell(error)
        return error.exit_code


def _unknown_command(word: str) -> CorralError:
    import difflib

    near = difflib.get_close_matches(word, COMMANDS, n=1)
    hint = f"did you mean {near[0]}?" if near else "corral --help lists the commands"
    return CorralError(f"unknown command {word!r}", hint=hint, exit_code=2)


def _tell(error: CorralError) -> None:
    print(readable(f"corral: {error.message}"), file=sys.stderr)
    for line in (*error.listed, *error.hints):  # in full: they are there to be copied
        print(f"  {printable(line)}", file=sys.stderr)


def tell_config_problem() -> None:
    """Say on standard error why the configuration is not in force, if it is not."""
    from corral.providers.settings import read_settings

    if (config := read_settings()).problem:
        from corral.cli.config import faulty

        _tell(faulty(config))


def _split_rest(words: list[str]) -> tuple[list[str], list[str]]:
    """What follows `--` is another program's, for a command that starts one; argparse can't tell it from options."""
    if words[0] not in _STARTS_OTHERS or "--" not in words:
        return words, []
    end = words.index("--")
    return words[:end], words[end + 1 :]


def _prepare_output() -> int:
    """Guards what is written. Non-zero when there is no output at all."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        print("corral: there is no standard output", file=sys.stderr)
        return _NO_OUTPUT
    encoding = find_output_encoding()
    sys.stdout, sys.stderr = guard_stream(sys.stdout, encoding), guard_stream(sys.stderr, encoding)
    return 0


def run() -> None:
    """The console script."""
    name_files_in_utf8()
    gc.disable()  # every command is short: collecting costs more than it would free
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
        print("corral: this is a bug; the lines above belong in a report", file=sys.stderr)
        code = _BUG
    if sys.argv[1:2] and sys.argv[1] in _END_AT_ONCE:
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
