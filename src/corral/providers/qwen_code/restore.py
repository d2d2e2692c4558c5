"""Getting back into a Qwen session: what would make a resume go wrong, and the command that does it."""

from __future__ import annotations

import os

from corral.model.key import Home
from corral.model.record import SessionRecord
from corral.model.restore import Program, Refusal, Refused, Resume
from corral.providers.qwen_code.chain import read_chain
from corral.providers.qwen_code.homes import HOME_VARIABLE, RUNTIME_VARIABLE
from corral.providers.qwen_code.places import find_resume_dir
from corral.providers.qwen_code.sessions import DAMAGED, FOREIGN_ID
from corral.system.transcripts import Unreadable


def transcript_path(record: SessionRecord) -> str:
    return record.path


def read_guard(record: SessionRecord) -> Refused | None:
    """Why `qwen --resume` would not open this very conversation, whole; None when nothing is against it."""
    if record.archived:
        return Refused(
            reason=Refusal.RESTORE_UNSUPPORTED,
            message="it is archived, and Qwen resumes only sessions that are not",
            remedy=("unarchive it in Qwen, then try again",),
        )
    if FOREIGN_ID in record.notes:
        return Refused(reason=Refusal.IDENTITY_INVALID, message=f"{record.path}: {FOREIGN_ID}")
    if not record.durable:
        return None
    return _check_directory(record) or (_check_chain(record) if DAMAGED in record.notes else None)


def plan_resume(record: SessionRecord, program: Program, home: Home) -> Resume:
    """Qwen finds a session only from the directory whose project it belongs to."""
    work_dir = record.work_dir or home.path
    return Resume(
        argv=(program.path, "--resume", record.session_id),
        cwd=find_resume_dir(work_dir, record.scope) or work_dir,
        env=home_environment(home),
    )


def home_environment(home: Home) -> dict[str, str]:
    """The variables that lead Qwen to this home."""
    env: dict[str, str] = {}
    if not home.is_default:
        env[HOME_VARIABLE] = home.path
    if home.data_path is not None:
        env[RUNTIME_VARIABLE] = home.data_path
    return env


def _check_directory(record: SessionRecord) -> Refused | None:
    if record.work_dir is None:
        return Refused(reason=Refusal.WORK_DIR_MISSING, message="its transcript does not say in which directory it ran")
    directory = find_resume_dir(record.work_dir, record.scope)
    if directory is None:
        return Refused(
            reason=Refusal.WORK_DIR_UNREGISTERED,
            message=f"it ran in {record.work_dir}, but its transcript lies in the project {record.scope}, "
            "where Qwen would not look for it",
        )
    # Qwen compares the directory as the kernel names it: through a link it would look into another project.
    real = os.path.realpath(directory)
    if real != directory:
        return Refused(
            reason=Refusal.WORK_DIR_UNREGISTERED,
            message=f"{directory} now leads to {real}, which is another project to Qwen",
        )
    return None


def _check_chain(record: SessionRecord) -> Refused | None:
    chain = read_chain(record.path)
    if isinstance(chain, Unreadable):
        return Refused(reason=Refusal.TRANSCRIPT_MISSING, message=f"{record.path}: {chain.reason}")
    if len(chain.sessions) > 1:
        return Refused(
            reason=Refusal.IDENTITY_INVALID,
            message=f"{record.path} has records of several sessions, which Qwen refuses to read",
        )
    by_hand = f"to go on with what is left: cd {record.work_dir} && qwen --resume {record.session_id}"
    if chain.gap or not chain.complete:
        found = (
            f"only {chain.reachable} of {chain.records} records can be reached from the end"
            if chain.gap
            else "it is too large to be checked"
        )
        return Refused(
            reason=Refusal.TRANSCRIPT_MISSING,
            message=f"a record of {record.path} is destroyed, and {found}: Qwen would drop the rest unsaid",
            remedy=("restore the transcript from a backup", by_hand),
        )
    return None
