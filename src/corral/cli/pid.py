"""`corral pid`: which session a process serves."""

from __future__ import annotations

import argparse
import time

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command, parse_pid
from corral.cli.screen import use_colour
from corral.cli.show import render
from corral.errors import NotFound
from corral.model.selection import Selection
from corral.model.session import Survey
from corral.model.session_report import ProcessDocument
from corral.model.verdict import State
from corral.sessions import has_ended, report_session, take_survey

_EPILOG = """\
examples:
  corral pid 4711
  corral pid 4711 --json

exit codes: 0 ok · 2 usage · 4 it serves no session"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "pid",
        summary="which session a process serves",
        description="Tell which session a process serves, by a claim verified against that process.",
        epilog=_EPILOG,
    )
    parser.add_argument("pid", metavar="PID", type=parse_pid, help="a process id")
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md)")
    return parser


def run(args: argparse.Namespace) -> int:
    survey = take_survey(Selection(states=frozenset({State.LIVE}), pid=args.pid))
    if args.json:
        found = tuple(report_session(session) for session in survey.sessions)
        print_json(ProcessDocument(pid=args.pid, sessions=found))
        return 0 if survey.sessions else 4
    if not survey.sessions:
        raise _nothing(args.pid, survey)
    for number, session in enumerate(survey.sessions):
        print_lines([*([""] if number else []), *render(session, now=time.time(), colour=use_colour())])
    return 0


def _nothing(pid: int, survey: Survey) -> NotFound:
    for process in survey.no_session_yet:
        if process.pid == pid:
            return NotFound(f"pid {pid} is {process.provider} and has no session yet")
    for process in survey.unattributed:
        if process.pid == pid:
            return NotFound(f"pid {pid} is {process.provider}, and corral can't see its session", hint=process.advice)
    if has_ended(pid):
        return NotFound(f"there is no process {pid}", hint="corral ps lists the processes that serve a session")
    return NotFound(f"no verified claim names pid {pid}", hint="corral ps lists the processes that serve a session")
