"""Claims whose proof is a process itself: a lock that the kernel lists, or a log that it keeps open."""

from __future__ import annotations

import os
from collections.abc import Iterator

from corral.machine.processes import Process, ProcessTable
from corral.model.claim import Claim, ClaimKind
from corral.model.key import SessionKey


def list_lock_claims(path: str, key: SessionKey, table: ProcessTable) -> Iterator[Claim]:
    """One for each process that holds a lock on the file at `path`, and has it open."""
    try:
        seen = os.stat(path, follow_symlinks=False)
    except OSError:
        return
    for process in table.lock_holders((seen.st_dev, seen.st_ino)):
        yield claim_by(process, key, ClaimKind.LOCK, path)


def claim_by(
    process: Process,
    key: SessionKey,
    kind: ClaimKind,
    path: str,
    *,
    many: bool = False,
    foreground: bool | None = None,
) -> Claim:
    """What a process shows by what it holds: exact, since its start was read with it."""
    identity = process.identity
    return Claim(
        kind=kind,
        provider=key.provider,
        home=key.home,
        scope=key.scope,
        session_id=key.session_id,
        path=path,
        pid=identity.pid,
        written_at=None,
        boot_id=identity.boot_id,
        pid_ns=identity.pid_ns,
        start_ticks=identity.start_ticks,
        owner_uid=process.uid,
        work_dir=process.cwd,
        many=many,
        foreground=foreground,
    )
