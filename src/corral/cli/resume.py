"""`corral resume`: continue a session, in place, as the very same conversation, or say why not."""

from __future__ import annotations

import argparse

from corral.cli.asking import ask, can_ask, tell
from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.show import say_command
from corral.engine.report import RestoreDocument, report_plan
from corral.engine.resume import agree_from_line, plan_restore_of, plan_to_resume, resume_in_place
from corral.model.restore import Loss, Resume

_EPILOG = """\
examples:
  corral resume 5d3909df            become the agent, in its own directory
  corral resume 5d3909df --print    only show what would be started
  corral resume 5d3909df --anyway   although it might be open, in a process or on a host that can't be asked
  corral resume 5d3909df --drop-from 28   although the agent will drop its transcript from that damaged line on

The session is named by the id its provider gave it; nothing is guessed from directory, time or title. A session
that a living process serves is never opened a second time.

exit codes: 1 refused · 2 usage · 3 ambiguous · 4 not found; once it has become the agent, the agent's own; with
--print or --json 0 if it would be resumed"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "resume",
        summary="continue a session, in place, as the very same conversation",
        description="Become the agent on this session: corral checks, then replaces itself by the provider's program.",
        epilog=_EPILOG,
    )
    parser.add_argument("session", metavar="SESSION", help="an id, a unique prefix of it, or provider:id")
    parser.add_argument("--print", dest="print_only", action="store_true", help="show the plan, start nothing")
    parser.add_argument("--anyway", action="store_true", help="override maybe_open and claimed_elsewhere, no others")
    parser.add_argument(
        "--drop-from",
        type=int,
        metavar="LINE",
        help="agree that the agent drops its damaged transcript from this line on; a copy is kept",
    )
    parser.add_argument("--json", action="store_true", help="show the plan, or the refusal, as JSON; start nothing")
    return parser


def run(args: argparse.Namespace) -> int:  # noqa: RET503 - the last line becomes the agent
    consent = agree_from_line(args.drop_from)
    if args.json:
        found = plan_restore_of(args.session, anyway=args.anyway, consent=consent)
        print_json(RestoreDocument(restore=report_plan(found)))
        return 0 if isinstance(found, Resume) else 1
    if args.print_only:
        import shlex

        _, plan = plan_to_resume(args.session, anyway=args.anyway, consent=consent)
        print_lines([f"cd {shlex.quote(plan.cwd)} && {say_command(plan)}"])
        return 0
    if args.drop_from is None and can_ask():
        consent = _Asker()
    resume_in_place(args.session, anyway=args.anyway, tell=tell, consent=consent)


class _Asker:
    """Asks on the terminal what may be dropped, and once: the session is looked at again before it is started."""

    def __init__(self) -> None:
        self._agreed: Loss | None = None

    def __call__(self, loss: Loss) -> bool:
        if loss != self._agreed:
            tell(f"line {loss.line} of {loss.path} is damaged. The agent drops it for good, and what follows it:")
            tell(f"{loss.lines} lines, {loss.prompts} of them prompts. corral keeps a copy first.")
            self._agreed = loss if ask("Resume without them?") else None
        return loss == self._agreed
