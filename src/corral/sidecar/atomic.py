"""Replacing a small file: readers, crashes and full disks leave old bytes or new ones, nothing else."""

from __future__ import annotations

import binascii
import errno
import os
import time

from corral.sidecar import processes
from corral.sidecar.files import close_quietly
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.light import NamedTuple
from corral.sidecar.processes import Platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _T = TypeVar("_T")

_CREATE = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_RETRY_DELAYS = (0.01, 0.02, 0.04)
"""Seconds. Windows refuses to rename over a file that a virus scanner or an indexer has open just now."""
_LOCK_DELAYS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.1)
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF}
_NO_DIR_FSYNC = {errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.EOPNOTSUPP}

_HEX = "0123456789abcdef"

_in_flight: set[str] = set()


class Directory:
    """An open directory: names are resolved beneath it, even if it is moved or replaced meanwhile."""

    def __init__(self, path: str) -> None:
        """Raises OSError when there is no such directory."""
        self.path = path
        self.fd: int | None = None
        if os.open in os.supports_dir_fd:
            self.fd = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
        elif not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        self._locked = False

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.fd is None:
            return
        if self._locked:
            # A child forked meanwhile shares the lock, so that closing would not be enough.
            self._flock("LOCK_UN")
        close_quietly(self.fd)

    def name(self, name: str) -> str:
        """What to pass beside `dir_fd=self.fd`."""
        return name if self.fd is not None else f"{self.path}{os.sep}{name}"

    def lock(self) -> bool:
        """Keep other writers out until the directory is closed. False: one of them is stuck in there."""
        if self.fd is None:
            return True
        for delay in (*_LOCK_DELAYS, None):
            problem = self._flock("LOCK_EX", "LOCK_NB")
            if problem is None:
                self._locked = True
                return True
            if problem in _NO_LOCKS:
                return True  # this filesystem has no locks: the check before the rename is all there is
            if delay is not None:
                time.sleep(delay)
        return False

    def _flock(self, *operations: str) -> int | None:
        try:
            import fcntl
        except ImportError:
            return errno.ENOSYS
        try:
            fcntl.flock(self.fd or 0, sum(getattr(fcntl, operation) for operation in operations))
        except OSError as error:
            return error.errno or errno.EIO
        return None


def replace(directory: Directory, name: str, data: bytes, writer: ProcessIdentity | None) -> None:
    """Make `name` hold exactly `data`, durably; `writer` is the process that calls.

    Raises OSError; then the old content is still there, unless only the last step, making the new name durable,
    has failed.
    """
    temp = temp_name(name, writer)
    _in_flight.add(temp)
    try:
        _write_new(directory, temp, data)
        try:
            _retry(lambda: _rename(directory, temp, name))
        except BaseException:
            _remove_quietly(directory, temp)
            raise
    finally:
        _in_flight.discard(temp)
    sync(directory)


def remove(directory: Directory, name: str) -> None:
    """Unlink `name`, durably. Raises OSError."""
    _retry(lambda: os.unlink(directory.name(name), dir_fd=directory.fd))
    sync(directory)


def sync(directory: Directory) -> None:
    """Make names durable, where the filesystem can."""
    if directory.fd is None:
        return
    try:
        os.fsync(directory.fd)
    except OSError as error:
        if error.errno not in _NO_DIR_FSYNC:
            raise


def _rename(directory: Directory, source: str, target: str) -> None:
    os.replace(directory.name(source), directory.name(target), src_dir_fd=directory.fd, dst_dir_fd=directory.fd)


def _write_new(directory: Directory, name: str, data: bytes) -> None:
    fd = os.open(directory.name(name), _CREATE, 0o600, dir_fd=directory.fd)
    try:
        try:
            _write_all(fd, data)
            if os.fstat(fd).st_size != len(data):
                raise OSError(errno.EIO, "the file is not as long as what was written")
            os.fsync(fd)
        except BaseException:
            close_quietly(fd)
            raise
        _close(fd)
    except BaseException:
        _remove_quietly(directory, name)
        raise


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = os.write(fd, rest)
        if written <= 0:
            raise OSError(errno.EIO, "write made no progress")
        rest = rest[written:]


