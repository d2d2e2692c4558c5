"""`corral show`: one session in full, as far as its provider says."""

from __future__ import annotations

import argparse
import time

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import OF_ONE_SESSION, Commands, add_command
from corral.cli.screen import paint, tilde, use_colour
from corral.cli.use_words import say_metered
from corral.cli.words import say_state
from corral.machine.text import printable
from corral.model.restore import Attach, Refused, RestorePlan, Resume, Wait, say_remedy
from corral.model.session import Session
from corral.sessions import appearance_of, find_session, full_name
from corral.top import meter_session, report_shown

_LABELS = {Attach: "attach with", Resume: "resume with", Wait: "resume", Refused: "resume"}


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "show",
        summary="one session in full",
        description="Show one session: its state and why, its process and what that uses, and how to get back in.",
        epilog=f"examples:\n  corral show 5d3909df\n  corral show kimi-cli:my-own-name --json\n\n{OF_ONE_SESSION}",
    )
    parser.add_argument("session", metavar="SESSION", help="an id, a unique prefix of it, or provider:id")
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md)")
    return parser


def run(args: argparse.Namespace) -> int:
    session = find_session(args.session)
    metered = meter_session(session)
    if args.json:
        print_json(report_shown(session, metered))
    else:
        uses = say_metered(metered) if metered else None
        print_lines(render(session, now=time.time(), colour=use_colour(), uses=uses))
    return 0


def render(session: Session, *, now: float, colour: bool, uses: str | None = None) -> list[str]:
    """One fact a line; what is not known is left out. `uses` says what its processes use, where that was asked."""
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
    facts += [(_LABELS[type(session.restore)], line) for line in say_plan(session.restore, full_name(session))]
    return [f"{name:>12}  {value if name == 'state' else printable(value)}" for name, value in facts if value]


def say_plan(plan: RestorePlan, name: str) -> list[str]:
    """A restore plan in words, what to do last."""
    match plan:
        case Attach():
            where = f" on {plan.terminal}" if plan.terminal else ""
            return [f"corral attach {name}", f"it is open in pid {plan.pid}{where}"]
        case Resume():
            import shlex

            return [f"corral resume {name}", f"= cd {shlex.quote(plan.cwd)} && {say_command(plan)}"]
        case Wait():
            return [f"pid {plan.pid} is starting it"]
        case Refused():
            return [f"refused ({plan.reason}): {plan.message}", *say_remedy(plan.remedy)]


def say_command(plan: Resume) -> str:
    """The command as one would type it."""
    import shlex

    return " ".join([*(f"{key}={shlex.quote(value)}" for key, value in plan.env.items()), shlex.join(plan.argv)])


def _when(at: float | None) -> str | None:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else None
