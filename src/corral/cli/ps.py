"""`corral ps`: the sessions of this machine, those that need a person first."""

from __future__ import annotations

import argparse
import os
import sys

from corral.cli.command import JSON, Command, own_command
from corral.cli.output import print_json, print_lines, progress_bar
from corral.cli.screen import age, cells, fit, paint, say_state, table, terminal_width, tilde, use_colour
from corral.model.selection import NOTEWORTHY, Selection
from corral.model.session import AgentProcess, Session, Survey
from corral.model.verdict import Activity, State
from corral.providers.registry import all_providers, find_provider
from corral.sessions import appearance_of, list_state_words, report_survey, take_survey

_HELP = """\
List the agent sessions of this machine, each with the verified process that
serves it; those that need you come first.

examples:
  corral ps                      what is live, waiting or lost
  corral ps --all                idle and empty sessions too
  corral ps ~/src/shop           sessions that ran in a directory or below
  corral ps --usage              with what each of them cost today
  corral ps --state orphaned -q  only ids, for scripts

signs: ◆ waits for you   ◐ busy      ● ready    ◌ starting   ✖ lost in a turn
       ○ idle            · empty     ? unknown  ⇄ elsewhere

exit codes: 0 ok, also when there are none, or a step failed (lines with !, in
            JSON `degraded`) · 2 usage"""

