"""A session directory's runtime.json as a claim. It is evidence only if it names the session it is in."""

from __future__ import annotations

import os
import time

from corral import sidecar
from corral.machine.host import is_on_network
from corral.model.claim import BadClaim, Claim, ClaimKind
from corral.model.key import SessionKey
from corral.model.record import SidecarHint
from corral.sidecar.session_file import identify_directory


def read_hint(path: str) -> SidecarHint | None:
    """What is at `path`, for a listing to remember; None when nothing is."""
    file = sidecar.read_file(path)
    if isinstance(file.record, sidecar.Refusal):
        return None if file.record.code == "io:ENOENT" else SidecarHint(path, None, None)
    return SidecarHint(path, None if _is_odd(file.record) else file.record.pid, file.record.hostname)


def read_runtime_claim(path: str, key: SessionKey) -> Claim | BadClaim:
    """What the runtime.json at `path`, which is in the directory of session `key`, says."""
    file = sidecar.read_file(path)
    record = file.record
    if isinstance(record, sidecar.Refusal):
        return _bad(path, key, record.reason)
    if record.session_id != key.session_id:
        return _bad(path, key, f"it names session {record.session_id}, not the one it is in")
    if record.provider is not None and record.provider != key.provider:
        return _bad(path, key, f"it was written for {record.provider}")
    return claim_of(path, key, record, file.stat.st_uid if file.stat else None)


def claim_of(path: str, key: SessionKey, record: sidecar.RuntimeRecord, owner_uid: int | None) -> Claim:
    """A valid record as a claim on session `key`."""
    return Claim(
        kind=ClaimKind.RUNTIME,
        provider=key.provider,
        home=key.home,
        scope=key.scope,
        session_id=key.session_id,
        path=path,
        pid=record.pid,
        written_at=record.started_at,
        hostname=record.hostname,
        boot_id=record.boot_id,
        pid_ns=record.pid_ns,
        start_ticks=record.start_ticks,
        owner_uid=owner_uid,
        on_network_fs=is_on_network(key.home),
        work_dir=record.work_dir,
        version=record.version,
        is_copy=_is_copy(path, record),
        by_hook=record.reported_by == "hook",
    )


def _is_copy(path: str, record: sidecar.RuntimeRecord) -> bool | None:
    """Qwen's file is beside many others: only a record that names a directory can be in another one."""
    if record.directory_id is None:
        return None
    return record.directory_id != identify_directory(os.path.dirname(path))


def _is_odd(record: sidecar.RuntimeRecord) -> bool:
    """Ahead of the clock, or of a PID namespace without a start: a process that is gone proves nothing then."""
    unstarted = record.pid_ns is not None and (record.start_ticks is None or not record.boot_id)
    return unstarted or record.started_at > time.time()


def _bad(path: str, key: SessionKey, reason: str) -> BadClaim:
    return BadClaim(
        kind=ClaimKind.RUNTIME,
        provider=key.provider,
        home=key.home,
        path=path,
        reason=reason,
        session_id=key.session_id,
        scope=key.scope,
    )
