"""The runtime.json of one session directory: read it, put our record there, take our record away."""

from __future__ import annotations

import os
import time

from corral.sidecar import atomic, liveness, processes
from corral.sidecar.atomic import Directory
from corral.sidecar.files import Unreadable, errno_code, read_regular
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.light_typing import NamedTuple
from corral.sidecar.liveness import Verdict
from corral.sidecar.record import MAX_BYTES, MAX_WORD, Refusal, RuntimeRecord, encode, parse

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
    """The process a record is written for. `identity` is None where the platform can't tell."""

    pid: int
    identity: ProcessIdentity | None


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


def find_holder(process: ProcessIdentity | int | None) -> Holder | Refusal:
    """Whom to write for: the given process, or this one. A bare PID is looked up here and now."""
    if process is None:
        process = os.getpid()
    if isinstance(process, ProcessIdentity):
        return Holder(process.pid, process)
    identity = processes.read_identity(process)
    if identity is None and process != os.getpid():
        return Refusal("no-such-process", f"There is no process {process} whose identity can be read.")
    return Holder(process, identity)


def put(session_dir: str, record: RuntimeRecord, holder: Holder) -> Refusal | None:
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


def refuse_error(error: OSError, path: str) -> Refusal:
    """An OS error as a refusal."""
    return Refusal(errno_code(error), f"{path}: {error.strerror or error}.")


def _read_once(path: str, dir_fd: int | None) -> SidecarFile:
    content = read_regular(path, MAX_BYTES, dir_fd)
    if isinstance(content, Unreadable):
        return SidecarFile(Refusal(content.code, f"{path} can't be read: {content.reason}."))
    return SidecarFile(parse(content.data), content.stat)


def _refuse_to_replace(directory: Directory, holder: Holder) -> Refusal | None:
    record = read_file(directory.name(NAME), directory.fd).record
    if isinstance(record, Refusal):
        # A torn file tells nothing and would stay for ever. Anything else is somebody's: a later schema,
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
