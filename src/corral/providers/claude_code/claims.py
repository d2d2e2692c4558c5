"""Which process serves which session, as Claude Code says in its registry of processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from corral.machine.host import is_on_network
from corral.machine.processes import ProcessTable
from corral.model.claim import BadClaim, Claim, ClaimKind
from corral.model.key import Home
from corral.model.verdict import Activity
from corral.providers.claude_code.processes import NAME
from corral.providers.claude_code.sessions import is_session_id
from corral.providers.kit.file_sessions import list_entries
from corral.sidecar.files import Unreadable, read_regular

_LIMIT = 64 << 10
_FILE_NAME = re.compile(r"[1-9][0-9]{0,9}\.json\Z")
_TICKS = re.compile(r"[0-9]{1,19}\Z")
_DOMAIN = re.compile(r"linux:([0-9a-f]{32})?:pid:\[([0-9]{1,18})\]\Z")
_MACHINE_ID = "/etc/machine-id"
_ACTIVITY = {"idle": Activity.READY, "busy": Activity.BUSY, "waiting": Activity.WAITING}


def list_claims(home: Home, table: ProcessTable) -> Iterator[Claim | BadClaim]:
    """The records of all processes that did not end cleanly: a killed one leaves its own, with its last status."""
    on_network = is_on_network(home.path)
    for entry in list_entries(f"{home.path}/sessions"):
        # Beside each there is a key, which is not ours to read.
        if entry.name.endswith(".json") and (claim := _read_record(home, entry.path, entry.name, on_network)):
            yield claim


def _read_record(home: Home, path: str, name: str, on_network: bool) -> Claim | BadClaim | None:
    def bad(reason: str) -> BadClaim:
        return BadClaim(kind=ClaimKind.REGISTRY, provider=NAME, home=home.path, path=path, reason=reason)

    if _FILE_NAME.match(name) is None:
        return bad("its name is not a process id")
    content = read_regular(path, _LIMIT)
    if isinstance(content, Unreadable):
        # A clean quit removes the record at any moment, also between our listing and our reading.
        return None if content.reason == "io:ENOENT" else bad(content.reason)
    try:
        record = _DECODER.decode(content.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bad("not a record of Claude's registry")
    if f"{record.pid}.json" != name:
        return bad(f"its name says {name}, its content pid {record.pid}")
    domain = _DOMAIN.match(record.pidDomain)
    if domain is None or _TICKS.match(record.procStart) is None:
        return bad("pidDomain and procStart do not name a PID namespace and a start in ticks")
    if not is_session_id(record.sessionId):
        return bad("sessionId is not a session id")
    if record.status is None:
        # 2.1.325: while it starts, or shows the list of sessions to resume, and has none yet (2026-11).
        return None
    return Claim(
        kind=ClaimKind.REGISTRY,
        provider=NAME,
        home=home.path,
        scope=None,
        session_id=record.sessionId,
        path=path,
        pid=record.pid,
        written_at=max(record.startedAt, record.updatedAt or 0) / 1000,
        hostname=_find_other_machine(domain[1]),
        pid_ns=int(domain[2]),
        start_ticks=int(record.procStart),
        owner_uid=content.stat.st_uid,
        on_network_fs=on_network,
        work_dir=record.cwd,
        version=record.version,
        activity=_ACTIVITY.get(record.status),
        waits_for=record.waitingFor if record.status == "waiting" else None,
    )


def _find_other_machine(machine_id: str | None) -> str | None:
    """A name for the machine of a record, if it is another one: a home may be shared by several."""
    try:
        with open(_MACHINE_ID, encoding="ascii") as file:
            ours = file.read(64).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return f"machine-{machine_id}" if machine_id and ours and machine_id != ours else None


class _Registered(Struct):
    """What is read of a record. Its socket is not named here, hence never decoded or kept."""

    pid: Annotated[int, Meta(ge=1, le=4_194_304)]
    sessionId: str
    procStart: str
    pidDomain: str
    cwd: str
    startedAt: Annotated[float, Meta(ge=0, lt=1e15)]
    updatedAt: Annotated[float, Meta(ge=0, lt=1e15)] | None = None
    status: str | None = None
    waitingFor: str | None = None
    version: str | None = None


_DECODER = msgspec.json.Decoder(_Registered)
