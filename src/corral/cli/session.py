"""`corral show`, `explain`, `pid`, `resume` and `kill`: what a person asks about one session, or does with it."""

from __future__ import annotations

import argparse
import shlex
import time

from corral.cli.command import JSON, ONE_SESSION, SESSION, Command, parse_pid
from corral.cli.output import ask, can_ask, note, print_json, print_lines
from corral.cli.screen import paint, say_state, tilde, use_colour
from corral.errors import CorralError, NotFound
from corral.machine.text import printable
from corral.model.refusal import RefusedError
from corral.model.restore import Attach, Loss, Refused, RestorePlan, Resume, Wait, say_remedy
from corral.model.selection import Selection
from corral.model.session import Session, Survey
from corral.model.session_report import ProcessDocument, RestoreDocument, SessionDocument, SessionReport, report_plan
from corral.model.tab import Agreement
from corral.model.verdict import State
from corral.sessions import appearance_of, find_session, full_name, has_ended, report_session, take_survey
from corral.tabs import find_to_kill, kill_session, plan_resume, resume_in_place

_SHOW = f"""\
Show one session: its state and why, its process and what that uses, and how
to get back in.

examples:
  corral show 5d3909df
  corral show kimi-cli:my-own-name --json

{ONE_SESSION}"""
_EXPLAIN = f"""\
Show how corral knows what it says about a session: every claim, where it was
read, the rule that judged it, and why.

example:
  corral explain 5d3909df        (put this text in a bug report)

{ONE_SESSION}"""
_PID = """\
Show which session a process serves, by a claim that was verified against that
process.

examples:
  corral pid 4711
  corral pid 4711 --json

exit codes: 0 ok · 2 usage · 4 it serves no session"""
_RESUME = """\
Continue a session here: corral checks it, then replaces itself with the
agent, on the same conversation.

examples:
  corral resume 5d3909df            become the agent, in the session's directory
  corral resume 5d3909df --print    only show what would be started
  corral resume 5d3909df --anyway   although it may be open in a process or on a
                                    host that can't be asked
  corral resume 5d3909df --drop-from 28
                                    although the agent will drop its transcript
                                    from that damaged line on

The session is named by the id that its provider gave it; nothing is guessed
from directory, time or title. A session that a running process serves is
never opened a second time.

exit codes: the agent's own, once it runs · 1 refused · 2 usage · 3 ambiguous ·
            4 not found; with --print or --json 0 if it would be resumed"""
_KILL = """\
End the process that serves a session: SIGHUP, then SIGTERM, then SIGKILL.

examples:
  corral kill 5d3909df            ask, then end the agent
  corral kill 5d3909df --yes      don't ask
  corral kill 5d3909df --dry-run  only say which process, and how that is known

Nothing is signalled unless a running process is proven to serve the session.
Its identity is checked again before each signal. A process that serves other
sessions too is not ended. The conversation stays on disk.

exit codes: 0 it has ended · 1 refused, or not ended · 2 usage · 3 ambiguous ·
            4 not found"""

_LABELS = {Attach: "attach with", Resume: "resume with", Wait: "resume", Refused: "resume"}
_COLOURS = {"live": "green", "stale": "grey", "remote-host": "grey", "unknown": "violet", "refused": "red"}


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help=SESSION)


