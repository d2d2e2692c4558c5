"""`corral run`: start an agent in a terminal that outlives this one."""

from __future__ import annotations

import argparse
import os
import sys

from corral.cli.asking import ask, can_ask, tell
from corral.cli.attach import attach_tab
from corral.cli.parsers import Commands, add_command
from corral.cli.raw_terminal import has_terminal, terminal_size
from corral.cli.screen import tilde
from corral.engine.hook_settings import list_settings
from corral.engine.opening import Fresh, open_fresh, plan_fresh
from corral.errors import CorralError
from corral.hooks.install import Outcome, install
from corral.hooks.status import read_status
from corral.store.bindings import Bindings
from corral.system import places

_DETACHED_SIZE = (120, 40)
_EPILOG = """\
examples:
  corral run kimi-cli                    here, in a terminal that outlives this one
  corral run qwen-code -C ~/src/shop     in another directory
  corral run kimi-code --detach          leave it in the background
  corral run kimi-cli -- --model k2      with arguments of the CLI's own, after --

Ctrl-\\ leaves it running; corral attach comes back. The exit code is the agent's.

exit codes: the agent's own, or 128 + the signal that ended it · 0 detached · 1 refused · 2 usage"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "run",
        summary="start an agent in a terminal that outlives this one",
        description="Start a fresh session of an agent CLI in a terminal of corral's, and attach to it.",
        epilog=_EPILOG,
    )
    parser.add_argument("provider", metavar="PROVIDER", help="kimi-cli, qwen-code … (corral doctor lists them)")
    parser.add_argument("-C", dest="directory", metavar="DIR", default=".", help="where it works (default: here)")
    parser.add_argument("--detach", action="store_true", help="leave it in the background; prints its tab")
    parser.add_argument("--yes", action="store_true", help="also in a directory where corral started nothing before")
    parser.add_argument("--install-hooks", action="store_true", help="install the hooks that this CLI needs, unasked")
    parser.add_argument("--no-hooks", action="store_true", help="do not offer to install hooks")
    parser.set_defaults(rest=[])
    return parser


def run(args: argparse.Namespace) -> int:
    work_dir = os.path.realpath(os.path.expanduser(args.directory))
    fresh = plan_fresh(args.provider, work_dir, with_arguments=bool(args.rest))
    if not args.detach and not has_terminal():
        raise CorralError("there is no terminal here to show it in", hint="corral run … --detach starts it anyway")
    _agree_on_directory(fresh, work_dir, yes=args.yes)
    _offer_hooks(fresh, unasked=args.install_hooks, declined=args.no_hooks)
    size = _DETACHED_SIZE if args.detach else terminal_size()
    started = open_fresh(fresh, args.rest, size=size, tell=tell)
    if args.detach:
        print(started.tab)
        return 0
    return attach_tab(started.tab, clear=False)


def _agree_on_directory(fresh: Fresh, work_dir: str, *, yes: bool) -> None:
    """What lies in a directory can make an agent run things: a new one is a person's decision."""
    if yes or Bindings(places.state_dir()).has_opened(work_dir):
        return
    title = fresh.provider.capabilities.title
    question = f"corral has started nothing in {tilde(work_dir)} before. Start {title} there?"
    if not can_ask():
        raise CorralError(f"corral has started nothing in {tilde(work_dir)} before", hint="--yes starts it there")
    if not ask(question):
        raise CorralError("nothing was started")


def _offer_hooks(fresh: Fresh, *, unasked: bool, declined: bool) -> None:
    """Without them such a CLI never says which session it has, so that the tab could not be restored."""
    capabilities = fresh.provider.capabilities
    if not capabilities.needs_hooks:
        return
    (setting,) = list_settings(fresh.provider.name, [fresh.home.path])
    status = read_status(setting)
    if status.installed and not status.problems:
        return
    if unasked or (
        not declined
        and can_ask()
        and ask(f"{capabilities.title} tells which session it has only through hooks. Install them (corral hooks)?")
    ):
        done = install(setting)
        if done.outcome is Outcome.REFUSED:
            tell(f"the hooks were not installed: {done.message}")
        else:
            tell(f"hooks: {done.message} ({tilde(done.config_path)})")
            return
    print(
        f"corral: without hooks this tab is live-only: corral can show it as long as it runs, not restore it "
        f"(corral hooks install {fresh.provider.name})",
        file=sys.stderr,
    )
