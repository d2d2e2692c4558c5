"""`corral sidecar`: the runtime.json protocol for programs in other languages."""

from __future__ import annotations

import argparse
import os

from corral import sidecar
from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command, parse_pid
from corral.errors import CorralError, NotFound
from corral.sidecar import Refusal, Verdict
from corral.sidecar.record import fields_of

_DESCRIPTION = """\
Write, read, check and clear runtime.json: the file in a session's directory that says which process serves
the session. A program in Python imports corral.sidecar instead; docs/sidecar.md has the protocol."""

_EPILOG = """\
examples:
  corral sidecar write "$SESSION_DIR" --session-id "$ID" --work-dir "$PWD" --cli mycli --version 1.2
  corral sidecar read  "$SESSION_DIR/runtime.json" --json
  corral sidecar check "$SESSION_DIR/runtime.json"
  corral sidecar clear "$SESSION_DIR/runtime.json" --pid $$

exit codes: 0 ok · 1 refused or failed · 2 usage · 4 not found"""

_WRITE = """\
Write DIR/runtime.json: the process serves the session from now on. The file is replaced atomically. It is
left alone, with exit code 1, while another process that is alive (or not proven dead) holds it. Call it again
whenever the process moves to another session (clear the old file first), and at any event to take over a
file whose holder has died."""

_WRITE_EPILOG = """\
The process is the one that called corral, unless --pid names another. From a shell script, that is the shell:
pass the PID of the agent itself.

example:
  corral sidecar write ~/.mycli/sessions/42 --session-id 42 --work-dir "$PWD" \\
      --cli mycli --version 1.2 --pid 4711

exit codes: 0 written · 1 refused or failed · 2 usage · 4 there is no DIR"""

_READ = """\
Print the record in a runtime.json after checking it strictly. Anything wrong is refused by name and leaves
the file as it is. It does not say whether the process is alive: that is `corral sidecar check`."""

_READ_EPILOG = """\
example:
  corral sidecar read ~/.mycli/sessions/42/runtime.json --json

exit codes: 0 ok · 1 refused · 2 usage · 4 there is no such file"""

_CHECK = """\
Say whether the process that a runtime.json names is alive: live, stale (proven dead), remote-host or unknown,
with the rule that decided it."""

_CHECK_EPILOG = """\
example:
  corral sidecar check ~/.mycli/sessions/42/runtime.json

exit codes: 0 live · 1 anything else, or no valid record · 2 usage · 4 there is no such file"""

_CLEAR = """\
Remove a runtime.json that names the process PID. A file that names any other process stays, with exit code 1.
A process that has ended may be named too: then its own file goes, once its death is proven. Of one on another
host or in a container nothing can be proven from here: --unverified is your word that it is gone."""

_CLEAR_EPILOG = """\
example:
  corral sidecar clear ~/.mycli/sessions/42/runtime.json --pid 4711

exit codes: 0 cleared, or there was no file · 1 refused or failed · 2 usage"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "sidecar",
        summary="the runtime.json protocol for other languages",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    write = add_command(
        actions,
        "write",
        summary="say that a process serves a session",
        description=_WRITE,
        epilog=_WRITE_EPILOG,
    )
    write.add_argument("dir", metavar="DIR", help="the session's directory; it must exist")
    write.add_argument("--session-id", required=True, metavar="ID", help="the session's own id")
    write.add_argument("--work-dir", required=True, metavar="PATH", help="where the session works")
    write.add_argument("--cli", required=True, metavar="NAME", help="the program, for the field NAME_version")
    write.add_argument("--version", required=True, metavar="V", help="the program's version")
    write.add_argument("--provider", metavar="NAME", help="the program as corral calls it, such as kimi-cli")
    write.add_argument(
        "--pid",
        type=parse_pid,
        metavar="PID",
        help="the process that serves (default: the parent of this command)",
    )
    write.add_argument("--json", action="store_true", help="print the record that was written")

    read = add_command(
        actions, "read", summary="print a record, strictly checked", description=_READ, epilog=_READ_EPILOG
    )
    read.add_argument("path", metavar="PATH", help="a runtime.json")
    read.add_argument("--json", action="store_true", help="print JSON")

    check = add_command(
        actions, "check", summary="is the process that it names alive?", description=_CHECK, epilog=_CHECK_EPILOG
    )
    check.add_argument("path", metavar="PATH", help="a runtime.json")
    check.add_argument("--json", action="store_true", help="print JSON")

    clear = add_command(
        actions, "clear", summary="remove the file of a process", description=_CLEAR, epilog=_CLEAR_EPILOG
    )
    clear.add_argument("path", metavar="PATH", help="a runtime.json, or the directory it lies in")
    clear.add_argument("--pid", type=parse_pid, required=True, metavar="PID", help="the process that it must name")
    clear.add_argument(
        "--unverified", action="store_true", help="remove it although the process can't be looked at from here"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    match args.action:
        case "write":
            return _run_write(args)
        case "read":
            return _run_read(args)
        case "check":
            return _run_check(args)
        case _:
            return _run_clear(args)


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
        print_lines([f"{name:<{width}} {_one_line(str(value))}" for name, value in fields.items()])
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
        print_lines([f"{verdict.liveness} ({verdict.rule}): {_one_line(verdict.reason)}"])
    return 0 if verdict.liveness == "live" else 1


def _run_clear(args: argparse.Namespace) -> int:
    problem = sidecar.clear(args.path, process=args.pid, best_effort=True, unverified=args.unverified)
    if problem is not None:
        raise _refused(problem)
    return 0


def _refused(refusal: Refusal) -> CorralError:
    message = f"{_one_line(refusal.reason)} [{refusal.code}]"
    return NotFound(message) if refusal.code == "io:ENOENT" else CorralError(message)


def _one_line(text: str) -> str:
    """Foreign text for a terminal: whatever could move the cursor or hide something becomes visible."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