def _add_session_and_json(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("--json", action="store_true", help=JSON)


# --- corral show


def show(args: argparse.Namespace) -> int:
    from corral.cli.top import say_metered
    from corral.top import meter_session, report_shown

    session = find_session(args.session)
    metered = meter_session(session)
    if args.json:
        print_json(report_shown(session, metered))
    else:
        uses = say_metered(metered) if metered else None
        print_lines(render(session, now=time.time(), colour=use_colour(), uses=uses))
    return 0


def render(session: Session, *, now: float, colour: bool, uses: str | None = None) -> list[str]:
    """One fact a line; what is not known is left out. `uses` says what its processes use, if that was asked."""
    shown = appearance_of(session)
    state = paint(f"{shown.sign} {say_state(shown, now)}", shown.colour, colour)
    record = session.record
    facts: list[tuple[str, str | None]] = [
        ("session", full_name(session)),
        ("title", session.title),
        ("state", f"{state} – {session.verdict.reason}"),
        ("waits for", session.waits_for),
        ("unfinished", record.unfinished if record and session.state == "orphaned" else None),
        ("process", ", ".join(f"pid {pid}" for pid in session.pids) or None),
        ("uses", uses),
        ("directory", tilde(session.work_dir) if session.work_dir else None),
        ("branch", record.branch if record else None),
        ("created", _when(record.created_at if record else None)),
        ("updated", _when(session.updated_at)),
        ("deleted after", _when(record.expires_at if record else None)),
        ("version", session.version),
        ("model", session.model),
        ("forked from", record.forked_from if record else None),
        ("archived", "yes" if record and record.archived else None),
        ("files", tilde(record.path) if record else None),
        ("home", tilde(session.key.home)),
        ("conflict", session.verdict.conflict),
    ]
    facts += [("note", note) for note in (record.notes if record else ())]
    facts += [("warning", warning) for warning in session.warnings]
    facts += [(_LABELS[type(session.restore)], line) for line in _say_plan(session.restore, full_name(session))]
    return [f"{name:>12}  {value if name == 'state' else printable(value)}" for name, value in facts if value]


def _say_plan(plan: RestorePlan, name: str) -> list[str]:
    """A restore plan in words, what to do last."""
    match plan:
        case Attach():
            where = f" on {plan.terminal}" if plan.terminal else ""
            return [f"corral attach {name}", f"it is open in pid {plan.pid}{where}"]
        case Resume():
            return [f"corral resume {name}", f"= {_say_command(plan)}"]
        case Wait():
            return [f"pid {plan.pid} is starting it"]
        case Refused():
            return [f"refused ({plan.reason}): {plan.message}", *say_remedy(plan.remedy)]


def _say_command(plan: Resume) -> str:
    """What to type in a shell for it."""
    variables = [f"{key}={shlex.quote(value)}" for key, value in plan.env.items()]
    return f"cd {shlex.quote(plan.cwd)} && " + " ".join([*variables, shlex.join(plan.argv)])


def _when(at: float | None) -> str | None:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else None


# --- corral explain


def explain(args: argparse.Namespace) -> int:
    session = find_session(args.session)
    report = report_session(session)
    if args.json:
        print_json(SessionDocument(session=report))
    else:
        print_lines(_explain(full_name(session), report, colour=use_colour()))
    return 0


def _explain(name: str, report: SessionReport, *, colour: bool) -> list[str]:
    """The verdict first, then what it rests on."""
    lines = [f"{name} is {report.state}: {report.reason}"]
    if report.conflict:
        lines.append(f"conflict: {report.conflict}")
    for claim in report.evidence:
        verdict = paint(claim.verdict, _COLOURS.get(claim.verdict), colour)
        pid = f" pid {claim.pid}" if claim.pid is not None else ""
        lines += [
            f"- {claim.kind}{pid}: {verdict} ({claim.rule})",
            f"    {printable(claim.reason)}",
            f"    {printable(claim.path)}",
        ]
    if not report.evidence:
        lines.append("- no process ever claimed it: no registry, lock, journal or runtime.json names it")
    for pid in report.maybe_pids:
        lines.append(f"- pid {pid} could serve it: it runs, has the same provider and home, and reports nothing")
    if report.path:
        durable = "is there" if report.durable else "is missing"
        lines += [f"- on disk: what a resume needs {durable}", f"    {printable(report.path)}"]
    if report.restore.loss is not None:
        lines.append(f"- damaged: {printable(report.restore.message or '')}")
    lines += [f"- note: {note}" for note in report.notes]
    lines += [f"- warning: {warning}" for warning in report.warnings]
    return lines


# --- corral pid


def _add_pid(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pid", metavar="PID", type=parse_pid, help="a process id")
    parser.add_argument("--json", action="store_true", help=JSON)


def show_process(args: argparse.Namespace) -> int:
    survey = take_survey(Selection(states=frozenset({State.LIVE}), pid=args.pid))
    if args.json:
        found = tuple(report_session(session) for session in survey.sessions)
        print_json(ProcessDocument(pid=args.pid, sessions=found))
        return 0 if survey.sessions else 4
    if not survey.sessions:
        raise _no_session(args.pid, survey)
    for number, session in enumerate(survey.sessions):
        print_lines([*([""] if number else []), *render(session, now=time.time(), colour=use_colour())])
    return 0


def _no_session(pid: int, survey: Survey) -> NotFound:
    for process in survey.no_session_yet:
        if process.pid == pid:
            return NotFound(f"pid {pid} is {process.provider} and has no session yet")
    for process in survey.unattributed:
        if process.pid == pid:
            return NotFound(f"pid {pid} is {process.provider}, and corral can't see its session", hint=process.advice)
    message = f"there is no process {pid}" if has_ended(pid) else f"no verified claim names pid {pid}"
    return NotFound(message, hint="corral ps lists the processes that serve a session")


# --- corral resume


def _add_resume(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("--print", dest="print_only", action="store_true", help="show the plan, start nothing")
    parser.add_argument("--anyway", action="store_true", help="override maybe_open and claimed_elsewhere, no others")
    parser.add_argument(
        "--drop-from",
        type=int,
        metavar="LINE",
        help="agree that the agent drops its damaged transcript from this line on; corral keeps a copy",
    )
    parser.add_argument("--json", action="store_true", help="print the plan or the refusal as JSON, start nothing")


def resume(args: argparse.Namespace) -> int:  # noqa: RET503 - the last line becomes the agent
    agree = Agreement(drop_from=args.drop_from)
    if args.json or args.print_only:
        session, plan = plan_resume(args.session, anyway=args.anyway, agree=agree, settled=not args.json)
        if args.json:
            print_json(RestoreDocument(restore=report_plan(plan)))
            return 0 if isinstance(plan, Resume) else 1
        if isinstance(plan, Refused):
            raise RefusedError(plan, f"{full_name(session)} is not resumed")
        print_lines([_say_command(plan)])
        return 0
    asks = args.drop_from is None and can_ask()
    resume_in_place(args.session, anyway=args.anyway, agree=_Asker() if asks else agree, report=note)


class _Asker:
    """Asks on the terminal whether lines may be dropped: once, although the session is checked twice."""

    def __init__(self) -> None:
        self._agreed: Loss | None = None

    def __call__(self, question: Refused) -> bool:
        loss = question.loss
        if loss is None:
            return False
        if loss != self._agreed:
            note(f"line {loss.line} of {loss.path} is damaged. The agent drops it for good, and all that follows:")
            note(f"{loss.lines} lines, {loss.prompts} of them prompts. corral keeps a copy first.")
            self._agreed = loss if ask("Resume without them?") else None
        return loss == self._agreed


# --- corral kill


def _add_kill(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("--yes", action="store_true", help="don't ask")
    parser.add_argument("--dry-run", action="store_true", help="say what would be signalled and why; do nothing")


def kill(args: argparse.Namespace) -> int:
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
    for ended in kill_session(find_to_kill(session.key, agreed=session), note):
        how = f"ended after {ended.by}" if ended.by else "had ended already"
        print_lines([f"pid {ended.identity.pid} {how}"])
    return 0


COMMANDS = {
    "show": Command(_SHOW, _add_session_and_json, show),
    "explain": Command(_EXPLAIN, _add_session_and_json, explain),
    "pid": Command(_PID, _add_pid, show_process),
    "resume": Command(_RESUME, _add_resume, resume),
    "kill": Command(_KILL, _add_kill, kill),
}
