"""The runtime.json of one session directory: read it, judge it, write our record there, clear it again."""

# ruff: noqa: F811 - it knows only typing's own overload

from __future__ import annotations

import os
import time

from corral.sidecar import atomic, liveness, processes
from corral.sidecar.atomic import Directory
from corral.sidecar.files import Unreadable, errno_code, read_regular
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.light import NamedTuple, overload
from corral.sidecar.liveness import Verdict
from corral.sidecar.record import MAX_BYTES, MAX_WORD, Refusal, RuntimeRecord, encode, is_valid_cli, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal, TypeVar

    _T = TypeVar("_T")

NAME = "runtime.json"
RETRY_DELAY = 0.05
"""Seconds. A writer that does not replace atomically may be half-way; it gets one chance to finish."""

NOT_FOUND = "io:ENOENT"
_NETWORK = frozenset(
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs"]
)
_GENERIC = frozenset(
    [
        "localhost",
        "vm",
        "ubuntu",
        "debian",
        "fedora",
        "raspberrypi",
        "kali",
        "archlinux",
        "dev",
        "devcontainer",
    ]
)


class SidecarFile(NamedTuple):
    """What a runtime.json says, and what the descriptor it was read from said of the file."""

    record: RuntimeRecord | Refusal
    stat: os.stat_result | None = None


class Holder(NamedTuple):
    """The process a record is written for. `identity` is None where the platform does not say."""

    pid: int
    identity: ProcessIdentity | None


class SidecarError(Exception):
    """A runtime.json was not written or cleared; `refusal` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.reason} [{refusal.code}]")
        self.refusal = refusal


def read_file(path: str, dir_fd: int | None = None) -> SidecarFile:
    """Read one runtime.json strictly. Never raises, never blocks, never changes anything."""
    found = _read_once(path, dir_fd)
    if isinstance(found.record, Refusal) and found.record.code == "malformed":
        time.sleep(RETRY_DELAY)
        found = _read_once(path, dir_fd)
    return found


def identify_directory(path: str) -> tuple[int, int] | None:
    """Device and inode of a directory; None when it can't be read, or the platform has no such numbers."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if 0 < status.st_ino < MAX_WORD > status.st_dev else None


def judge_file(path: str) -> Verdict | Refusal:
    """Is the process that this file names alive? A refusal when the file is no record."""
    record = read_file(path).record
    if isinstance(record, Refusal):
        return record
    return _judge(record, os.path.dirname(path) or os.curdir)


@overload
def write(
    session_dir: str | os.PathLike[str],
    *,
    session_id: str,
    work_dir: str,
    cli: str,
    version: str,
    provider: str | None = None,
    process: ProcessIdentity | int | None = None,
    reported_by: str | None = None,
    best_effort: Literal[False] = False,
) -> RuntimeRecord: ...
@overload
def write(
    session_dir: str | os.PathLike[str],
    *,
    session_id: str,
    work_dir: str,
    cli: str,
    version: str,
    provider: str | None = None,
    process: ProcessIdentity | int | None = None,
    reported_by: str | None = None,
    best_effort: bool,
) -> RuntimeRecord | Refusal: ...
def write(
    session_dir: str | os.PathLike[str],
    *,
    session_id: str,
    work_dir: str,
    cli: str,
    version: str,
    provider: str | None = None,
    process: ProcessIdentity | int | None = None,
    reported_by: str | None = None,
    best_effort: bool = False,
) -> RuntimeRecord | Refusal:
    """Write `<session_dir>/runtime.json`: this process, or `process`, serves the session from now on.

    The file of another process that is alive, or not proven dead, is left alone (`held:…`). The session
    directory must exist. `cli` names the program: `kimi-cli` gives the field `kimi_cli_version`. Undecodable
    bytes in `work_dir` become U+FFFD. `reported_by` says who writes in the name of the process. With `best_effort`,
    every problem is returned as a Refusal; without, it is raised as SidecarError.
    """
    directory = os.fspath(session_dir)

    def attempt() -> RuntimeRecord | Refusal:
        if not is_valid_cli(cli):
            return Refusal("invalid:cli", "The name of the CLI must be lower-case letters, digits, '-' and '_'.")
        holder = _find_holder(process)
        if isinstance(holder, Refusal):
            return holder
        identity, directory_id = holder.identity, identify_directory(directory)
        record = RuntimeRecord(
            pid=holder.pid,
            session_id=session_id,
            work_dir=os.fsencode(work_dir).decode("utf-8", "replace"),
            hostname=processes.hostname(),
            started_at=time.time(),
            cli=cli.replace("-", "_"),
            version=version,
            provider=provider,
            boot_id=(identity.boot_id or None) if identity else None,
            start_ticks=identity.start_ticks if identity else None,
            pid_ns=identity.pid_ns if identity else None,
            dir_device=directory_id[0] if directory_id else None,
            dir_inode=directory_id[1] if directory_id else None,
            reported_by=reported_by,
        )
        return _put(directory, record, holder) or record

    result = _refuse_errors(attempt, directory)
    if isinstance(result, Refusal) and not best_effort:
        raise SidecarError(result)
    return result


