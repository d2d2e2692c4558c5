"""`corral completion`: a small script per shell that asks corral itself for the candidates."""

from __future__ import annotations

import argparse
from typing import Any

from corral.cli.command import Command
from corral.cli.output import print_lines

_SCRIPTS = {
    "bash": """\
_corral() {
  mapfile -t COMPREPLY < <(corral completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} -eq 0 ]] && compopt -o default
}
complete -F _corral corral""",
    "zsh": """\
#compdef corral
_corral() {
  local -a candidates
  candidates=("${(@f)$(corral completion words -- "${words[@]:1:CURRENT-1}" 2>/dev/null)}")
  if (( ${#candidates} )) && [[ -n ${candidates[1]} ]]; then compadd -- $candidates; else _files; fi
}
compdef _corral corral""",
    "fish": """\
complete -c corral -f -a '(corral completion words -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'""",
}

_HELP = """\
Print a script for your shell that completes commands, options, providers and
session ids.

to use it:
  bash   echo 'source <(corral completion bash)' >> ~/.bashrc
  zsh    echo 'source <(corral completion zsh)' >> ~/.zshrc
  fish   corral completion fish > ~/.config/fish/completions/corral.fish

exit codes: 0 ok · 2 usage"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=(*_SCRIPTS, "words"), help="your shell (words: what the scripts ask)")
    parser.add_argument("typed", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.shell == "words":
        print_lines(_list_candidates(args.typed[1:] if args.typed[:1] == ["--"] else args.typed))
    else:
        print_lines(_SCRIPTS[args.shell].splitlines())
    return 0


def _list_candidates(words: list[str]) -> list[str]:
    """What the last word can become, given those before it."""
    from corral.cli.main import COMMANDS, build_parser

    *before, last = words or [""]
    if not before:
        offered = list(COMMANDS)
    elif before[0] in COMMANDS:
        offered = _list_offered(build_parser(before[0]), before[1:])
    else:
        offered = []
    return [word for word in offered if word.startswith(last)]


def _list_offered(parser: argparse.ArgumentParser, before: list[str]) -> list[str]:
    """Options, choices and names of this command, or of its action if the words name one."""
    offered: list[str] = []
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage] - argparse has no public way to list them
        choices: Any = action.choices or ()
        if action.nargs == argparse.PARSER and before and before[0] in choices:
            return _list_offered(choices[before[0]], before[1:])
        offered += [*action.option_strings, *map(str, choices)]
        if action.metavar == "SESSION":
            from corral.model.selection import Selection
            from corral.sessions import take_survey

            offered += [session.session_id for session in take_survey(Selection()).sessions]
        elif action.metavar in {"PROVIDER", "P"} and not choices:
            from corral.providers.registry import all_providers

            offered += [provider.name for provider in all_providers()]
    return offered


COMMANDS = {"completion": Command(_HELP, add_arguments, run)}
