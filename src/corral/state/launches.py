"""Launch records: which process corral turned into which session, written and fsynced before the agent starts.

One file per process, so that nothing is lost when corral dies at any instant. The same place keeps the copies of
files that a CLI is known to destroy, and the locks that keep two starts apart.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

import msgspec
from msgspec import Struct, structs

from corral.model.key import SessionKey
from corral.model.process import ProcessIdentity
from corral.state.locks import sweep_locks, take_lock
from corral.state.private_file import read_record, write_record

_COPIES_KEPT = 3
_FORGET_AFTER_SECONDS = 30 * 86_400.0


class KeptCopy(Struct, frozen=True, kw_only=True):
    """A copy of a file made before the CLI was started on it."""

    original: str
    copy: str
    size_bytes: int
    sha256: str


class Launch(Struct, frozen=True, kw_only=True):
    """corral became this process, and that process was started on this session."""

    schema: int = 1
    path: str = ""
    """Where it was read; empty while it is being written."""
    key: SessionKey
    identity: tuple[str, int, int, int]
    launched_at: float
    argv: tuple[str, ...]
    cwd: str
    copies: tuple[KeptCopy, ...] = ()
    silence: str | None = None
    """Why the provider, as it was started, was not expected to name this session; None while its report is expected."""
    problem: str | None = None
    """What was found wrong after the start, in words; None while nothing was."""
    confirmed: bool = False
    """The provider named this session for this process."""

    @property
    def process(self) -> ProcessIdentity:
        return ProcessIdentity(*self.identity)


_decode = msgspec.json.Decoder(Launch).decode


class Launches:
    """The launch records below one state directory."""

    def __init__(self, state_dir: str) -> None:
        self._state_dir = state_dir
        self._directory = os.path.join(state_dir, "launches")
        self._locks = os.path.join(state_dir, "locks")

    def write(self, launch: Launch) -> None:
        """Raises OSError when it can't be made durable: then nothing must be started."""
        write_record(self._directory, os.path.basename(self._path(launch.process)), launch)

    def read_all(self) -> list[Launch]:
        """Every record that can be read; the others are no evidence."""
        try:
            names = sorted(os.listdir(self._directory))
        except OSError:
            return []
        paths = [os.path.join(self._directory, name) for name in names if name.endswith(".json")]
        read = ((path, read_record(path, _decode)) for path in paths)
        return [structs.replace(one, path=path) for path, one in read if isinstance(one, Launch)]

    def sweep(self, now: float) -> None:
        """Forget what is a month old and had no problem, and locks that nobody has wanted since."""
        sweep_locks(self._locks, now - _FORGET_AFTER_SECONDS)
        for launch in self.read_all():
            if launch.problem is None and launch.launched_at < now - _FORGET_AFTER_SECONDS:
                with suppress(OSError):
                    os.unlink(self._path(launch.process))

    def keep_copy(self, key: SessionKey, path: str) -> KeptCopy:
        """A durable copy of a session's file, 0600; the newest few of each file are kept. Raises OSError."""
        directory = os.path.join(self._state_dir, "copies", key.provider, _digest(key))
        os.makedirs(directory, mode=0o700, exist_ok=True)
        name = os.path.basename(path)
        copy = os.path.join(directory, f"{time.time_ns()}-{name}")
        import hashlib

        hasher = hashlib.sha256()
        size = 0
        with (
            open(path, "rb") as source,
            open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target,
        ):
            while part := source.read(1 << 20):
                hasher.update(part)
                size += len(part)
                target.write(part)
            target.flush()
            os.fsync(target.fileno())
        copies = [one for one in os.listdir(directory) if one.partition("-")[2] == name]
        for old in sorted(copies)[:-_COPIES_KEPT]:
            with suppress(OSError):
                os.unlink(os.path.join(directory, old))
        return KeptCopy(original=path, copy=copy, size_bytes=size, sha256=hasher.hexdigest())

    def lock_session(self, key: SessionKey) -> int | None:
        """One start per session at a time."""
        return take_lock(self._locks, f"session-{_digest(key)}")

    def lock_home(self, key: SessionKey, wait_seconds: float) -> int | None:
        """One start per home at a time, for a CLI whose own registry is not safe."""
        name = _hash(f"{key.provider}\0{os.path.realpath(key.home)}")
        return take_lock(self._locks, f"home-{name}", wait_seconds=wait_seconds)

    def _path(self, identity: ProcessIdentity) -> str:
        return os.path.join(self._directory, f"{identity.pid}-{identity.start_ticks}.json")


def _digest(key: SessionKey) -> str:
    text = "\0".join((key.provider, os.path.realpath(key.home), key.scope, key.session_id))
    return _hash(text)


def _hash(text: str) -> str:
    import hashlib  # a tenth of a listing's time, which needs none of this

    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


def find_damage(launch: Launch) -> str | None:
    """What became of the copied files: a sentence when the CLI did not keep what was there, else None."""
    import hashlib

    for kept in launch.copies:
        try:
            with open(kept.original, "rb") as file:
                hasher = hashlib.sha256()
                left = kept.size_bytes
                while left and (part := file.read(min(left, 1 << 20))):
                    hasher.update(part)
                    left -= len(part)
        except OSError as error:
            return f"{kept.original} is gone after the resume ({error.strerror}); a copy is at {kept.copy}"
        if left or hasher.hexdigest() != kept.sha256:
            return f"{kept.original} no longer begins with the earlier conversation; a copy of that is at {kept.copy}"
    return None
