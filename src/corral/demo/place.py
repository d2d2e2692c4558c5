"""The throw-away directory of a demonstration: a HOME of its own, with one agent in it, and who it belongs to."""

from __future__ import annotations

import errno
import os
import shlex
import site
import sys
import tempfile
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from corral.errors import CorralError
from corral.machine.places import DEMO_VARIABLE
from corral.sidecar.atomic import Directory, replace
from corral.sidecar.files import Unreadable, read_regular
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import own_identity
from corral.state.bindings import identity_fields

PREFIX = "corral-demo-"
_OWNER = "owner.json"
_LIMIT = 1 << 12
_KEPT_VARIABLES = ("LANG", "TERM", "TZ", "NO_COLOR", "SYSTEMROOT")
_KEPT_PREFIXES = ("LC_", "PYTHON")


class Owner(Struct, frozen=True, kw_only=True):
    """Who made it. A directory that is kept outlives its owner."""

    schema: int = 1
    process: tuple[str, int, int, int]
    kept: bool = False

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(*self.process)


class Place:
    """One such directory, 0700, whatever is in it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.home = os.path.join(root, "home")
        self.state = os.path.join(self.home, ".local", "state", "corral")
        self.terminals = os.path.join(self.state, "terminals")
        self.agent_home = os.path.join(self.home, ".kimi")
        self.corral = os.path.join(root, "corral")
        """A program: `corral` as it is in the demonstration."""

    def environment(self) -> dict[str, str]:
        """Of everything that is started in it: nothing of the person's own but language, time zone and Python."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
        }
        if site.ENABLE_USER_SITE:  # corral may be installed there, and HOME says where that is
            kept.setdefault("PYTHONUSERBASE", site.getuserbase())
        return kept | {
            "HOME": self.home,
            # Of all agents there is one here: those that the person has installed have no part in it.
            "PATH": os.path.join(self.root, "bin"),
            "TMPDIR": os.path.join(self.root, "tmp"),
            DEMO_VARIABLE: self.root,
        }

    def write_owner(self, *, kept: bool = False) -> None:
        identity = own_identity()
        if identity is None:
            raise CorralError("this system does not tell processes apart well enough to clean up after a demo")
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
    """A new one, empty, below the system's directory for such things. Raises CorralError."""
    if sys.platform != "linux":
        raise CorralError("the demo needs Linux: elsewhere its terminals can't be kept, nor be ended safely")
    try:
        place = Place(os.path.realpath(tempfile.mkdtemp(prefix=PREFIX)))
        place.write_owner()
    except OSError as error:
        raise _unusable(error) from error
    return place


def furnish(place: Place) -> None:
    """With an agent and with a corral that sees nothing else. Raises CorralError."""
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
    return CorralError(f"{where}: {error.strerror}", hint="TMPDIR names another place for it")


def agent_program() -> str:
    """A script that is the reference agent, and can be called as Kimi CLI can."""
    python = shlex.quote(sys.executable)
    home = '"${KIMI_SHARE_DIR:-$HOME/.kimi}"'
    return f'#!/bin/sh\nexec {python} -P -m corral.demo.reference_agent --home {home} "$@"\n'


def _corral_program(env: Mapping[str, str]) -> str:
    """A script that is corral in this place. All else of the caller's environment but the terminal is dropped."""
    fixed = {name: value for name, value in env.items() if name != "TERM"}
    words = " ".join(shlex.quote(f"{name}={value}") for name, value in sorted(fixed.items()))
    python = shlex.quote(sys.executable)
    return f'#!/bin/sh\nexec /usr/bin/env -i TERM="$TERM" {words} {python} -P -m corral "$@"\n'


def _write_program(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    with os.fdopen(fd, "w") as file:
        file.write(text)
