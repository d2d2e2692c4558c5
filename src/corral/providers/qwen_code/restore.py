"""Getting back into a Qwen session: which version would run, what would make a resume go wrong, and the command."""

from __future__ import annotations

import os

import msgspec
from msgspec import UNSET

from corral.model.key import Home, SessionKey
from corral.model.record import SessionRecord
from corral.model.restore import Program, Refusal, Refused, Resume, Start
from corral.providers.contract import Environment
from corral.providers.kit.conversations import DAMAGED, FOREIGN_ID
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.programs import find_npm_package
from corral.providers.kit.record_chain import follow_back, split_line
from corral.providers.kit.transcripts import open_transcript
from corral.providers.qwen_code.homes import HOME, RUNTIME, RUNTIME_VARIABLE, encode_project, find_home, find_resume_dir
from corral.providers.qwen_code.reporter import PACKAGE
from corral.providers.qwen_code.sessions import RECORD_TYPES, Link
from corral.sidecar.files import Unreadable, read_regular

_ACTIVE_LIMIT = 64 << 10
_CHAIN_BUDGET = 256 << 20
_ASIDE = frozenset(
    {
        "session_artifact_event", "session_artifact_snapshot", "session_sources_snapshot",
        "managed_session_header_v1", "managed_session_event_v1", "managed_session_commit_v1",
    }
)  # fmt: skip
"""Kinds of `system` records that Qwen keeps out of the chain."""
_LINK = ForeignDecoder(Link)


class _Active(msgspec.Struct):
    version: str
    bootstrap: str
    baseVersion: str
    bootstrapCtimeMs: float


def find_update(path: str, installed: str, env: Environment) -> str | None:
    """The version that the wrapper would start instead of its own.

    qwen 0.24.4 can update itself below its home and leaves the installed package as it is (read, 2026-11).
    """
    import hashlib

    entry = os.path.realpath(path)
    home, _ = find_home(env.variables, env.home_dir)
    place = os.path.join(home, "updates", "npm", hashlib.sha256(os.fsencode(entry)).hexdigest()[:16])
    content = read_regular(os.path.join(place, "active.json"), _ACTIVE_LIMIT)
    if isinstance(content, Unreadable):
        return None
    try:
        active = msgspec.json.decode(content.data, type=_Active)
        changed_ms = os.stat(entry).st_ctime_ns / 1e6
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError):
        return None
    is_valid = (
        os.path.realpath(active.bootstrap) == entry
        and active.baseVersion == installed
        and abs(active.bootstrapCtimeMs - changed_ms) < 1
        and "/" not in active.version
    )
    if not is_valid:
        return None
    package = find_npm_package(os.path.join(place, "versions", active.version, "node_modules", PACKAGE, "cli.js"))
    return active.version if package and (package.product, package.version) == (PACKAGE, active.version) else None


def plan_resume(record: SessionRecord, program: Program, home: Home) -> Resume | Refused:
    """Qwen finds a session only from the directory whose project it belongs to."""
    work_dir = record.work_dir or home.path
    return Resume(
        argv=(program.path, "--resume", record.session_id),
        cwd=find_resume_dir(work_dir, record.scope) or work_dir,
        env=_home_environment(home),
    )


def plan_start(work_dir: str, session_id: str | None, program: Program, home: Home) -> Start | Refused:
    """qwen 0.24.4 takes a UUID that it does not know, and files it under the directory's real path (2026-11)."""
    scope = encode_project(os.path.realpath(work_dir))
    return Start(
        argv=(program.path, *(("--session-id", session_id) if session_id else ())),
        cwd=work_dir,
        env=_home_environment(home),
        key=SessionKey(home.provider, home.path, scope, session_id) if session_id else None,
    )


def _home_environment(home: Home) -> dict[str, str]:
    runtime = {RUNTIME_VARIABLE: home.places[RUNTIME]} if RUNTIME in home.places else {}
    return HOME.environment(home) | runtime


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


def _check_directory(record: SessionRecord) -> Refused | None:
    if record.work_dir is None:
        return Refused(reason=Refusal.WORK_DIR_MISSING, message="its transcript does not say in which directory it ran")
    directory = find_resume_dir(record.work_dir, record.scope)
    if directory is None:
        return Refused(
            reason=Refusal.WORK_DIR_UNREGISTERED,
            message=f"it ran in {record.work_dir}, but its transcript is in the project {record.scope}, "
            "where Qwen would not look for it",
        )
    # Qwen compares the directory as the kernel names it: through a link it would look into another project.
    real = os.path.realpath(directory)
    if real != directory:
        return Refused(
            reason=Refusal.WORK_DIR_UNREGISTERED,
            message=f"{directory} now leads to {real}, which Qwen takes for another project",
        )
    return None


def _check_chain(record: SessionRecord) -> Refused | None:
    """Follows the records as `qwen --resume` does: from the last one back by parentUuid, until one is missing.

    qwen 0.24.4, tried 2026-11: a destroyed record costs everything before it, with exit code 0; a foreign line
    between records costs nothing; two records on one line are both read.
    """
    transcript = open_transcript(record.path)
    if isinstance(transcript, Unreadable):
        return Refused(reason=Refusal.TRANSCRIPT_MISSING, message=f"{record.path}: {transcript.reason}")
    with transcript:
        lines = (line.data for line in transcript.forward(_CHAIN_BUDGET))
        links = [
            (link.uuid, link.parentUuid, link.sessionId, link.subtype if link.type == "system" else None)
            for data in lines
            for link in split_line(data, _LINK, Link)
            if link.type in RECORD_TYPES and link.uuid and link.sessionId and link.parentUuid is not UNSET
        ]
    if len({session_id for _, _, session_id, _ in links}) > 1:
        return Refused(
            reason=Refusal.IDENTITY_INVALID,
            message=f"{record.path} has records of several sessions, which Qwen refuses to read",
        )
    chain = follow_back((uuid, parent) for uuid, parent, _, kind in links if kind not in _ASIDE)
    if chain.gap:
        found = f"only {chain.reachable} of {len(links)} records can be reached from the end"
    elif transcript.exhausted:
        found = "it is too large to be checked"
    else:
        return None
    by_hand = f"to go on with what is left: cd {record.work_dir} && qwen --resume {record.session_id}"
    return Refused(
        reason=Refusal.TRANSCRIPT_MISSING,
        message=f"a record of {record.path} is destroyed, and {found}: Qwen would silently drop the rest",
        remedy=("restore the transcript from a backup", by_hand),
    )
