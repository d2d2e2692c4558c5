"""What more than one reader needs of /proc/PID. What may not be read is None, never an exception."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
_WHOLE = 4096
_IN_PIECES = ("maps", "net/tcp", "net/tcp6")
"""The kernel gives these in pieces of any size: a short piece is not the last."""
_KERNEL_THREAD = 0x00200000
_FORKED_WITHOUT_EXEC = 0x00000040
_NS_PIDS = re.compile(rb"^NSpid:\t([\d\t]+)$", re.MULTILINE)
_DESCRIPTOR = re.compile(rb"pos:\t(\d+)\nflags:\t([0-7]+)\n")
_THREAD_GROUP = re.compile(rb"^Tgid:\t(\d+)$", re.MULTILINE)


class Stat(NamedTuple):
    """What we use of /proc/PID/stat."""

    comm: bytes
    state: str
    parent_pid: int
    terminal_number: int
    is_kernel: bool
    is_copy: bool
    """Forked and not (yet) another program: it looks like its parent."""
    start_ticks: int


class Account(NamedTuple):
    """What else /proc/PID/stat says: the groups a process is in, and what it uses."""

    stat: Stat
    group: int
    kernel_session: int
    cpu_ticks: int
    """Its own, and those of the children that it has waited for (and of theirs)."""
    resident_pages: int


class Descriptor(NamedTuple):
    """What /proc/PID/fdinfo says of an open file."""

    position: int
    flags: int
    """As `open` takes them: os.O_APPEND and so on."""


def parse_stat(line: bytes) -> Stat:
    """Raises ValueError or IndexError for what is not a stat line (an emptied file of a process that ended)."""
    # comm may contain anything, ")" and spaces included: fields are counted after the last parenthesis.
    close = line.rindex(b")")
    fields = line[close + 2 :].split(None, 20)
    return Stat(
        line[line.index(b"(") + 1 : close],
        chr(fields[0][0]),
        int(fields[1]),
        int(fields[4]),
        int(fields[6]) & _KERNEL_THREAD != 0,
        int(fields[6]) & _FORKED_WITHOUT_EXEC != 0,
        int(fields[19]),
    )


def parse_account(line: bytes) -> Account:
    """As above. Separate, since `corral ps` reads many lines and needs none of this."""
    stat = parse_stat(line)
    fields = line[line.rindex(b")") + 2 :].split(None, 22)
    return Account(stat, int(fields[2]), int(fields[3]), sum(map(int, fields[11:15])), int(fields[21]))


def read_bytes(pid: int | str, name: str, limit: int = 1 << 22) -> bytes | None:
    """A file of /proc/PID, or None when it is gone or not for us."""
    try:
        fd = os.open(f"/proc/{pid}/{name}", _READ)
        try:
            data = os.read(fd, _WHOLE)
            if len(data) < _WHOLE and name not in _IN_PIECES:
                return data
            parts = [data]
            while data and limit > 0:
                data = os.read(fd, 1 << 16)
                parts.append(data)
                limit -= len(data)
            return b"".join(parts)
        finally:
            os.close(fd)
    except OSError:
        return None


def read_descriptor(pid: int, number: int) -> Descriptor | None:
    """How a process has a file open, or None when it may not be read."""
    match = _DESCRIPTOR.match(read_bytes(pid, f"fdinfo/{number}") or b"")
    return Descriptor(int(match[1]), int(match[2], 8)) if match else None


def read_link(pid: int | str, name: str) -> str | None:
    """Where a link of /proc/PID leads (cwd, exe), or None when it may not be read."""
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return None


def has_ended(pid: int, start_ticks: int) -> bool:
    """Whether the process that began then has ended, or is a zombie."""
    stat = read_stat(pid)
    return stat is None or stat.start_ticks != start_ticks or stat.state in "ZX"


def read_stat(pid: int | str) -> Stat | None:
    """The stat line of a process or of a thread, or None when there is none."""
    line = read_bytes(pid, "stat")
    try:
        return parse_stat(line) if line else None
    except (ValueError, IndexError):
        return None


def read_account(pid: int | str) -> Account | None:
    """As above, with what only metering needs."""
    line = read_bytes(pid, "stat")
    try:
        return parse_account(line) if line else None
    except (ValueError, IndexError):
        return None


def read_namespace(pid: int | str, kind: str) -> int | None:
    """The inode of a namespace of a process, or None when it may not be read (another user's process)."""
    try:
        return os.stat(f"/proc/{pid}/ns/{kind}").st_ino
    except OSError:
        return None


def read_pid_namespace(pid: int) -> int | None:
    """As above for the PID namespace, and also for other users' processes that are in our own."""
    found = read_namespace(pid, "pid")
    return read_namespace("self", "pid") if found is None and len(read_ns_pids(pid)) == 1 else found


def read_ns_pids(pid: int) -> tuple[int, ...]:
    """Its numbers from our namespace to its own, outermost first; empty when they may not be read."""
    match = _NS_PIDS.search(read_bytes(pid, "status") or b"")
    return tuple(map(int, match[1].split())) if match else ()


def read_thread_group(pid: int) -> int | None:
    """The PID of the process that this number is a thread of; its own for a process."""
    match = _THREAD_GROUP.search(read_bytes(pid, "status") or b"")
    return int(match[1]) if match else None


def read_uid(pid: int) -> int | None:
    """The effective user of a process."""
    try:
        # The files in it belong to root when the process may not be dumped; the directory never does.
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def list_listening(pid: int | str) -> set[str]:
    """The inodes of all sockets in the network namespace of a process that wait for connections."""
    lines = (read_bytes(pid, "net/tcp") or b"") + (read_bytes(pid, "net/tcp6") or b"")
    fields = (line.split() for line in lines.splitlines())
    return {os.fsdecode(one[9]) for one in fields if len(one) > 9 and one[3] == b"0A"}


def list_pids() -> list[str]:
    """The names of all processes that /proc shows."""
    try:
        return [name for name in os.listdir("/proc") if name[0] in "123456789" and name.isdigit()]
    except OSError:
        return []


def is_ours() -> bool:
    """Whether /proc is mounted and counts PIDs as we do (after a bare `unshare --pid` it does not)."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False
