"""The way back into a kimi-code session: in its own directory, by its own id."""

from __future__ import annotations

from corral.model.key import Home
from corral.model.record import SessionRecord
from corral.model.restore import Program, Refusal, Refused, Resume
from corral.providers.kimi_code.places import HOME_VARIABLE
from corral.providers.kimi_code.sessions import WIRE
from corral.providers.kimi_code.state import read_state


def transcript_path(record: SessionRecord) -> str:
    """The file that holds the history which a resume gives back to the model."""
    return f"{record.path}/{WIRE}"


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
            message=f"{record.path}/state.json names another session than the directory it lies in",
        )
    if record.work_dir is not None and state.cwd != record.work_dir:
        return Refused(
            reason=Refusal.WORK_DIR_MISSING,
            message=f"it belongs to {state.cwd}, not to {record.work_dir}",
            remedy=("list the sessions again: the record has changed since",),
        )
    return None


def plan_resume(record: SessionRecord, program: Program, home: Home) -> Resume:
    """There is no option for the directory: kimi-code must be started in the session's own."""
    return Resume(
        argv=(program.path, "-r", record.session_id),
        cwd=record.work_dir or "",
        env={} if home.is_default else {HOME_VARIABLE: home.path},
    )
