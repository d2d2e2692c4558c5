"""`corral kill`: end the process that serves a session, after asking, and only the verified one."""

from __future__ import annotations

import argparse

from corral.cli.asking import ask, can_ask, tell
from corral.cli.output import print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.screen import tilde
from corral.errors import CorralError
from corral.machine.text import printable
from corral.sessions import full_name
from corral.tabs import find_to_kill, kill_session

_EPILOG = """\
examples:
  corral kill 5d3909df          asks, then ends the agent: SIGHUP, then SIGTERM, then SIGKILL
  corral kill 5d3909df --yes    without asking
  corral kill 5d3909df --dry-run   only says which process it would be, and how that is known

Nothing is signalled unless a running process is proven to serve the session, and its identity is checked again
before each signal. A process that serves other sessions too is not ended. The conversation stays on disk.

exit codes: 0 it has ended · 1 refused, or not ended · 2 usage · 3 ambiguous · 4 not found"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "kill",
        summary="end the process that serves a session",
        description="End the process that serves a session, step by step.",
        epilog=_EPILOG,
    )
    parser.add_argument("session", metavar="SESSION", help="an id, a unique prefix of it, or provider:id")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="say what would be signalled and why, and do nothing")
    return parser


def run(args: argparse.Namespace) -> int:
    session = find_to_kill(args.session)
    pids = ", ".join(f"pid {pid}" for pid in session.pids)
    if args.dry_run:
        print_lines([f"would end {full_name(session)}: {pids}: {printable(session.verdict.reason)}"])
        return 0
    if not args.yes:
        if not can_ask():
            raise CorralError(f"{full_name(session)} runs in {pids}; there is nobody to ask", hint="--yes ends it")
        title = f" ({printable(session.title)})" if session.title else ""
        if not ask(f"end {full_name(session)}{title}, {pids}, in {tilde(session.work_dir)}?"):
            raise CorralError("nothing was signalled")
    for ended in kill_session(find_to_kill(session.key, agreed=session), tell):
        how = f"ended after {ended.by}" if ended.by else "had ended already"
        print_lines([f"pid {ended.identity.pid} {how}"])
    return 0
