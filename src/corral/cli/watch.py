"""`corral watch`: the present state, then each change as it happens, one line each. It needs no server."""

from __future__ import annotations

import argparse
import gc
import queue
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from corral.cli.command import Command
from corral.cli.screen import tilde
from corral.machine.text import printable
from corral.model.change import AgentsChanged, FollowedEnded, SessionChange, Switched, Touched, Troubles, WatchEvent
from corral.model.selection import NOTEWORTHY
from corral.model.session import Session
from corral.sessions import appearance_of, report_session, report_survey, session_ref, watch_sessions

if TYPE_CHECKING:
    from corral.sessions import Watcher

_HELP = """\
Print the sessions that are live or need you, then every change as it happens,
until Ctrl-C. It needs no server.

examples:
  corral watch                         for people
  corral watch --json | jq -c .event   one JSON object per line: a snapshot,
                                       then events (docs/server.md)

The kernel reports changes: the end of a process is printed within
milliseconds.

exit codes: 130 stopped by Ctrl-C · 0 the reader of its output left · 2 usage"""
_MOST_WAITING = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object per line (docs/server.md)")


def run(args: argparse.Namespace) -> int:
    gc.enable()  # unlike others, this command stays
    arrived: queue.Queue[Sequence[WatchEvent]] = queue.Queue(_MOST_WAITING)
    behind = False

    def take(events: Sequence[WatchEvent]) -> None:
        nonlocal behind
        try:
            arrived.put_nowait(events)
        except queue.Full:
            behind = True  # nobody reads our output: a new snapshot will say it all

    watcher = watch_sessions(take)
    watcher.start()
    _print_snapshot(watcher, args.json)
    while True:
        for event in arrived.get():
            _print_event(event, args.json)
        if behind and arrived.empty():
            behind = False
            _print_snapshot(watcher, args.json)
        sys.stdout.flush()


def _print_snapshot(watcher: Watcher, as_json: bool) -> None:
    survey = watcher.look()
    if as_json:
        _print_line({"event": "snapshot", **_builtins(report_survey(survey))})
    else:
        for session in survey.sessions:
            if session.state in NOTEWORTHY and not session.verdict.maybe_pids:
                print(_say(session, ""))
    sys.stdout.flush()


def _print_event(event: WatchEvent, as_json: bool) -> None:
    match event:
        case SessionChange() if as_json:
            ref = session_ref(event.session.key)
            session = {**_builtins(report_session(event.session)), "ref": ref}
            _print_line({"event": "session", "change": event.change, "session": session})
        case SessionChange():
            print(_say(event.session, event.change))
        case Switched() if as_json:
            previous, current = session_ref(event.previous), session_ref(event.current)
            _print_line({"event": "switched", "pid": event.pid, "from": previous, "to": current})
        case Switched():
            print(f"switched   pid {event.pid} went from {event.previous} to {event.current}")
        case AgentsChanged() if as_json:
            _print_line({"event": "agents", **_builtins(event)})
        case AgentsChanged():
            print(_say_agents(event))
        case Troubles() if as_json:
            _print_line({"event": "degraded", "degraded": _builtins(event.degraded)})
        case Troubles():
            for one in event.degraded:
                print(printable(f"degraded   {one.provider}: {one.step}: {one.reason}"))
        case Touched() | FollowedEnded():
            pass


def _say(session: Session, change: str) -> str:
    shown = appearance_of(session)
    where = tilde(session.work_dir)
    text = f"{change:<10} {shown.sign} {shown.word:<12} {session.key}  {where}  {session.title or ''}"
    return printable(text).strip() if not change else printable(text).rstrip()


def _say_agents(event: AgentsChanged) -> str:
    silent = [f"{one.provider} pid {one.pid}: session unknown" for one in event.unattributed]
    silent += [f"{one.provider} pid {one.pid}: no session yet" for one in event.no_session_yet]
    return printable(f"agents     {'; '.join(silent) or 'each has a known session'}")


def _builtins(report: object) -> dict[str, object]:
    import msgspec

    return msgspec.to_builtins(report)


def _print_line(body: dict[str, object]) -> None:
    import json

    sys.stdout.write(json.dumps(body) + "\n")


COMMANDS = {"watch": Command(_HELP, add_arguments, run)}
