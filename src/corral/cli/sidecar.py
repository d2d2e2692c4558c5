"""`corral sidecar`: the runtime.json protocol for programs in other languages."""

from __future__ import annotations

import argparse
import os

from corral import sidecar
from corral.cli.command import Command, parse_pid
from corral.cli.output import print_json, print_lines
from corral.errors import CorralError, NotFound
from corral.machine.text import printable
from corral.sidecar import Refusal, Verdict
from corral.sidecar.record import fields_of

_HELP = """\
Write, read, check or clear runtime.json, the file in a session's directory
that says which process serves the session. Python programs import
corral.sidecar instead. docs/sidecar.md has the protocol.

examples:
  corral sidecar write "$SESSION_DIR" --session-id "$ID" --work-dir "$PWD" \\
      --cli mycli --version 1.2
  corral sidecar read  "$SESSION_DIR/runtime.json" --json
  corral sidecar check "$SESSION_DIR/runtime.json"
  corral sidecar clear "$SESSION_DIR/runtime.json" --pid $$

exit codes: 0 ok · 1 refused or failed · 2 usage · 4 not found"""
_WRITE = """\
Write DIR/runtime.json: from now on the process serves the session. The file is
replaced atomically. While another process that is alive, or not proven dead,
holds it, it is left alone (exit code 1). Call this again when the process moves
to another session (clear the old file first), and at any event, to take over a
file whose holder has died.

The process is the one that called corral, unless --pid names another. In a
shell script that is the shell: pass the PID of the agent itself.

example:
  corral sidecar write ~/.mycli/sessions/42 --session-id 42 --work-dir "$PWD" \\
      --cli mycli --version 1.2 --pid 4711

exit codes: 0 written · 1 refused or failed · 2 usage · 4 there is no DIR"""
_READ = """\
Print the record in a runtime.json after strict checks. A faulty one is refused
with a reason and left as it is. Whether the process is alive is the question
of corral sidecar check.

example:
  corral sidecar read ~/.mycli/sessions/42/runtime.json --json

exit codes: 0 ok · 1 refused · 2 usage · 4 there is no such file"""
_CHECK = """\
Say whether the process that a runtime.json names is alive: live, stale (proven
dead), remote-host or unknown, with the rule that decided it.

example:
  corral sidecar check ~/.mycli/sessions/42/runtime.json

exit codes: 0 live · 1 anything else, or no valid record · 2 usage ·
            4 there is no such file"""
_CLEAR = """\
Remove a runtime.json that names the process PID. A file that names another
process stays (exit code 1). The file of a process that has ended is removed
once its death is proven. That can't be proven here for another host or a
container: with --unverified you say that the process is gone.

example:
  corral sidecar clear ~/.mycli/sessions/42 --pid 4711

exit codes: 0 removed, or there was none · 1 refused or failed · 2 usage"""


def _add_actions(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    for name, (summary, action) in _ACTIONS.items():
        action.add_arguments(actions.add_parser(name, help=summary, **action.texts()))


def _run(args: argparse.Namespace) -> int:
    return _ACTIONS[args.action][1].run(args)


def _add_write(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", help="the session's directory; it must exist")
    parser.add_argument("--session-id", required=True, metavar="ID", help="the session's own id")
    parser.add_argument("--work-dir", required=True, metavar="PATH", help="where the session works")
    parser.add_argument("--cli", required=True, metavar="NAME", help="the program, for the field NAME_version")
    parser.add_argument("--version", required=True, metavar="V", help="the program's version")
    parser.add_argument("--provider", metavar="NAME", help="the program's name in corral, such as kimi-cli")
    parser.add_argument("--pid", type=parse_pid, help="the process that serves it (default: the caller)")
    parser.add_argument("--json", action="store_true", help="print the record that was written")


def _add_path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a runtime.json")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_clear(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a runtime.json, or its directory")
    parser.add_argument("--pid", type=parse_pid, required=True, help="the process that it must name")
    parser.add_argument("--unverified", action="store_true", help="remove it although the process can't be checked")


def _run_write(args: argparse.Namespace) -> int:
    result = sidecar.write(
        args.dir,
        session_id=args.session_id,
        work_dir=os.path.abspath(args.work_dir),
        cli=args.cli,
        version=args.version,
        provider=args.provider,
        process=args.pid or os.getppid(),
        best_effort=True,
    )
    if isinstance(result, Refusal):
        raise _refused(result)
    if args.json:
        print_json(fields_of(result))
    return 0


def _run_read(args: argparse.Namespace) -> int:
    record = sidecar.read(args.path)
    if isinstance(record, Refusal):
        raise _refused(record)
    fields = fields_of(record)
    if args.json:
        print_json(fields)
    else:
        width = max(map(len, fields))
        print_lines([f"{name:<{width}} {printable(str(value))}" for name, value in fields.items()])
    return 0


def _run_check(args: argparse.Namespace) -> int:
    from corral.sessions import check_sidecar

    judged = check_sidecar(args.path)
    if isinstance(judged, Refusal):
        if judged.code == "io:ENOENT":
            raise _refused(judged)
        verdict = Verdict("unknown", judged.code, judged.reason)
    else:
        verdict = Verdict(judged.liveness, judged.rule, judged.reason)
    if args.json:
        print_json(
            {
                "schema": 1,
                "path": args.path,
                "verdict": verdict.liveness,
                "rule": verdict.rule,
                "reason": verdict.reason,
            }
        )
    else:
        print_lines([f"{verdict.liveness} ({verdict.rule}): {printable(verdict.reason)}"])
    return 0 if verdict.liveness == "live" else 1


def _run_clear(args: argparse.Namespace) -> int:
    problem = sidecar.clear(args.path, process=args.pid, best_effort=True, unverified=args.unverified)
    if problem is not None:
        raise _refused(problem)
    return 0


def _refused(refusal: Refusal) -> CorralError:
    message = f"{printable(refusal.reason)} [{refusal.code}]"
    return NotFound(message) if refusal.code == "io:ENOENT" else CorralError(message)


_ACTIONS = {
    "write": ("say that a process serves a session", Command(_WRITE, _add_write, _run_write)),
    "read": ("print a record after strict checks", Command(_READ, _add_path, _run_read)),
    "check": ("say whether the process that it names is alive", Command(_CHECK, _add_path, _run_check)),
    "clear": ("remove the file of a process", Command(_CLEAR, _add_clear, _run_clear)),
}
COMMANDS = {"sidecar": Command(_HELP, _add_actions, _run)}
