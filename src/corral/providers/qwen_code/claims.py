"""Which process serves which session, as Qwen says in its registry of processes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from corral.machine.host import is_on_network
from corral.machine.processes import ProcessTable
from corral.model.claim import BadClaim, Claim, ClaimKind
from corral.model.key import Home
from corral.providers.qwen_code.homes import NAME, is_session_id
from corral.sidecar.files import Unreadable, read_regular

_LIMIT = 64 << 10
_FILE_NAME = re.compile(r"([1-9][0-9]{0,9})(-[0-9a-f]{8})?\.json\Z")
_START = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):([0-9]{1,19})\Z")
_SCHEMA = 1


def list_claims(home: Home, table: ProcessTable) -> Iterator[Claim | BadClaim]:
    """The registry: it is right where runtime.json is not (one session opened twice)."""
    directory = os.path.join(home.path, "sessions")
    on_network = is_on_network(home.path)
    for name in _names(directory):
        if not name.endswith(".json"):
            continue  # a temporary file of a writer that was interrupted
        path = os.path.join(directory, name)
        claim = _read_registry(home, path, name, on_network)
        if claim is not None:
            yield claim


def _read_registry(home: Home, path: str, name: str, on_network: bool) -> Claim | BadClaim | None:
    def bad(reason: str) -> BadClaim:
        return BadClaim(kind=ClaimKind.REGISTRY, provider=NAME, home=home.path, path=path, reason=reason)

    named = _FILE_NAME.match(name)
    if named is None:
        return bad("its name is not a process id")
    content = read_regular(path, _LIMIT)
    if isinstance(content, Unreadable):
        # A clean quit removes the record at any moment, also between our listing and our reading.
        return None if content.reason == "io:ENOENT" else bad(content.reason)
    try:
        # The message of a failure is dropped: a decoder may quote what it read, and there is a secret in it.
        record = _DECODER.decode(content.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bad("not a record of Qwen's registry")
    if record.schemaVersion != _SCHEMA:
        return bad(f"schemaVersion {record.schemaVersion} is not known")
    if record.pid != int(named[1]):
        return bad(f"its name says pid {named[1]}, its content pid {record.pid}")
    start = _START.match(record.procStart)
    if start is None:
        return bad("procStart is not a boot id and start ticks")
    if not is_session_id(record.sessionId):
        return bad("sessionId is not a session id")
    return Claim(
        kind=ClaimKind.REGISTRY,
        provider=NAME,
        home=home.path,
        scope=None,
        session_id=record.sessionId,
        path=path,
        pid=record.pid,
        written_at=record.startedAt / 1000,
        boot_id=start[1],
        pid_ns=record.pidNs,
        start_ticks=int(start[2]),
        owner_uid=content.stat.st_uid,
        on_network_fs=on_network,
        work_dir=record.cwd,
        version=record.qwenVersion,
        # One ACP process has a record for each of its sessions.
        many=named[2] is not None,
    )


def _names(directory: str) -> list[str]:
    """Names in a directory, sorted; none when it is not there. Denied is an error for the caller."""
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


class _Registered(Struct):
    """What is read of a record. Its socket and its token are not named here, hence never decoded or kept."""

    schemaVersion: int
    pid: Annotated[int, Meta(ge=1, le=4_194_304)]
    procStart: str
    pidNs: Annotated[int, Meta(ge=1, lt=1 << 62)]
    sessionId: str
    cwd: str
    startedAt: Annotated[float, Meta(ge=0, lt=1e15)]
    qwenVersion: str | None = None


_DECODER = msgspec.json.Decoder(_Registered)
