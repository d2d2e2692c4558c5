"""The throw-away directory of a demo: a HOME with one agent in it, its owner, and how all of it is removed.

`python -m corral.demo.place ROOT [--keep]` cleans up after a demo that was killed.
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import shutil
import signal
import site
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec
from msgspec import Struct

from corral.errors import CorralError
from corral.machine.places import DEMO_VARIABLE
from corral.machine.probe import send_signal
from corral.machine.processes import ProcessTable
from corral.sidecar.atomic import Directory, replace
from corral.sidecar.files import Unreadable, read_regular
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import own_identity, read_identity
from corral.state.bindings import identity_fields
from corral.tabs import kill_process
from corral.terminals import list_terminals

PREFIX = "corral-demo-"
_OWNER = "owner.json"
_LIMIT = 1 << 12
_KEPT_VARIABLES = ("LANG", "TERM", "TZ", "NO_COLOR", "SYSTEMROOT")
_KEPT_PREFIXES = ("LC_", "PYTHON")
_ROUNDS = 10
_GONE_SECONDS = 10.0
_UNOWNED_SECONDS = 60.0
"""A directory that has no owner for this long was left while it was being made."""
_ENDED = b"ended\n"


class Owner(Struct, frozen=True, kw_only=True):
    """Who made it. A directory that is kept outlives its owner."""

    schema: int = 1
    process: tuple[str, int, int, int]
    kept: bool = False

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(*self.process)


class Place:
    """One such directory, mode 0700."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.home = os.path.join(root, "home")
        self.state = os.path.join(self.home, ".local", "state", "corral")
        self.terminals = os.path.join(self.state, "terminals")
        self.agent_home = os.path.join(self.home, ".kimi")
        self.corral = os.path.join(root, "corral")
        """A program: corral as it runs in the demo."""

    def environment(self) -> dict[str, str]:
        """For everything that starts in it: of the person's own, only language, time zone and Python."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
        }
        if site.ENABLE_USER_SITE:  # corral may be installed there, and HOME decides where that is
            kept.setdefault("PYTHONUSERBASE", site.getuserbase())
        return kept | {
            "HOME": self.home,
            # It has the one agent of the demo, and none of those that the person has installed.
            "PATH": os.path.join(self.root, "bin"),
            "TMPDIR": os.path.join(self.root, "tmp"),
            DEMO_VARIABLE: self.root,
        }

    def write_owner(self, *, kept: bool = False) -> None:
        identity = own_identity()
        if identity is None:
            raise CorralError("this system doesn't identify processes well enough to clean up after a demo")
        owner = Owner(process=identity_fields(identity), kept=kept)
        with Directory(self.root) as directory:
            replace(directory, _OWNER, msgspec.json.encode(owner), identity)

    def read_owner(self) -> Owner | None:
        content = read_regular(os.path.join(self.root, _OWNER), _LIMIT)
        if isinstance(content, Unreadable):
            return None
        try:
            owner = msgspec.json.decode(content.data, type=Owner)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return owner if owner.schema == 1 else None


def make_place() -> Place:
    """Make an empty one in the directory for temporary files. Raises CorralError."""
    if sys.platform != "linux":
        raise CorralError("the demo needs Linux: elsewhere corral can't keep its terminals or end them safely")
    try:
        place = Place(os.path.realpath(tempfile.mkdtemp(prefix=PREFIX)))
        place.write_owner()
    except OSError as error:
        raise _unusable(error) from error
    return place


def furnish(place: Place) -> None:
    """Put an agent into it, and a corral that sees nothing else. Raises CorralError."""
    try:
        for name in ("bin", "tmp", "home"):
            os.mkdir(os.path.join(place.root, name), 0o700)
        _write_program(os.path.join(place.root, "bin", "kimi"), agent_program())
        _write_program(place.corral, _corral_program(place.environment()))
        if not os.access(place.corral, os.X_OK):
            raise OSError(errno.EACCES, "programs may not be run from here (noexec)", place.root)
    except OSError as error:
        raise _unusable(error) from error


def _unusable(error: OSError) -> CorralError:
    where = error.filename or tempfile.gettempdir()
    return CorralError(f"{where}: {error.strerror}", hint="set TMPDIR to another directory")


def agent_program() -> str:
    """A script that runs the reference agent, and is called like Kimi CLI."""
    python = shlex.quote(sys.executable)
    home = '"${KIMI_SHARE_DIR:-$HOME/.kimi}"'
    return f'#!/bin/sh\nexec {python} -P -m corral.demo.reference_agent --home {home} "$@"\n'


def _corral_program(env: Mapping[str, str]) -> str:
    """A script that runs corral in this place. Of the caller's environment it keeps only TERM."""
    fixed = {name: value for name, value in env.items() if name != "TERM"}
    words = " ".join(shlex.quote(f"{name}={value}") for name, value in sorted(fixed.items()))
    python = shlex.quote(sys.executable)
    return f'#!/bin/sh\nexec /usr/bin/env -i TERM="$TERM" {words} {python} -P -m corral "$@"\n'


