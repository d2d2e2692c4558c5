"""`corral hooks`: asks a CLI to report its sessions, takes that back, and says how it stands."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.screen import table, terminal_width, tilde
from corral.hooks import hook_providers, install_hooks, read_statuses, uninstall_hooks
from corral.machine.text import printable
from corral.model.hook_install import Done, Outcome

if TYPE_CHECKING:
    from corral.hooks import Status

_EPILOG = """\
examples:
  corral hooks                      how they stand
  corral hooks install kimi-code    ask Kimi Code to report

Without PROVIDER, every CLI is meant; without --home, each of its homes: the default, the one that its variable
names, and those in corral's config; to install or uninstall, as far as they exist.

The hooks note which process serves which session: no prompts, no answers, no command lines. Agents that are
already running are seen after their next start. See docs/hooks.md.

exit codes: 0 all is well, also when they are not installed · 1 refused, or something is wrong · 2 usage"""
_STATUS = """\
example:
  corral hooks status kimi-code

exit codes: 0 all is well, also when they are not installed · 1 something is wrong · 2 usage"""
_INSTALL = """\
examples:
  corral hooks install                           every CLI that has a home here
  corral hooks install kimi-cli --home /mnt/data/.kimi

exit codes: 0 done, or there already · 1 refused · 2 usage"""
_UNINSTALL = """\
example:
  corral hooks uninstall kimi-cli

exit codes: 0 done, or nothing of ours was there · 1 refused · 2 usage"""

_ACTIONS = (
    ("status", "show whether our hooks are installed, and what would fix them", _STATUS),
    ("install", "ask a CLI to report its sessions", _INSTALL),
    ("uninstall", "take our entries out again", _UNINSTALL),
)


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "hooks",
        summary="ask a CLI to report its sessions: install, uninstall, status",
        description="Ask an agent CLI to report which process serves which session.",
        epilog=_EPILOG,
    )
    parser.set_defaults(action="status", provider=None, home=[], json=False)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", prog="corral hooks")
    for action, summary, example in _ACTIONS:
        one = add_command(
            actions, action, summary=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=example
        )
        names = hook_providers()
        one.add_argument("provider", choices=names, nargs="?", metavar="PROVIDER", help=", ".join(names))
        one.add_argument("--home", action="append", default=[], metavar="PATH", help="a data root of PROVIDER; repeat")
        one.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    if args.home and not args.provider:
        print("corral hooks: --home needs a PROVIDER", file=sys.stderr)
        return 2
    if args.action in (None, "status"):
        return _show_status(read_statuses(args.provider, args.home), args.json)
    act = install_hooks if args.action == "install" else uninstall_hooks
    results = act(args.provider, args.home)
    if not results:
        print("corral hooks: no agent CLI that takes hooks has a home here", file=sys.stderr)
        return 1
    if args.json:
        print_json({"schema": 1, "results": results})
    else:
        _print_results(results)
    return 1 if any(done.outcome in (Outcome.REFUSED, Outcome.BROKEN) for done in results) else 0


def render_status(statuses: Sequence[Status], width: int) -> list[str]:
    """A table, and under it what is wrong where, with the remedy."""
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
        print("Agents that are running now are seen after their next start.")


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
