"""Getting back into a kimi-cli session, the check without which a resume destroys its history, and a fresh start."""

from __future__ import annotations

import os

from corral.model.key import Home, SessionKey
from corral.model.record import SessionRecord
from corral.model.restore import Command, Program, Refusal, Refused, Resume, Start
from corral.providers.kimi_cli.processes import HOME, NAME
from corral.providers.kimi_cli.reporter import bucket_of
from corral.providers.kimi_cli.sessions import LOCAL, read_registry


def transcript_path(record: SessionRecord) -> str:
    """The file that holds the history which a resume gives back to the model."""
    if record.path.endswith(".jsonl"):
        return record.path
    inside = f"{record.path}/context.jsonl"
    beside = f"{record.path}.jsonl"
    return beside if not os.path.exists(inside) and os.path.isfile(beside) else inside


def read_guard(record: SessionRecord) -> Refused | None:
    """Why kimi-cli must not be asked to resume this now.

    kimi 1.51 takes a session it can't find for a new one: it deletes context.jsonl, starts empty and exits 0.
    It finds a session only if kimi.json lists exactly the directory and context.jsonl is there (2026-11).
    """
    registry = read_registry(record.home)
    if registry.problem is not None:
        return _refuse_start(record.home, registry.problem)
    if not os.path.isfile(transcript_path(record)):
        return Refused(
            reason=Refusal.TRANSCRIPT_MISSING,
            message="context.jsonl is missing: kimi-cli would start this session with an empty history",
            remedy=(f"put the file back as {record.path}/context.jsonl",),
        )
    listed = registry.by_bucket.get(record.scope)
    if listed is not None and listed.kaos != LOCAL:
        return Refused(
            reason=Refusal.RESTORE_UNSUPPORTED,
            message=f"its directory {listed.path} is on another machine ({listed.kaos})",
        )
    if record.work_dir is None:
        return Refused(
            reason=Refusal.WORK_DIR_UNREGISTERED,
            message="kimi.json does not list its directory, and the session does not name it",
            remedy=(
                f"find the directory whose path has the md5 {record.scope}",
                f"in it: {_start_once(record.home, '.')}",
                "leave with /quit, then resume again",
            ),
        )
    if bucket_of(record.work_dir) != record.scope:
        return Refused(
            reason=Refusal.WORK_DIR_UNREGISTERED,
            message=f"kimi-cli filed it under another directory than {record.work_dir}, perhaps a link",
            remedy=("start kimi with -w and the directory as spelled then, leave with /quit, resume again",),
        )
    if listed is None:
        return Refused(
            reason=Refusal.WORK_DIR_UNREGISTERED,
            message=f"kimi.json does not list {record.work_dir}: kimi-cli would delete the session's history",
            remedy=(
                Command(_start_once(record.home, record.work_dir)),
                "leave with /quit",
                Command(f"corral resume {record.session_id}"),
            ),
        )
    return None


def plan_resume(record: SessionRecord, program: Program, home: Home) -> Resume | Refused:
    """`-w` names the directory exactly as kimi.json does; the caller has made sure that it is known."""
    work_dir = record.work_dir or ""
    return Resume(
        argv=(program.path, "-w", work_dir, "--session", record.session_id),
        cwd=work_dir,
        env=HOME.environment(home),
        # kimi 1.51 deletes it when it does not find the session, for whatever reason (2026-11).
        keep=(transcript_path(record),),
    )


def plan_start(work_dir: str, session_id: str | None, program: Program, home: Home) -> Start | Refused:
    """kimi 1.51 makes a session of an id that it does not know, and files it under the directory (2026-11)."""
    registry = read_registry(home.path)
    if registry.problem is not None:
        return _refuse_start(home.path, registry.problem)
    chosen = () if session_id is None else ("--session", session_id)
    scope = bucket_of(work_dir)
    return Start(
        argv=(program.path, "-w", work_dir, *chosen),
        cwd=work_dir,
        env=HOME.environment(home),
        key=None if session_id is None else SessionKey(NAME, home.path, scope, session_id),
    )


def _refuse_start(home: str, problem: str) -> Refused:
    return Refused(
        reason=Refusal.WORK_DIR_UNREGISTERED,
        message=f"{problem}, and kimi-cli does not start with such a file",
        remedy=(f"repair or move away {home}/kimi.json",),
    )


def _start_once(home: str, work_dir: str) -> str:
    from shlex import quote

    prefix = "" if os.path.basename(home) == ".kimi" else f"{HOME.variable}={quote(home)} "
    return f"{prefix}kimi -w {quote(work_dir)}"
