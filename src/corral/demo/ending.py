"""How a demonstration goes away: every process of it, by its verified identity, then its directory."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

from corral.demo.place import PREFIX, Place
from corral.errors import CorralError
from corral.machine.places import DEMO_VARIABLE
from corral.machine.probe import send_signal
from corral.machine.processes import ProcessTable
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import own_identity, read_identity
from corral.tabs import kill_process
from corral.terminals import list_terminals

_ROUNDS = 10
_GONE_SECONDS = 10.0
_UNOWNED_SECONDS = 60.0
"""A directory without an owner this long was left in the moment of its making."""


def end_place(place: Place, *, keep: bool = False) -> bool:
    """End all that runs in it, then delete it. False: another has done so, and perhaps kept the directory.

    Raises CorralError, and then the directory is still there.
    """
    with _turn_in(place):
        owner = place.read_owner()
        if owner is None or owner.kept:
            return False
        end_processes(place)
        if keep:
            place.write_owner(kept=True)
        else:
            remove(place)
    return True


def end_processes(place: Place) -> None:
    """Those that have its mark, and those that its terminals have on record; again, until there are none."""
    for _ in range(_ROUNDS):
        found = [*_list_marked(place)]
        held = [one for one in list_terminals(place.terminals) if one.holder is not None and _lives(one.holder)]
        for identity in found:
            _end(identity)
        for terminal in held:
            _end(terminal.child)
            if terminal.holder is not None:
                _cut_off(terminal.holder)
        if not found and not held:
            return
    raise CorralError(f"processes of {place.root} were started faster than they could be ended", hint="try again")


def remove(place: Place) -> None:
    try:
        shutil.rmtree(place.root)
    except OSError as error:
        if os.path.lexists(place.root):  # else another demo was quicker
            raise CorralError(f"{error.filename or place.root} could not be deleted: {error.strerror}") from error


class Swept(Struct, frozen=True, kw_only=True):
    """What was left of a demonstration that was killed, and what became of it."""

    root: str
    problem: str | None = None
    """Why something of it is still there."""


def sweep_leftovers() -> list[Swept]:
    """End and delete what demonstrations left whose owner was killed.

    Only directories of our own with a record of who made them, and only where that process is proven gone.
    """
    swept: list[Swept] = []
    for place in _list_places():
        owner = place.read_owner()
        if owner is None:
            _drop_unowned(place)
        elif not owner.kept and is_proven_gone(owner.identity):
            try:
                if end_place(place):
                    swept.append(Swept(root=place.root))
            except CorralError as error:
                swept.append(Swept(root=place.root, problem=error.message))
    return swept


def is_proven_gone(identity: ProcessIdentity) -> bool:
    """Another boot, or this PID namespace without it; what can't be seen from here is not proven."""
    own = own_identity()
    if own is None:
        return False
    if identity.boot_id != own.boot_id:
        return True
    return identity.pid_ns == own.pid_ns and not _lives(identity)


@contextmanager
def _turn_in(place: Place) -> Generator[None]:
    """One at a time clears a place up: its demonstration, the caretaker of that, or the next one."""
    import fcntl  # Linux alone has demonstrations

    try:
        fd = os.open(place.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # whoever has it needs seconds, and gives it back by dying, too
        yield
    finally:
        os.close(fd)


def _list_places() -> Iterator[Place]:
    parent = os.path.realpath(tempfile.gettempdir())
    for entry in os.scandir(parent):
        if not entry.name.startswith(PREFIX):
            continue
        with suppress(FileNotFoundError):  # it goes away at this very moment
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
                yield Place(entry.path)


def _drop_unowned(place: Place) -> None:
    try:
        if time.time() - os.lstat(place.root).st_mtime > _UNOWNED_SECONDS:
            os.rmdir(place.root)
    except OSError:
        pass  # there is something in it, so that it is none of ours, or it has gone


def _list_marked(place: Place) -> Iterator[ProcessIdentity]:
    """Processes that were started with the name of this directory, which nobody else knows, in their environment."""
    for process in ProcessTable():
        if process.pid == os.getpid() or process.environ.get(DEMO_VARIABLE) != place.root:
            continue
        if _lives(process.identity):
            yield process.identity


def _lives(identity: ProcessIdentity) -> bool:
    return read_identity(identity.pid) == identity


def _end(identity: ProcessIdentity) -> None:
    if not _lives(identity):
        return
    try:
        kill_process(identity, lambda text: None)
    except CorralError:
        if _lives(identity):
            raise


def _cut_off(holder: ProcessIdentity) -> None:
    """It heeds no hang-up, and has nothing to keep once its directory is to be deleted."""
    send_signal(holder, signal.SIGKILL)
    deadline = time.monotonic() + _GONE_SECONDS
    while _lives(holder):
        if time.monotonic() > deadline:
            raise CorralError(f"pid {holder.pid} did not end, even after SIGKILL: it is stuck in the kernel")
        time.sleep(0.005)
