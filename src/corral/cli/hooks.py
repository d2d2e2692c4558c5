"""`corral hooks`: asks a CLI to report its sessions, takes that back, and says how it stands."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.screen import table, terminal_width, tilde
from corral.hooks.install import Done, Outcome, Setting, install, uninstall
from corral.hooks.status import Status, read_status
from corral.hooks.targets import PROVIDERS, default_home, list_versions
from corral.system import places

_EPILOG = """\
Without PROVIDER, every CLI whose home exists is meant. The hooks note which process serves which session: no
prompts, no answers, no command lines. Agents that are already running are seen after their next start.
See docs/hooks.md.
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "hooks",
        summary="ask a CLI to report its sessions: install, uninstall, status",
        description="Ask an agent CLI to report which process serves which session.",
        epilog=_EPILOG,
    )
    parser.add_argument("action", choices=("install", "uninstall", "status"), nargs="?", default="status")
    parser.add_argument("provider", choices=PROVIDERS, nargs="?", metavar="PROVIDER", help=", ".join(PROVIDERS))
    parser.add_argument("--home", action="append", default=[], metavar="PATH", help="a data root of PROVIDER; repeat")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    if args.home and not args.provider:
        print("corral hooks: --home needs a PROVIDER", file=sys.stderr)
        return 2
    settings = _list_settings(args.provider, args.home)
    if args.action == "status":
        return _show_status(settings, args.json)
    if not args.provider:
        settings = [setting for setting in settings if Path(setting.home).is_dir()]
        if not settings:
            print("corral hooks: no agent CLI that takes hooks has a home here", file=sys.stderr)
            return 1
    act = install if args.action == "install" else uninstall
    results = [act(setting) for setting in settings]
    if args.json:
        print_json({"schema": 1, "results": results})
    else:
        _print_results(results)
    return 1 if any(done.outcome is Outcome.REFUSED for done in results) else 0


def render_status(statuses: Sequence[Status], width: int) -> list[str]:
    """A table, and under it what is wrong where, with the remedy."""
    rows = [("CLI", "HOOKS", "SINCE", "CONFIGURATION")]
    notes: list[str] = []
    for status in statuses:
        rows.append((status.provider, _word(status), _since(status), tilde(status.config_path)))
        notes += [f"{status.provider}: {problem}" for problem in status.problems]
        if status.remedy:
            notes.append(f"  {status.remedy}")
    return table(rows, (2, 3), width) + ([""] if notes else []) + notes


def _list_settings(provider: str | None, homes: Sequence[str]) -> list[Setting]:
    settings: list[Setting] = []
    for name in [provider] if provider else PROVIDERS:
        versions = list_versions(name, os.environ.get("PATH", ""))
        chosen = [os.path.normpath(Path(home).expanduser().absolute()) for home in homes]
        for home in chosen or [default_home(name)]:
            setting = Setting(
                provider=name,
                home=home,
                state_dir=places.state_dir(),
                data_dir=places.data_dir(),
                versions=versions,
            )
            settings.append(setting)
    return settings


def _show_status(settings: Sequence[Setting], as_json: bool) -> int:
    statuses = [read_status(setting) for setting in settings]
    if as_json:
        print_json({"schema": 1, "hooks": statuses})
    else:
        print_lines(render_status(statuses, terminal_width()))
    return 1 if any(status.problems for status in statuses) else 0


def _print_results(results: Sequence[Done]) -> None:
    for done in results:
        if done.outcome is Outcome.REFUSED:
            print(f"{done.provider}: refused: {done.message}", file=sys.stderr)
        else:
            print(f"{done.provider}: {done.message} ({tilde(done.config_path)})")
            if done.backup:
                print(f"  backup: {tilde(done.backup)}")
    if any(done.outcome is Outcome.INSTALLED for done in results):
        print("Agents that are running now are seen after their next start.")


def _word(status: Status) -> str:
    if status.installed:
        return "drifted" if status.problems else "installed"
    if status.problems:
        return "broken"
    return "not installed" if status.home_exists else "no home"


def _since(status: Status) -> str:
    if status.installed_at is None:
        return "–"
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(status.installed_at))
