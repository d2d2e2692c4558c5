"""Getting back into a kimi-code session: why it may be refused, what it would drop, and a fresh start."""

from __future__ import annotations

from corral.model.key import Home
from corral.model.record import SessionRecord
from corral.model.restore import Loss, Program, Refusal, Refused, Resume, Start
from corral.providers.kimi_code.processes import HOME
from corral.providers.kimi_code.sessions import MAIN_LOG, WIRE, read_state
from corral.providers.kit.losses import find_loss


def transcript_path(record: SessionRecord) -> str:
    """The file that holds the history which a resume gives back to the model."""
    return f"{record.path}/{MAIN_LOG}"


def read_guard(record: SessionRecord) -> Refused | None:
    """Says beforehand what kimi 2.1 refuses: a session it can't find, or of another directory (2026-11)."""
    state = read_state(f"{record.path}/state.json")
    if isinstance(state, str):
        return Refused(
            reason=Refusal.TRANSCRIPT_MISSING,
            message=f"{state}: kimi-code would not find the session",
            remedy=(f"repair {record.path}/state.json",),
        )
    if state.id != record.session_id:
        return Refused(
            reason=Refusal.IDENTITY_INVALID,
            message=f"{record.path}/state.json names another session than the directory it is in",
        )
    if record.work_dir is not None and state.cwd != record.work_dir:
        return Refused(
            reason=Refusal.WORK_DIR_MISSING,
            message=f"it belongs to {state.cwd}, not to {record.work_dir}",
            remedy=("list the sessions again: the record has changed since",),
        )
    return None


def plan_resume(record: SessionRecord, program: Program, home: Home) -> Resume | Refused:
    """There is no option for the directory: kimi-code must be started in the session's own."""
    return Resume(
        argv=(program.path, "-r", record.session_id),
        cwd=record.work_dir or "",
        env=HOME.environment(home),
    )


def plan_start(work_dir: str, session_id: str | None, program: Program, home: Home) -> Start | Refused:
    """kimi 2.1 knows no option for the directory, and refuses an id that it did not make (2026-11)."""
    return Start(argv=(program.path,), cwd=work_dir, env=HOME.environment(home), key=None)


def read_loss(record: SessionRecord) -> Loss | None:
    """What is readable behind the first line of the main agent's log that is not JSON. Reads the log whole.

    kimi 2.1 reads this log line by line when it resumes. At the first whole line that is not JSON it stops, keeps
    what is before, and drops the rest for good; a wire.jsonl.bak is left only if there is none yet. Seen to make it
    stop: a cut line, blanks, NUL bytes, two records on one line, NaN. Seen to be passed: an empty line, JSON that
    is not an object, bytes in a text that are not UTF-8. A torn last line without its end goes alone. The log of a
    sub-agent is not touched by a resume (2026-11).
    """
    return find_loss(transcript_path(record), WIRE.is_record, WIRE.prompt)
