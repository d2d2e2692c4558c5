"""`corral completion`: a small script per shell that asks corral itself for the candidates."""

from __future__ import annotations

import argparse

from corral.cli.output import print_lines
from corral.cli.parsers import Commands, add_command, find_nested, list_actions

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

_EPILOG = """\
to use it:
  bash   echo 'source <(corral completion bash)' >> ~/.bashrc
  zsh    echo 'source <(corral completion zsh)' >> ~/.zshrc
  fish   corral completion fish > ~/.config/fish/completions/corral.fish

exit codes: 0 ok · 2 usage"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "completion",
        summary="shell completion for bash, zsh and fish",
        description="Print a completion script. It completes commands, options, providers and session ids.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "shell", choices=(*_SCRIPTS, "words"), help="the shell to print a script for (words: for scripts)"
    )
    parser.add_argument("typed", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def run(args: argparse.Namespace) -> int:
    if args.shell == "words":
        print_lines(candidates(args.typed[1:] if args.typed[:1] == ["--"] else args.typed))
        return 0
    print_lines(_SCRIPTS[args.shell].splitlines())
    return 0


def candidates(words: list[str]) -> list[str]:
    """What may stand in place of the last word, given those before it."""
    from corral.cli.main import COMMANDS, build_parser

    *before, last = words or [""]
    if not before:
        return [name for name in COMMANDS if name.startswith(last)]
    if before[0] not in COMMANDS:
        return []
    return [word for word in _offered(build_parser(before[0]), before) if word.startswith(last)]


def _offered(parser: argparse.ArgumentParser, before: list[str]) -> list[str]:
    """Options, fixed choices and named things of the innermost command that the words lead to."""
    for word in before:
        nested = find_nested(parser, word)
        if nested is None:
            break
        parser = nested
    offered: list[str] = []
    for action in list_actions(parser):
        offered += action.option_strings
        offered += [str(choice) for choice in action.choices or ()]
        if action.metavar == "SESSION":
            offered += _session_ids()
        elif action.metavar in {"PROVIDER", "P"}:
            offered += _provider_names()
    return offered


def _session_ids() -> list[str]:
    from corral.model.selection import Selection
    from corral.sessions import take_survey

    return [session.session_id for session in take_survey(Selection()).sessions]


def _provider_names() -> list[str]:
    from corral.providers.registry import all_providers

    return [provider.name for provider in all_providers()]