def _write_program(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    with os.fdopen(fd, "w") as file:
        file.write(text)


# --- the end


class Caretaker:
    """A process that outlives a killed demo, and cleans up after it.

    It is a shell that waits on a pipe, and only the demo has the other end. The kernel closes that end when the demo
    dies, however it dies; a demo that ends normally says so first.
    """

    def __init__(self, place: Place, *, keep: bool) -> None:
        ending = [sys.executable, "-P", "-m", "corral.demo.place", place.root, *(["--keep"] if keep else [])]
        # In a session of its own: what is sent to the demo's process group does not reach it.
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _ || exec "$@"', "sh", *ending],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """There is nothing left to clean up."""
        self._process.communicate(_ENDED)


def end_place(place: Place, *, keep: bool = False) -> bool:
    """End all that runs in it, then delete it. False if another process has done so, and perhaps kept the directory.

    Raises CorralError; the directory is then still there.
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
    """End those that have its mark and those in its terminals, again and again, until there are none."""
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
        if os.path.lexists(place.root):  # otherwise another demo was faster
            raise CorralError(f"{error.filename or place.root} could not be deleted: {error.strerror}") from error


def sweep_leftovers(tell: Callable[[str], None]) -> None:
    """End and delete what was left by demos whose owner was killed.

    Only directories of our own with a record of who made them, and only where that process is proven gone.
    """
    for place in _list_places():
        owner = place.read_owner()
        if owner is None:
            _drop_unowned(place)
        elif not owner.kept and is_proven_gone(owner.identity):
            try:
                if end_place(place):
                    tell(f"cleaned up after a demo that was killed ({place.root})")
            except CorralError as error:
                tell(f"could not clean up after a demo that was killed: {error.message}")


def is_proven_gone(identity: ProcessIdentity) -> bool:
    """It ran in another boot, or is not in our PID namespace any more. What can't be seen from here proves nothing."""
    own = own_identity()
    if own is None:
        return False
    if identity.boot_id != own.boot_id:
        return True
    return identity.pid_ns == own.pid_ns and not _lives(identity)


@contextmanager
def _turn_in(place: Place) -> Generator[None]:
    """Only one process at a time cleans up: the demo, its caretaker, or the next demo."""
    import fcntl  # only Linux has demos

    try:
        fd = os.open(place.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # its holder needs seconds, and a dead one has released it
        yield
    finally:
        os.close(fd)


def _list_places() -> Iterator[Place]:
    parent = os.path.realpath(tempfile.gettempdir())
    for entry in os.scandir(parent):
        if not entry.name.startswith(PREFIX):
            continue
        with suppress(FileNotFoundError):  # it is being deleted right now
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
                yield Place(entry.path)


def _drop_unowned(place: Place) -> None:
    try:
        if time.time() - os.lstat(place.root).st_mtime > _UNOWNED_SECONDS:
            os.rmdir(place.root)
    except OSError:
        pass  # it is not empty, so it is not ours; or it is gone


def _list_marked(place: Place) -> Iterator[ProcessIdentity]:
    """Processes with the name of this directory in their environment; nobody else knows that name."""
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
    """A holder ignores SIGHUP, and has nothing worth keeping when its directory goes."""
    send_signal(holder, signal.SIGKILL)
    deadline = time.monotonic() + _GONE_SECONDS
    while _lives(holder):
        if time.monotonic() > deadline:
            raise CorralError(f"pid {holder.pid} did not end even after SIGKILL: the kernel holds it")
        time.sleep(0.005)


def main() -> int:
    parser = argparse.ArgumentParser(prog="corral.demo.place")
    parser.add_argument("root")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    try:
        end_place(Place(args.root), keep=args.keep)
    except CorralError as error:
        print(f"corral: could not clean up after a demo that was killed: {error.message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
