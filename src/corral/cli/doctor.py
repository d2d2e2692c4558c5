"""`corral doctor`: what is installed, what was found, what could not be read, and what would help."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.screen import paint, tilde, use_colour
from corral.sessions import examine

if TYPE_CHECKING:
    from corral.sessions import Diagnosis, HomeHealth, ProviderHealth

_MOST_SKIPPED = 20
_EPILOG = """\
examples:
  corral doctor
  corral doctor --json | jq .advice

exit codes: 0 ok · 1 a step failed, or a directory of corral's own can't be written · 2 usage"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "doctor",
        summary="what is installed, what was found, what could not be read",
        description="Check every provider: program, homes, hooks; list what could not be read, and what would help.",
        epilog=_EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md)")
    return parser


def run(args: argparse.Namespace) -> int:
    diagnosis = examine()
    if args.json:
        print_json(diagnosis)
    else:
        print_lines(render(diagnosis, colour=use_colour()))
    broken = any(not place.writable for place in diagnosis.places) or diagnosis.degraded
    return 1 if broken else 0


def render(diagnosis: Diagnosis, *, colour: bool) -> list[str]:
    lines: list[str] = []
    for provider in diagnosis.providers:
        lines.append(paint(provider.capabilities.title, "bold", colour) + f"  ({provider.name})")
        lines.append(f"  support   {' · '.join(provider.support.words())}")
        lines.append(f"  program   {_say_program(provider)}")
        lines += [f"  home      {_say_home(home)}" for home in provider.homes]
        lines += [
            f"  hooks     {tilde(home.path)}: {_say_hooks(provider, home)}" for home in provider.homes if home.exists
        ]
    for process in diagnosis.unattributed:
        text = f"? pid {process.pid} is {process.provider}, and corral can't see its session"
        lines.append(paint(text, "violet", colour))
    for problem in diagnosis.degraded:
        lines.append(paint(f"! {problem.provider}: {problem.step}: {problem.reason}", "amber", colour))
    lines += [paint(f"! {warning}", "amber", colour) for warning in diagnosis.warnings]
    lines += [f"- skipped {tilde(one.path)}: {one.reason}" for one in diagnosis.skipped[:_MOST_SKIPPED]]
    if len(diagnosis.skipped) > _MOST_SKIPPED:
        lines.append(f"- and {len(diagnosis.skipped) - _MOST_SKIPPED} more (--json lists them all)")
    for place in diagnosis.places:
        mark = "" if place.writable else paint("  can't be written", "red", colour)
        lines.append(f"{place.name:<6}    {tilde(place.path)}{mark}")
    lines += [f"try: {line}" for line in diagnosis.advice]
    return lines


def _say_program(provider: ProviderHealth) -> str:
    program = provider.program
    if program is None:
        return "not found on PATH"
    proven = "" if program.version in provider.capabilities.proven_versions else ", a version not proven here"
    return f"{tilde(program.path)}  {program.version or 'version unknown'}" + (
        f": {program.problem}" if program.problem else proven
    )


def _say_home(home: HomeHealth) -> str:
    plural = "session" if home.sessions == 1 else "sessions"
    return f"{tilde(home.path)}  ({home.origin})  " + (f"{home.sessions} {plural}" if home.exists else "does not exist")


def _say_hooks(provider: ProviderHealth, home: HomeHealth) -> str:
    if home.hooks.problems:
        return "; ".join(home.hooks.problems)
    if home.hooks.installed:
        return "installed"
    needed = (
        "needed to know which session a process serves" if provider.capabilities.needs_hooks else "not needed for most"
    )
    return f"not installed ({needed})"
