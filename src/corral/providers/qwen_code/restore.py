"""Getting back into a Qwen session: which version would run, what would make a resume go wrong, and the command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from corral.model.key import Home, SessionKey
from corral.model.record import SessionRecord
from corral.model.restore import Program, Refusal, Refused, Resume, Start
from corral.providers.contract import Environment
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.programs import find_npm_package
from corral.providers.kit.transcripts import open_transcript
from corral.providers.qwen_code.homes import (
    HOME_VARIABLE,
    RUNTIME,
    RUNTIME_VARIABLE,
    encode_project,
    find_home,
    find_resume_dir,
)
from corral.providers.qwen_code.processes import PACKAGE
from corral.providers.qwen_code.sessions import DAMAGED, FOREIGN_ID, RECORD_TYPES
from corral.sidecar.files import Unreadable, read_regular

_LIMIT = 64 << 10


def find_update(path: str, installed: str, env: Environment) -> str | None:
    """The version that the wrapper would start instead of its own.

    qwen 0.24.4 can update itself beneath its home and leaves the installed package as it is (read, 2026-11).
    """
    import hashlib

    entry = os.path.realpath(path)
    home, _ = find_home(env.variables, env.home_dir)
    place = os.path.join(home, "updates", "npm", hashlib.sha256(os.fsencode(entry)).hexdigest()[:16])
    content = read_regular(os.path.join(place, "active.json"), _LIMIT)
    if isinstance(content, Unreadable):
        return None
    try:
        active = _ACTIVE.decode(content.data)
        changed_ms = os.stat(entry).st_ctime_ns / 1e6
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError):
        return None
    valid = (
        os.path.realpath(active.bootstrap) == entry
        and active.baseVersion == installed
        and abs(active.bootstrapCtimeMs - changed_ms) < 1
        and "/" not in active.version
    )
    if not valid:
        return None
    package = find_npm_package(os.path.join(place, "versions", active.version, "node_modules", PACKAGE, "cli.js"))
    return active.version if package and (package.product, package.version) == (PACKAGE, active.version) else None


class _Active(msgspec.Struct):
    version: str
    bootstrap: str
    baseVersion: str
    bootstrapCtimeMs: float


_ACTIVE = msgspec.json.Decoder(_Active)


_CHAIN_BUDGET = 256 << 20
_ASIDE = frozenset(
    {
        "session_artifact_event",
        "session_artifact_snapshot",
        "session_sources_snapshot",
        "managed_session_header_v1",
        "managed_session_event_v1",
        "managed_session_commit_v1",
    }
)
"""Kinds of `system` records that Qwen keeps out of the chain."""


class ChainFacts(Struct, frozen=True, kw_only=True):
    """What Qwen would take up on a resume."""

    records: int
    """Readable ones."""
    reachable: int
    """Those on the way from the last record back to the beginning, or to a gap."""
    gap: bool
    """The way back ends at a record that is missing: all before it would be lost, without a word."""
    sessions: tuple[str, ...]
    """Every session id that the records name; more than one, and Qwen refuses the file."""
    complete: bool = True
    """False when the file is too large to be checked."""


def read_chain(path: str) -> ChainFacts | Unreadable:
    """Walks the records as `qwen --resume` does: from the last one back by parentUuid, until one is missing.

    qwen 0.24.4, tried 2026-11: a destroyed record costs everything before it, with exit code 0; a foreign
    line between records costs nothing; two records glued on one line are both read.
    """
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return transcript
    parents: dict[str, str | None] = {}
    sessions: dict[str, None] = {}
    last: str | None = None
    count = 0
    with transcript:
        for line in transcript.forward(_CHAIN_BUDGET):
            for link in _links(line.data):
                if link.type not in RECORD_TYPES or not link.uuid or not link.sessionId or link.parentUuid is UNSET:
                    continue
                count += 1
                sessions[link.sessionId] = None
                if link.type == "system" and link.subtype in _ASIDE:
                    continue
                parents.setdefault(link.uuid, link.parentUuid)
                last = link.uuid
        complete = not transcript.exhausted
    reached: set[str] = set()
    gap = False
    while last is not None and last not in reached:
        if last not in parents:
            gap = True
            break
        reached.add(last)
        last = parents[last] or None
    return ChainFacts(records=count, reachable=len(reached), gap=gap, sessions=tuple(sessions), complete=complete)


def _links(data: bytes) -> Iterator[_Link]:
    link = _LINK.decode(data)
    if link is not None:
        yield link
        return
    # Two writers can leave `{…}{…}` on one line; Qwen reads both.
    text = data.decode("utf-8", "replace")
    import json

    decoder = json.JSONDecoder()
    position = 0
    while (position := text.find("{", position)) >= 0:
        try:
            value: Any
            value, position = decoder.raw_decode(text, position)
            yield msgspec.convert(value, _Link)
        except (ValueError, RecursionError):
            return
        except msgspec.ValidationError:
            continue


class _Link(Struct):
    uuid: str | None = None
    parentUuid: str | UnsetType | None = UNSET
    sessionId: str | None = None
    type: str | None = None
    subtype: str | None = None


_LINK = ForeignDecoder(_Link)


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


def plan_resume(record: SessionRecord, program: Program, home: Home) -> Resume | Refused:
    """Qwen finds a session only from the directory whose project it belongs to."""
    work_dir = record.work_dir or home.path
    return Resume(
        argv=(program.path, "--resume", record.session_id),
        cwd=find_resume_dir(work_dir, record.scope) or work_dir,
        env=home_environment(home),
    )


def plan_start(work_dir: str, session_id: str | None, program: Program, home: Home) -> Start | Refused:
    """qwen 0.24.4 takes a UUID that it does not know, and files it under the directory's real path (2026-11)."""
    chosen = () if session_id is None else ("--session-id", session_id)
    scope = encode_project(os.path.realpath(work_dir))
    return Start(
        argv=(program.path, *chosen),
        cwd=work_dir,
        env=home_environment(home),
        key=None if session_id is None else SessionKey(home.provider, home.path, scope, session_id),
    )


def home_environment(home: Home) -> dict[str, str]:
    """The variables that lead Qwen to this home."""
    env: dict[str, str] = {}
    if not home.is_default:
        env[HOME_VARIABLE] = home.path
    if RUNTIME in home.places:
        env[RUNTIME_VARIABLE] = home.places[RUNTIME]
    return env


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
            message=f"a record of {record.path} is destroyed, and {found}: Qwen would silently drop the rest",
            remedy=("restore the transcript from a backup", by_hand),
        )
    return None