@overload
def clear(
    path: str | os.PathLike[str],
    *,
    process: ProcessIdentity | int | None = None,
    best_effort: Literal[False] = False,
) -> None: ...
@overload
def clear(
    path: str | os.PathLike[str],
    *,
    process: ProcessIdentity | int | None = None,
    best_effort: bool,
    unverified: bool = False,
) -> Refusal | None: ...
def clear(
    path: str | os.PathLike[str],
    *,
    process: ProcessIdentity | int | None = None,
    best_effort: bool = False,
    unverified: bool = False,
) -> Refusal | None:
    """Remove a runtime.json (or the one in a session directory) that names this process, or `process`.

    Anybody else's file stays: `not-ours`, or the reader's own refusal. A file that is gone already is no
    problem. With `best_effort`, a problem is returned; without, it is raised as SidecarError. `unverified` is a
    person's word that a process which can't be looked at from here (another host, a container) has ended; one
    that is seen to live keeps its file all the same.
    """
    file = os.fspath(path)
    if os.path.isdir(file):
        file = os.path.join(file, NAME)
    holder = _find_holder(process)
    if isinstance(holder, Refusal):
        holder = Holder(process if isinstance(process, int) else os.getpid(), None)  # it is gone: see _may_clear
    refusal = _refuse_errors(lambda: take_away(file, holder, unverified), file)
    if refusal is not None and refusal.code == NOT_FOUND:
        refusal = None
    if refusal is not None and not best_effort:
        raise SidecarError(refusal)
    return refusal


def _refuse_errors(act: Callable[[], _T], path: str) -> _T | Refusal:
    """What `act` returns; an error of the operating system becomes a refusal."""
    try:
        return act()
    except OSError as error:
        return Refusal(errno_code(error), f"{path}: {error.strerror or error}.")
    except ValueError:
        return Refusal("invalid:path", f"{path!r} is not a path.")


def _find_holder(process: ProcessIdentity | int | None) -> Holder | Refusal:
    """Whom to write for: the given process, or this one. A bare PID is looked up here and now."""
    if process is None:
        process = os.getpid()
    if isinstance(process, ProcessIdentity):
        return Holder(process.pid, process)
    identity = processes.read_identity(process)
    if identity is None and process != os.getpid():
        return Refusal("no-such-process", f"There is no process {process} whose identity can be read.")
    return Holder(process, identity)


def _put(session_dir: str, record: RuntimeRecord, holder: Holder) -> Refusal | None:
    """Write the record unless another process holds the file. Raises OSError."""
    data = encode(record)
    checked = parse(data)
    if isinstance(checked, Refusal):
        return checked
    with Directory(session_dir) as directory:
        if not directory.lock():
            return Refusal("busy", f"Another writer is stuck in {session_dir}.")
        atomic.sweep(directory, NAME)
        if (refusal := _refuse_to_replace(directory, holder)) is not None:
            return refusal
        writer = holder.identity if holder.pid == os.getpid() else processes.own_identity()
        atomic.replace(directory, NAME, data, writer)
    return None


