"""A registry that a CLI keeps of its own processes: `<pid>.json` files that name a session and the process's start."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from corral.machine.host import is_on_network
from corral.model.claim import BadClaim, Claim, ClaimKind
from corral.model.key import Home
from corral.sidecar.files import Unreadable, read_regular

_LIMIT = 64 << 10
_NAME = re.compile(r"([1-9][0-9]{0,9})(-[0-9a-f]{8})?\.json\Z")


class Registered(Struct, frozen=True, kw_only=True):
    """What one record of a registry says, in our words."""

    pid: int
    session_id: str
    started_at: float
    """Epoch seconds."""
    start_ticks: int
    boot_id: str | None
    pid_ns: int | None
    work_dir: str
    version: str | None
    activity: str | None = None


def list_registered(
    home: Home, directory: str, read: Callable[[bytes], Registered | str]
) -> Iterator[Claim | BadClaim]:
    """A claim for each record in a directory of the home. `read` decodes one, or says what is wrong with it.

    A name `<pid>-<8 hex>.json` is for one of several sessions that the process serves.
    """
    place = os.path.join(home.path, directory)
    on_network = is_on_network(home.path)
    try:
        # Any other name is a temporary file of a writer that was interrupted.
        names = sorted(name for name in os.listdir(place) if name.endswith(".json"))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path = os.path.join(place, name)
        found = _read(path, name, read)
        if isinstance(found, str):
            yield BadClaim(kind=ClaimKind.REGISTRY, provider=home.provider, home=home.path, path=path, reason=found)
        elif found is not None:
            said, owner_uid = found
            yield Claim(
                kind=ClaimKind.REGISTRY,
                provider=home.provider,
                home=home.path,
                scope=None,
                session_id=said.session_id,
                path=path,
                pid=said.pid,
                written_at=said.started_at,
                boot_id=said.boot_id,
                pid_ns=said.pid_ns,
                start_ticks=said.start_ticks,
                owner_uid=owner_uid,
                on_network_fs=on_network,
                work_dir=said.work_dir,
                version=said.version,
                activity=said.activity,
                many="-" in name,
            )


def _read(path: str, name: str, read: Callable[[bytes], Registered | str]) -> tuple[Registered, int] | str | None:
    """What a record says, and who owns it; or what is wrong with it. None when it is gone."""
    named = _NAME.match(name)
    if named is None:
        return "its name is not a process id"
    content = read_regular(path, _LIMIT)
    if isinstance(content, Unreadable):
        # A clean quit removes the record at any moment, also between our listing and our reading.
        return None if content.code == "io:ENOENT" else content.reason
    try:
        said = read(content.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The decoder's message is dropped: it may quote what it read, and records hold secrets.
        return "not a record that this registry has"
    if isinstance(said, str):
        return said
    if said.pid != int(named[1]):
        return f"its name says pid {named[1]}, its content pid {said.pid}"
    return said, content.stat.st_uid
