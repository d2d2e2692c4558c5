"""A configuration file that belongs to somebody else: read, and replaced only if nobody else changed it."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from corral.hooks.edit import ConfigUnreadable
from corral.sidecar.files import FileBytes, open_regular, read_regular

MAX_BYTES = 4 << 20
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_MOST_LINKS = 40


class Snapshot(Struct, frozen=True):
    """A file as it was at one moment; `data` is None when there was none."""

    path: str
    """The file itself, behind every link: a dotfile that is a link stays one."""
    data: bytes | None
    device: int = 0
    inode: int = 0
    modified_ns: int = 0
    mode: int = 0o600
    owner: tuple[int, int] | None = None
    changed_at: float | None = None
    """ctime of the file, or of a link that leads to it, in epoch seconds."""

    @property
    def digest(self) -> str | None:
        return digest_of(self.data) if self.data is not None else None


class Changed(Exception):
    """Somebody else wrote the file while we worked on it."""


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_snapshot(path: str) -> Snapshot:
    """The file behind `path`. Raises ConfigUnreadable for what is neither a regular file nor absent."""
    real = os.path.realpath(path)
    found = read_regular(real, MAX_BYTES)
    if not isinstance(found, FileBytes):
        if found.code == "io:ENOENT":
            return Snapshot(real, None)
        raise ConfigUnreadable(f"can't be read: {found.reason}")
    status = found.stat
    return Snapshot(
        real,
        found.data,
        status.st_dev,
        status.st_ino,
        status.st_mtime_ns,
        status.st_mode & 0o7777,
        (status.st_uid, status.st_gid),
        max(status.st_ctime, last_change(path) or 0.0),
    )


def last_change(path: str) -> float | None:
    """The latest ctime of the file and of every link that leads to it, in epoch seconds; None when there is none.

    A link that was made to lead elsewhere is younger than the file that it leads to now. What became of the
    directories above is not looked at.
    """
    found: list[float] = []
    for _ in range(_MOST_LINKS):
        try:
            status = os.lstat(path)
            found.append(status.st_ctime)
            if not stat.S_ISLNK(status.st_mode):
                return max(found)
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except (OSError, ValueError):
            return None
    return None


def replace(before: Snapshot, data: bytes) -> None:
    """Replace the file as it was in `before` by `data`. Raises Changed or OSError."""
    target = Path(before.path)
    temp = target.with_name(f".{target.name}.corral-{os.getpid()}-{secrets.token_hex(6)}.tmp")
    try:
        _write(temp, data, before)
        if not _is_unchanged(before):
            raise Changed
        if before.data is None:
            os.link(temp, target)  # fails if somebody made one meanwhile
        elif _exchange(temp, target):
            if not _is_unchanged(before, str(temp)):
                _put_back(temp, target, data)
                raise Changed
        else:
            temp.replace(target)
        _sync_directory(target.parent)
    except FileExistsError as error:
        raise Changed from error
    finally:
        temp.unlink(missing_ok=True)


def remove(before: Snapshot) -> None:
    """Delete the file as it was in `before`. Raises Changed."""
    if not _is_unchanged(before):
        raise Changed
    Path(before.path).unlink()
    _sync_directory(Path(before.path).parent)


def write_private(path: Path, data: bytes, announce: Callable[[os.stat_result], None] | None = None) -> None:
    """A file of our own, 0600 in a directory 0700, whole or not at all. `announce` gets the stat of what comes."""
    for directory in reversed(path.parents):
        if not directory.is_dir():
            directory.mkdir(mode=0o700, exist_ok=True)
    temp = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(6)}.tmp")
    try:
        _write(temp, data, None)
        if announce is not None:
            announce(os.stat(temp))
        temp.replace(path)
        _sync_directory(path.parent)
    finally:
        temp.unlink(missing_ok=True)


def _write(path: Path, data: bytes, like: Snapshot | None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        if like is not None and like.owner is not None:
            if like.owner != (os.geteuid(), os.getegid()):
                os.fchown(fd, *like.owner)
            os.fchmod(fd, like.mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_unchanged(before: Snapshot, path: str | None = None) -> bool:
    fd = open_regular(path or before.path)
    if not isinstance(fd, int):
        return before.data is None and fd.code == "io:ENOENT"
    os.close(fd)
    if before.data is None:
        return False
    found = read_regular(path or before.path, MAX_BYTES)
    if not isinstance(found, FileBytes):
        return False
    status = found.stat
    same_file = (status.st_dev, status.st_ino, status.st_mtime_ns)
    return same_file == (before.device, before.inode, before.modified_ns) and found.data == before.data


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two names at once; False where the system can't."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _put_back(taken: Path, target: Path, ours: bytes) -> None:
    """Put back a file that somebody wrote in the last moment, and any that came since."""
    for _ in range(100):
        _exchange(taken, target)
        found = read_regular(str(taken), MAX_BYTES)
        if isinstance(found, FileBytes) and found.data == ours:
            return


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(fd)
