"""`corral explain`: how corral knows what it says of a session, line by line."""

from __future__ import annotations

import argparse

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import OF_ONE_SESSION, Commands, add_command
from corral.cli.screen import paint, use_colour
from corral.machine.text import printable
from corral.model.session_report import SessionDocument, SessionReport
from corral.sessions import find_session, full_name, report_session

_COLOURS = {"live": "green", "stale": "grey", "remote-host": "grey", "unknown": "violet", "refused": "red"}


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "explain",
        summary="how corral knows: every claim, its file, the rule, the verdict",
        description="Print every claim about a session: where it was read, by which rule it was judged, and why.",
        epilog=f"example:\n  corral explain 5d3909df        (the text belongs in a bug report)\n\n{OF_ONE_SESSION}",
    )
    parser.add_argument("session", metavar="SESSION", help="an id, a unique prefix of it, or provider:id")
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md)")
    return parser


def run(args: argparse.Namespace) -> int:
    session = find_session(args.session)
    report = report_session(session)
    if args.json:
        print_json(SessionDocument(session=report))
    else:
        print_lines(render(full_name(session), report, colour=use_colour()))
    return 0


def render(name: str, report: SessionReport, *, colour: bool) -> list[str]:
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
        lines.append(f"- pid {pid} runs, is of the same provider and home, and says nothing: it could serve it")
    if report.path:
        durable = "is there" if report.durable else "is not there"
        lines += [f"- on disk: what a resume needs {durable}", f"    {printable(report.path)}"]
    if report.restore.loss is not None:
        lines.append(f"- damaged: {printable(report.restore.message or '')}")
    lines += [f"- note: {note}" for note in report.notes]
    lines += [f"- warning: {warning}" for warning in report.warnings]
    return lines
