"""`corral hooks` and `corral doctor`: what agent CLIs report, what is installed, what is wrong and what would help."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from corral.cli.command import JSON, Command
from corral.cli.output import print_json, print_lines
from corral.cli.screen import paint, table, terminal_width, tilde, use_colour
from corral.errors import CorralError
from corral.hooks import hook_providers, install_hooks, read_statuses, uninstall_hooks
from corral.machine.text import printable
from corral.model.hook_install import Done, Outcome

if TYPE_CHECKING:
    from corral.hooks import Status
    from corral.sessions import Diagnosis, HomeHealth, ProviderHealth

_HOOKS = """\
Have agent CLIs report which process serves which session, take that back, or
show how it stands.

examples:
  corral hooks                       show what is installed
  corral hooks install               for every CLI that has a home here
  corral hooks install kimi-code     for one
  corral hooks install kimi-cli --home /mnt/data/.kimi
  corral hooks uninstall kimi-cli    take corral's entries out again

Without PROVIDER, it is about every CLI. Without --home, it is about each of
its homes: the default, the one that its variable names, and those in corral's
config; install and uninstall skip homes that don't exist.

The hooks record which process serves which session: no prompts, no answers,
no command lines. Agents that are running report after their next start. See
docs/hooks.md.

exit codes: 0 all is well, also when nothing is installed · 1 refused, or
            something is wrong · 2 usage"""
_DOCTOR = """\
Check every provider: program, homes, hooks. List what could not be read, and
what would help.

examples:
  corral doctor
  corral doctor --json | jq .advice

exit codes: 0 ok · 1 a step failed, or a directory of corral's own can't be
            written · 2 usage"""
_ACTIONS = ("status", "install", "uninstall")
_MOST_SKIPPED = 20


# --- corral hooks


def _add_hooks(parser: argparse.ArgumentParser) -> None:
    names = hook_providers()
    parser.add_argument(
        "action", nargs="?", choices=_ACTIONS, default="status", metavar="ACTION",
        help=f"{', '.join(_ACTIONS)} (default: status)",
    )  # fmt: skip
    parser.add_argument("provider", choices=names, nargs="?", metavar="PROVIDER", help=", ".join(names))
    parser.add_argument(
        "--home", action="append", default=[], metavar="PATH", help="a data root of PROVIDER; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help=JSON)


def run(args: argparse.Namespace) -> int:
    if args.home and not args.provider:
        raise CorralError("--home needs a PROVIDER", exit_code=2)
    if args.action == "status":
        return _show_status(read_statuses(args.provider, args.home), args.json)
    act = install_hooks if args.action == "install" else uninstall_hooks
    results = act(args.provider, args.home)
    if not results:
        raise CorralError("no agent CLI that takes hooks has a home here")
    if args.json:
        print_json({"schema": 1, "results": results})
    else:
        _print_results(results)
    return 1 if any(done.outcome in (Outcome.REFUSED, Outcome.BROKEN) for done in results) else 0


def render_status(statuses: Sequence[Status], width: int) -> list[str]:
    """A table; below it what is wrong, where, and what fixes it."""
    rows = [("CLI", "HOOKS", "SINCE", "CONFIGURATION")]
    notes: list[str] = []
    counts = Counter(status.provider for status in statuses)
    for status in statuses:
        rows.append((status.provider, _word(status), _since(status), tilde(status.config_path)))
        where = f"{status.provider} in {tilde(status.home)}" if counts[status.provider] > 1 else status.provider
        notes += [f"{where}: {problem}" for problem in status.problems]
        if status.remedy:
            notes.append(f"  {status.remedy}")
    return table(rows, (2, 3), width) + ([""] if notes else []) + notes


def _show_status(statuses: Sequence[Status], as_json: bool) -> int:
    if as_json:
        print_json({"schema": 1, "hooks": statuses})
    else:
        print_lines(render_status(statuses, terminal_width()))
    return 1 if any(status.problems for status in statuses) else 0


def _print_results(results: Sequence[Done]) -> None:
    for done in results:
        if done.outcome is Outcome.REFUSED:
            print(printable(f"{done.provider}: refused: {done.message}"), file=sys.stderr)
        elif done.outcome is Outcome.BROKEN:
            print(printable(f"{done.provider}: {done.message} ({tilde(done.config_path)})"), file=sys.stderr)
        else:
            print(f"{done.provider}: {done.message} ({tilde(done.config_path)})")
            if done.backup:
                print(f"  backup: {tilde(done.backup)}")
    if any(done.outcome is Outcome.INSTALLED for done in results):
        print("Agents that are running report after their next start.")


def _word(status: Status) -> str:
    if status.works:
        return "drifted" if status.problems else "installed"
    if status.problems:
        return "broken"
    return "not installed" if status.home_exists else "no home"


def _since(status: Status) -> str:
    if status.installed_at is None:
        return "–"
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(status.installed_at))


# --- corral doctor


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help=JSON)


def show_health(args: argparse.Namespace) -> int:
    from corral.sessions import examine

    diagnosis = examine()
    if args.json:
        print_json(diagnosis)
    else:
        print_lines(_render_health(diagnosis, colour=use_colour()))
    broken = any(not place.writable for place in diagnosis.places) or diagnosis.degraded
    return 1 if broken else 0


def _render_health(diagnosis: Diagnosis, *, colour: bool) -> list[str]:
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
    proven = "" if program.version in provider.capabilities.proven_versions else ", an untested version"
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


COMMANDS = {
    "hooks": Command(_HOOKS, _add_hooks, run),
    "doctor": Command(_DOCTOR, _add_doctor, show_health),
}