def take_away(path: str, holder: Holder, unverified: bool = False) -> Refusal | None:
    """Remove the file if it names the holder. A file that is not there is no problem. Raises OSError."""
    parent, name = os.path.split(path)
    with Directory(parent or os.curdir) as directory:
        if not directory.lock():
            return Refusal("busy", f"Another writer is stuck in {parent or os.curdir}.")
        found = read_file(directory.name(name), directory.fd)
        if isinstance(found.record, Refusal):
            return None if found.record.code == NOT_FOUND else found.record
        verdict = _judge(found.record, directory.path)
        if not _may_clear(found.record, verdict, holder, unverified):
            if verdict.liveness == liveness.STALE or found.record.pid != holder.pid:
                return Refusal("not-ours", f"{path} names another process, {found.record.pid}.")
            return Refusal("not-ours", f"{path} names process {found.record.pid}. {verdict.reason}")
        # Writers that know no lock may have replaced it since: what goes must be what was judged.
        again = _read_once(directory.name(name), directory.fd)
        if again.record != found.record or not _same_file(again.stat, found.stat):
            return Refusal("changed", f"{path} was replaced while it was to be cleared.")
        atomic.remove(directory, name)
    return None


def _read_once(path: str, dir_fd: int | None) -> SidecarFile:
    content = read_regular(path, MAX_BYTES, dir_fd)
    if isinstance(content, Unreadable):
        return SidecarFile(Refusal(content.code, f"{path} can't be read: {content.reason}."))
    return SidecarFile(parse(content.data), content.stat)


def _refuse_to_replace(directory: Directory, holder: Holder) -> Refusal | None:
    record = read_file(directory.name(NAME), directory.fd).record
    if isinstance(record, Refusal):
        # A torn file says nothing and would stay for ever. Anything else belongs to somebody: a later schema,
        # a stranger's file of the same name, something that is no file.
        return None if record.code in (NOT_FOUND, "malformed") else record
    if record.directory_id not in (None, identify_directory(directory.path)):
        return None  # it came with a copy: its process serves the session that was copied
    verdict = _judge(record, directory.path)
    if verdict.liveness == liveness.STALE or _is_held_by(record, verdict, holder):
        return None
    return Refusal(f"held:{verdict.liveness}", f"Process {record.pid} holds {NAME}. {verdict.reason}")


def _judge(record: RuntimeRecord, directory: str) -> Verdict:
    verdict = liveness.judge(record)
    if verdict.liveness == liveness.STALE and could_be_another(record.hostname, directory):
        reason = f"Another machine called {record.hostname} may run it."
        return Verdict(liveness.UNKNOWN, "shared-home", reason)
    return verdict


def _is_held_by(record: RuntimeRecord, verdict: Verdict, holder: Holder) -> bool:
    is_live = verdict.liveness == liveness.LIVE
    return is_live and record.pid == holder.pid and verdict.identity == holder.identity


def _may_clear(record: RuntimeRecord, verdict: Verdict, holder: Holder, unverified: bool) -> bool:
    if _is_held_by(record, verdict, holder):
        return True
    if unverified and record.pid == holder.pid and verdict.liveness != liveness.LIVE:
        return True
    if verdict.liveness != liveness.STALE or record.pid != holder.pid:
        return False
    # It died: its file may go in its name, but not in the name of a later process with the same PID.
    return holder.identity is None or record.identity == holder.identity


def _same_file(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    if one is None or other is None:
        return False
    return (one.st_dev, one.st_ino, one.st_mtime_ns) == (other.st_dev, other.st_ino, other.st_mtime_ns)


def could_be_another(hostname: str, directory: str, mountinfo: str = "/proc/self/mountinfo") -> bool:
    """True when a record with our own hostname may still come from another machine."""
    name = hostname.casefold().rstrip(".")
    if name not in _GENERIC and not name.endswith((".local", ".localdomain")):
        return False
    return _is_network(directory, mountinfo)


def _is_network(directory: str, mountinfo: str) -> bool:
    try:
        device = os.stat(directory).st_dev
        with open(mountinfo, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    for line in lines:
        # man 5 proc: id, parent, major:minor, root, mount point, options, more options, "-", type, source, …
        fields, _, rest = line.partition(b" - ")
        if fields.split(b" ")[2:3] == [wanted]:
            kind = rest.split(b" ")[0].decode("ascii", "replace")
            return kind in _NETWORK or kind.startswith("fuse.")
    return False
