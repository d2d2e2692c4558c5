"""Getting back into a thread of Codex: what is against it, and a fresh start."""

from __future__ import annotations

from corral.model.key import Home
from corral.model.record import SessionRecord
from corral.model.restore import Command, Program, Refusal, Refused, Resume, Start
from corral.providers.codex.processes import HOME, is_thread_id
from corral.providers.codex.rollouts import find_rollout, read_meta
from corral.providers.codex.sessions import FOREIGN_ID

_MOST_FORKS = 100


def read_guard(record: SessionRecord) -> Refused | None:
    """Why `codex resume` would not open this very conversation, whole; None when nothing is against it."""
    if not is_thread_id(record.session_id) or FOREIGN_ID in record.notes:
        return Refused(
            reason=Refusal.IDENTITY_INVALID,
            message="its id is no UUID, or its rollout names another: Codex would not find it",
        )
    if record.archived:
        return Refused(
            reason=Refusal.RESTORE_UNSUPPORTED,
            message="it is archived, and Codex resumes only threads that are not",
            remedy=(Command(f"codex unarchive {record.session_id}"),),
        )
    if record.parent_id is not None:
        return Refused(
            reason=Refusal.RESTORE_UNSUPPORTED,
            message=f"it is a sub-agent of {record.parent_id}, and belongs to that conversation",
            remedy=(Command(f"corral resume {record.parent_id}"),),
        )
    return _check_lineage(record) if record.durable else None


def plan_resume(record: SessionRecord, program: Program, home: Home) -> Resume | Refused:
    """In a process of its own: without `--no-daemon` the shared one would serve it. `-C` avoids a question."""
    work_dir = record.work_dir or home.path
    return Resume(
        argv=(program.path, "resume", "--no-daemon", "-C", work_dir, record.session_id),
        cwd=work_dir,
        env=HOME.environment(home),
    )


def plan_start(work_dir: str, session_id: str | None, program: Program, home: Home) -> Start | Refused:
    """codex 0.166.0 has no option for the id of a fresh thread (2026-11)."""
    return Start(argv=(program.path, "--no-daemon", "-C", work_dir), cwd=work_dir, env=HOME.environment(home), key=None)


def _check_lineage(record: SessionRecord) -> Refused | None:
    """A fork has only what came after it: Codex needs the rollouts that it comes from (0.166.0, 2026-11)."""
    path = record.path
    for _ in range(_MOST_FORKS):
        meta = read_meta(path)
        if meta is None or meta.history_base is None:
            return None
        parent = meta.history_base.thread_id
        found = find_rollout(record.home, parent) if is_thread_id(parent) else None
        if found is None:
            return Refused(
                reason=Refusal.TRANSCRIPT_MISSING,
                message=f"it was forked from {parent}, whose rollout is gone, and with it what came before the fork",
                remedy=("restore that rollout from a backup",),
            )
        path = found
    return Refused(reason=Refusal.TRANSCRIPT_MISSING, message=f"more than {_MOST_FORKS} forks lead to it")
