"""Getting back into a Claude session: what would make a resume go wrong, and the commands."""

from __future__ import annotations

import os

from corral.model.key import Home, SessionKey
from corral.model.record import SessionRecord
from corral.model.restore import Program, Refusal, Refused, Resume, Start
from corral.providers.claude_code.processes import HOME
from corral.providers.claude_code.sessions import FOREIGN_ID, REPEATED, encode_project


def read_guard(record: SessionRecord) -> Refused | None:
    """Why `claude --resume` might not open this very conversation; None when nothing is against it."""
    if REPEATED in record.notes:
        return Refused(
            reason=Refusal.IDENTITY_INVALID,
            message=f"{record.session_id} exists in two projects, and Claude would resume either of them",
            remedy=("move one of the two transcripts out of Claude's directory, then try again",),
        )
    if FOREIGN_ID in record.notes:
        return Refused(reason=Refusal.IDENTITY_INVALID, message=f"{record.path}: {FOREIGN_ID}")
    if record.durable and record.work_dir is None:
        return Refused(reason=Refusal.WORK_DIR_MISSING, message="its transcript does not say in which directory it ran")
    return None


def plan_resume(record: SessionRecord, program: Program, home: Home) -> Resume | Refused:
    """2.1.325 finds a session by its id from any directory, and goes on in the one it is started in (2026-11)."""
    return Resume(
        argv=(program.path, "--resume", record.session_id),
        cwd=record.work_dir or home.path,
        env=HOME.environment(home),
    )


def plan_start(work_dir: str, session_id: str | None, program: Program, home: Home) -> Start | Refused:
    """2.1.325 takes a UUID that its project does not have, and files it under the directory's real path (2026-11)."""
    scope = encode_project(os.path.realpath(work_dir))
    if session_id is None or scope is None:
        return Start(argv=(program.path,), cwd=work_dir, env=HOME.environment(home), key=None)
    return Start(
        argv=(program.path, "--session-id", session_id),
        cwd=work_dir,
        env=HOME.environment(home),
        key=SessionKey(home.provider, home.path, scope, session_id),
    )
