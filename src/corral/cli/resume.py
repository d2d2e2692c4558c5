"""`corral resume`: continue a session, in place, as the same conversation, or say why not."""

from __future__ import annotations

import argparse

from corral.cli.asking import ask, can_ask, tell
from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.show import say_command
from corral.model.refusal import RefusedError
from corral.model.restore import Loss, Refused, Resume
from corral.model.session_report import RestoreDocument, report_plan
from corral.model.tab import Agreement
from corral.sessions import full_name
from corral.tabs import plan_resume, resume_in_place

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
        summary="continue a session, in place, as the same conversation",
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
    agree = Agreement(drop_from=args.drop_from)
    if args.json or args.print_only:
        settled = not args.json
        session, plan = plan_resume(args.session, anyway=args.anyway, agree=agree, settled=settled)
        if args.json:
            print_json(RestoreDocument(restore=report_plan(plan)))
            return 0 if isinstance(plan, Resume) else 1
        if isinstance(plan, Refused):
            raise RefusedError(plan, f"{full_name(session)} is not resumed")
        import shlex

        print_lines([f"cd {shlex.quote(plan.cwd)} && {say_command(plan)}"])
        return 0
    asks = args.drop_from is None and can_ask()
    resume_in_place(args.session, anyway=args.anyway, agree=_Asker() if asks else agree, report=tell)


class _Asker:
    """Asks on the terminal what may be dropped, and once: the session is looked at again before it is started."""

    def __init__(self) -> None:
        self._agreed: Loss | None = None

    def __call__(self, question: Refused) -> bool:
        loss = question.loss
        if loss is None:
            return False
        if loss != self._agreed:
            tell(f"line {loss.line} of {loss.path} is damaged. The agent drops it for good, and what follows it:")
            tell(f"{loss.lines} lines, {loss.prompts} of them prompts. corral keeps a copy first.")
            self._agreed = loss if ask("Resume without them?") else None
        return loss == self._agreed