_SORTS = ("need", "updated", "started", "provider", "dir", "title")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    states = [str(state) for state in State]
    parser.add_argument("directory", nargs="?", metavar="DIR", help="only sessions that ran in DIR or below")
    parser.add_argument("-a", "--all", action="store_true", help="idle and empty sessions too")
    parser.add_argument("-p", "--provider", metavar="P", help="only this provider")
    parser.add_argument(
        "-s", "--state", metavar="S", action="append", choices=states,
        help="only this state; may be repeated: " + ", ".join(states),
    )  # fmt: skip
    parser.add_argument(
        "--sort", metavar="K", choices=_SORTS, default="need", help=f"order: {', '.join(_SORTS)} (default: need)"
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("-u", "--usage", action="store_true", help="with what each session cost today")
    shape.add_argument("-q", "--quiet", action="store_true", help="print only ids")
    shape.add_argument("--json", action="store_true", help=JSON)


def run(args: argparse.Namespace) -> int:
    states = frozenset(map(State, args.state)) if args.state else (None if args.all else NOTEWORTHY)
    under = os.path.abspath(os.path.expanduser(args.directory)) if args.directory else None
    providers = [find_provider(args.provider)] if args.provider else None
    survey = take_survey(Selection(states=states, under=under), providers)
    ordered = sorted(survey.sessions, key=_key(args.sort))
    if args.json:
        import msgspec

        print_json(report_survey(msgspec.structs.replace(survey, sessions=tuple(ordered))))
    elif args.quiet:
        print_lines([session.session_id for session in ordered])
    else:
        folded = states is not None and args.state is None
        today, losses = _say_today() if args.usage else (None, [])
        width, colour = terminal_width(), use_colour()
        lines = render(survey, ordered, fold_doubt=folded, width=width, colour=colour, under=under, today=today)
        print_lines([*lines, *(paint(f"! {loss}", "amber", colour) for loss in losses)])
        if args.usage:
            from corral.usage import read_on

            sys.stdout.flush()
            read_on()
    return 0


def _say_today() -> tuple[dict[str, str], list[str]]:
    """What each session cost, and what the ledger lost."""
    from corral.cli.usage_table import say_cost
    from corral.usage import sum_sessions_today

    sessions, losses = sum_sessions_today(progress_bar())
    return {name: say_cost(row) for name, row in sessions.items()}, [loss.say() for loss in losses]


def render(
    survey: Survey,
    sessions: list[Session],
    *,
    fold_doubt: bool,
    width: int,
    colour: bool,
    under: str | None = None,
    today: dict[str, str] | None = None,
) -> list[str]:
    """The table for people: rows, what may be open elsewhere, what could not be read, a line of counts."""
    rows = [session for session in sessions if not (fold_doubt and session.verdict.maybe_pids)]
    lines: list[str] = []
    if rows or survey.no_session_yet:
        lines += _table(survey, rows, width, colour, today)
    lines += _doubt_lines(survey, sessions, width, colour)
    lines += _silent_lines(sessions, width, colour)
    for problem in survey.degraded:
        lines.append(paint(f"! {problem.provider}: {problem.step}: {problem.reason}", "amber", colour))
    if not any(survey.counts.values()) and not survey.no_session_yet:
        if under is not None:
            return [*lines, f"no sessions in {tilde(under)} or below"]
        lines += _say_nothing_found(survey)
    else:
        lines.append(_counts_line(survey))
    return lines


def _table(
    survey: Survey, sessions: list[Session], width: int, colour: bool, today: dict[str, str] | None
) -> list[str]:
    """`today` says what each session cost, if that was asked."""
    now = survey.taken_at
    short = short_ids([session.session_id for session in sessions])
    spent = [today.get(str(session.key), "–") for session in sessions] if today is not None else [""] * len(sessions)
    head = ("  STATE", "PROVIDER", "SESSION", "PID", "UP", "TODAY" if today is not None else "", "DIR", "TITLE")
    body: list[tuple[str, ...]] = []
    colours: list[str] = []
    for session, cost in zip(sessions, spent, strict=True):
        shown = appearance_of(session)
        colours.append(shown.colour)
        up = age(now - session.pid_started_at) if session.pid_started_at else "–"
        pids = "+".join(map(str, session.pids)) or "–"
        where = tilde(session.work_dir)
        body.append(
            (
                f"{shown.sign} {say_state(shown, now)}",
                session.provider,
                short[session.session_id],
                pids,
                up,
                cost,
                where,
                _title(session),
            )
        )
    for process in survey.no_session_yet:
        colours.append("grey")
        up = age(now - process.started_at)
        body.append(("◌ no session yet", process.provider, "–", str(process.pid), up, "", tilde(process.work_dir), ""))
    lines = table([head, *body], gives_way=(4, 6, 1, 3, 7, 5, 2), width=width)
    width_of_state = max(cells(row[0]) for row in [head, *body])
    painted = [paint(lines[0], "grey", colour)]
    for line, name in zip(lines[1:], colours, strict=True):
        painted.append(paint(line[:width_of_state], name, colour) + line[width_of_state:])
    return painted


def _title(session: Session) -> str:
    record = session.record
    title = session.title or ""
    if record is None:
        return title
    if session.activity is Activity.WAITING and session.waits_for:
        return f"{title} (waits for: {session.waits_for})".strip()
    if session.state is State.ORPHANED and record.unfinished:
        return f'{title} (in a turn: "{record.unfinished}")'.strip()
    return title


def _doubt_lines(survey: Survey, sessions: list[Session], width: int, colour: bool) -> list[str]:
    """One line per provider; only the first carries advice."""
    by_provider: dict[str, list[AgentProcess]] = {}
    for process in survey.unattributed:
        by_provider.setdefault(process.provider, []).append(process)
    lines: list[str] = []
    for provider, processes in by_provider.items():
        pids = {process.pid for process in processes}
        concerned = sum(1 for session in sessions if pids & set(session.verdict.maybe_pids))
        named = ", ".join(map(str, sorted(pids)))
        unseen = "corral can't see its session" if len(pids) == 1 else "corral can't see their sessions"
        if concerned:
            plural = "session" if concerned == 1 else "sessions"
            text = f"? {concerned} {provider} {plural} may be open in pid {named}: {unseen}."
        else:
            runs = "runs" if len(pids) == 1 else "run"
            text = f"? {provider} {runs} as pid {named}: {unseen}."
        advice = f" {processes[0].advice}" if processes[0].advice and not lines else ""
        lines.append(paint(fit(text + advice, width), "violet", colour))
    return lines


def _silent_lines(sessions: list[Session], width: int, colour: bool) -> list[str]:
    """One line per provider whose agents corral started and that never report, with what helps the next ones."""
    by_provider: dict[str, list[str]] = {}
    for session in sessions:
        if session.silence is not None:
            by_provider.setdefault(session.provider, []).append(str(session.pid))
    lines: list[str] = []
    for provider, pids in by_provider.items():
        text = f"◌ nothing confirms the session of pid {', '.join(pids)}: its hooks do not report."
        lines.append(paint(fit(f"{text} corral hooks install {provider}", width), "grey", colour))
    return lines


def _counts_line(survey: Survey) -> str:
    words = [one for one in list_state_words() if one.activity is None]
    shown = [f"{survey.counts[one.state]} {one.word}" for one in words if survey.counts.get(one.state)]
    hidden = any(survey.counts.get(state) for state in (State.IDLE, State.EMPTY))
    listed = {session.state for session in survey.sessions}
    hint = " (--all)" if hidden and not listed & {State.IDLE, State.EMPTY} else ""
    return " · ".join(shown) + hint if shown else "no sessions on disk yet"


def short_ids(ids: list[str]) -> dict[str, str]:
    """Each id, cut to what is unique among these, and at least eight characters."""
    from corral.model.key import spoken_id

    names = sorted((spoken_id(session_id), session_id) for session_id in set(ids))
    short: dict[str, str] = {}
    for position, (name, session_id) in enumerate(names):
        neighbours = [other for other, _ in (names[position - 1 : position] + names[position + 1 : position + 2])]
        length = 8
        while any(other[:length] == name[:length] for other in neighbours) and length < len(name):
            length += 1
        short[session_id] = name[:length]
    return short


def _key(sort: str):
    def key(session: Session) -> tuple[object, ...]:
        updated = -(session.updated_at or 0.0)
        match sort:
            case "updated":
                return (updated,)
            case "started":
                return (-(session.pid_started_at or 0.0), updated)
            case "provider":
                return (session.provider, appearance_of(session).order)
            case "dir":
                return (session.work_dir or "~", appearance_of(session).order)
            case "title":
                return (session.title or "~", updated)
            case _:
                return appearance_of(session).order

    return key


def _say_nothing_found(survey: Survey) -> list[str]:
    """What corral looked for, and commands to try here."""
    from corral.hooks import lack_hooks

    looked = ", ".join(provider.capabilities.title for provider in all_providers())
    homes = ", ".join(tilde(home.path) for home in survey.homes)
    corral = own_command()
    tries = [
        (f"{corral} demo", "try everything in a throw-away home, with an agent made for it"),
        (f"{corral} doctor", "see what is installed, and where corral looks"),
    ]
    if survey.homes and lack_hooks():
        tries.append((f"{corral} hooks install", "have agents report which session they serve"))
    width = max(len(command) for command, _ in tries)
    return [
        "No agent sessions on this machine.",
        f"  looked for: {looked}",
        f"  in:         {homes or 'their homes: none of them exists yet'}",
        "Try:",
        *(f"  {command:<{width}}  {why}" for command, why in tries),
    ]


COMMANDS = {"ps": Command(_HELP, add_arguments, run)}