def _close(fd: int) -> None:
    """A full quota or a lost server may show only here, so the error counts."""
    try:
        os.close(fd)
    except InterruptedError:
        pass  # the descriptor is gone, and the bytes were synced before


def _retry(action: Callable[[], _T]) -> _T:
    for delay in _RETRY_DELAYS:
        try:
            return action()
        except (PermissionError, InterruptedError):
            time.sleep(delay)
    return action()


def _remove_quietly(directory: Directory, name: str) -> None:
    try:
        _retry(lambda: os.unlink(directory.name(name), dir_fd=directory.fd))
    except OSError:
        pass  # the next writer sweeps it, once this process is gone


class TempOwner(NamedTuple):
    """Who made a temp, as its name says: `.<name>.<host>-<boot>-<namespace>-<pid>-<start>.<random>.tmp`.

    With that a later writer can prove that the process that left it is dead. Hosts are distinguished by a checksum of
    their name.
    """

    host: str
    boot: str
    pid_ns: int
    pid: int
    start_ticks: int


def parse_temp(entry: str, name: str) -> TempOwner | None:
    """None for an entry that is no temp of `name` made by us."""
    prefix, suffix = f".{name}.", ".tmp"
    if not (entry.startswith(prefix) and entry.endswith(suffix)):
        return None
    owner, _, random = entry[len(prefix) : -len(suffix)].partition(".")
    fields = owner.split("-")
    if len(random) != 16 or random.strip(_HEX) or len(fields) != 5 or len(fields[0]) != 8 or fields[0].strip(_HEX):
        return None
    numbers = fields[2:]
    if not all(number.isascii() and number.isdigit() and len(number) <= 20 for number in numbers):
        return None
    return TempOwner(fields[0], fields[1], int(numbers[0]), int(numbers[1]), int(numbers[2]))


def temp_name(name: str, writer: ProcessIdentity | None) -> str:
    """A name that nobody can guess and that says who made it."""
    random = os.urandom(8).hex()
    if writer is None:
        return f".{name}.{os.getpid()}.{random}.tmp"
    boot = writer.boot_id.replace("-", "")
    return f".{name}.{_host()}-{boot}-{writer.pid_ns}-{writer.pid}-{writer.start_ticks}.{random}.tmp"


def sweep(directory: Directory, name: str, platform: Platform | None = None) -> list[str]:
    """Remove temps of `name` whose writer is proven dead, and return their names. Never raises OSError."""
    try:
        entries = os.listdir(directory.path if directory.fd is None else directory.fd)
    except OSError:
        return []
    swept: list[str] = []
    for entry in entries:
        owner = parse_temp(entry, name)
        if owner is None:
            continue
        try:
            if _is_dead(directory, entry, owner, platform or processes.find_platform()):
                os.unlink(directory.name(entry), dir_fd=directory.fd)
                swept.append(entry)
        except OSError:
            continue
    return swept


def _is_dead(directory: Directory, entry: str, owner: TempOwner, platform: Platform) -> bool:
    own = processes.own_identity(platform)
    if own is None or owner.host != _host():
        return False
    if owner.boot != own.boot_id.replace("-", ""):
        return _is_older_than_boot(directory, entry, platform)
    if owner.pid_ns != own.pid_ns or owner.pid < 1:
        return False
    if (owner.pid, owner.start_ticks) == (own.pid, own.start_ticks):
        return entry not in _in_flight  # left by a failure earlier in our own life
    look = platform.look(owner.pid)
    if look.state in (processes.GONE, processes.ZOMBIE, processes.THREAD):
        return True
    return look.identity is not None and look.identity.start_ticks != owner.start_ticks


def _is_older_than_boot(directory: Directory, entry: str, platform: Platform) -> bool:
    """Another boot of a host called like ours: surely ours only when the file is older than this boot."""
    booted_at = platform.booted_at()
    if booted_at is None:
        return False
    try:
        status = os.stat(directory.name(entry), dir_fd=directory.fd, follow_symlinks=False)
    except OSError:
        return False
    return status.st_mtime < booted_at - 2.0


def _host() -> str:
    return f"{binascii.crc32(processes.hostname().casefold().encode('utf-8', 'replace')):08x}"
