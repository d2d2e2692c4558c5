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
from corral.errors import CorralError
from corral.hooks import install_hooks
from corral.model.hook_install import Outcome
from corral.model.restore import Refused
from corral.providers.registry import find_provider
from corral.tabs import start_tab

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
    title = find_provider(args.provider).capabilities.title
    if not args.detach and not has_terminal():
        raise CorralError("there is no terminal here to show it in", hint="corral run … --detach starts it anyway")
    work_dir = os.path.realpath(os.path.expanduser(args.directory))
    size = _DETACHED_SIZE if args.detach else terminal_size()

    def agree(question: Refused) -> bool:
        return _agree(question, title, args)

    tab = start_tab(args.provider, work_dir, args.rest, size=size, agree=agree, report=tell)
    if args.detach:
        print(tab)
        return 0
    return attach_tab(tab, clear=False)


def _agree(question: Refused, title: str, args: argparse.Namespace) -> bool:
    if question.hookless is not None:
        _offer_hooks(args.provider, title, question.hookless, unasked=args.install_hooks, declined=args.no_hooks)
        return True
    if args.yes:
        return True
    if not can_ask():
        raise CorralError(question.message, hint="--yes starts it there")
    if not ask(f"{question.message}. Start {title} there?"):
        raise CorralError("nothing was started")
    return True


def _offer_hooks(provider: str, title: str, home: str, *, unasked: bool, declined: bool) -> None:
    """Without them such a CLI never says which session it has, so that the tab could not be restored."""
    if unasked or (
        not declined
        and can_ask()
        and ask(f"{title} reports its session only through hooks. Install them (corral hooks)?")
    ):
        (done,) = install_hooks(provider, [home])
        if done.outcome is Outcome.REFUSED:
            tell(f"the hooks were not installed: {done.message}")
        else:
            tell(f"hooks: {done.message} ({tilde(done.config_path)})")
            return
    print(
        f"corral: without hooks this tab is live-only: corral can show it as long as it runs, not restore it "
        f"(corral hooks install {provider})",
        file=sys.stderr,
    )
