"""Bindings: which tab was opened for what, one fsynced file each, written before anything is started.

A binding never says which session a tab has: that is what the provider says of the tab's process.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

import msgspec
from msgspec import Struct

from corral.model.key import SessionKey
from corral.model.process import ProcessIdentity
from corral.model.record import Skipped
from corral.sidecar.atomic import Directory, remove
from corral.sidecar.files import Unreadable
from corral.state.private_file import read_record, write_record

_TAB = re.compile(r"[0-9a-f]{16}\Z")
_MOST_PREVIOUS = 6


class Binding(Struct, frozen=True, kw_only=True):
    """What one tab was opened for."""

    schema: int = 1
    tab: str
    provider: str
    home: str
    work_dir: str
    opened_at: float
    title: str | None = None
    wanted: SessionKey | None = None
    """The session it was started on: chosen up front or resumed. Not what it has now."""
    holder: tuple[str, int, int, int] | None = None
    child: tuple[str, int, int, int] | None = None
    """The program in the terminal; None until it was forked."""
    agent: tuple[str, int, int, int] | None = None
    """The process that the provider named for a session while it ran in this terminal: the program itself, or
    one below it. None until it was named."""
    silence: str | None = None
    """Why the program, as it was started, was not expected to say which session it has; None while its report is
    expected. It may speak all the same, and then its word counts."""
    previous: tuple[tuple[str, int, int, int], ...] = ()
    """The processes that the tab had before its terminal was lost and it was resumed, newest first: what its provider
    said of them counts until it says something of the new one."""

    @property
    def child_process(self) -> ProcessIdentity | None:
        return ProcessIdentity(*self.child) if self.child else None

    @property
    def agent_process(self) -> ProcessIdentity | None:
        return ProcessIdentity(*self.agent) if self.agent else None

    @property
    def processes(self) -> tuple[ProcessIdentity, ...]:
        """All whose reports could say which session it has, the best witness first."""
        return tuple(ProcessIdentity(*fields) for fields in self.past_processes())

    def past_processes(self) -> tuple[tuple[str, int, int, int], ...]:
        """What the next binding of this tab keeps of this one."""
        known = (self.agent, self.child, *self.previous)
        return tuple(dict.fromkeys(fields for fields in known if fields is not None))[:_MOST_PREVIOUS]


_decode = msgspec.json.Decoder(Binding).decode


class Bindings:
    """The bindings below one state directory, and which directories were opened."""

    def __init__(self, state_dir: str) -> None:
        self.directory = os.path.join(state_dir, "bindings")
        self._opened = os.path.join(state_dir, "opened")

    def write(self, binding: Binding) -> None:
        """Raises OSError when it can't be made durable: then nothing must be started."""
        write_record(self.directory, f"{binding.tab}.json", binding)

    def find(self, tab: str) -> Binding | None:
        """None when there is none, or none that can be read."""
        found = self._read(tab) if _TAB.match(tab) else None
        return found if isinstance(found, Binding) else None

    def read_all(self) -> tuple[list[Binding], list[Skipped]]:
        """Every binding, oldest first, and those that can't be read, each with its reason."""
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return [], []
        except OSError as error:
            return [], [Skipped(provider="corral", path=self.directory, reason=error.strerror or "can't be read")]
        tabs = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        read = [self._read(tab) for tab in tabs if _TAB.match(tab)]
        bindings = sorted((one for one in read if isinstance(one, Binding)), key=lambda one: one.opened_at)
        return bindings, [one for one in read if isinstance(one, Skipped)]

    def path_of(self, tab: str) -> str:
        return os.path.join(self.directory, f"{tab}.json")

    def homes_of(self, provider: str) -> list[str]:
        """The homes in which tabs were opened: a variable that named one may not be set any more."""
        return list(dict.fromkeys(one.home for one in self.read_all()[0] if one.provider == provider))

    def forget(self, tab: str) -> None:
        """The tab was closed for good. Raises OSError."""
        if _TAB.match(tab):
            with suppress(FileNotFoundError), Directory(self.directory) as directory:
                remove(directory, f"{tab}.json")

    def has_opened(self, directory: str) -> bool:
        """Whether somebody has agreed to run agents in exactly this directory."""
        return os.path.exists(os.path.join(self._opened, _hash(directory)))

    def note_opened(self, directory: str) -> None:
        """Raises OSError."""
        write_record(self._opened, _hash(directory), os.fsencode(os.path.realpath(directory)))

    def _read(self, tab: str) -> Binding | Skipped:
        path = self.path_of(tab)
        binding = read_record(path, _decode)
        if isinstance(binding, Unreadable):
            what = "not a binding: " if binding.code == "invalid" else ""
            return Skipped(provider="corral", path=path, reason=f"{what}{binding.reason}")
        if (binding.schema, binding.tab) != (1, tab):
            return Skipped(provider="corral", path=path, reason="a binding of another tab or of a newer corral")
        return binding


def identity_fields(identity: ProcessIdentity) -> tuple[str, int, int, int]:
    """A process as it is written to a file."""
    return identity.boot_id, identity.pid_ns, identity.pid, identity.start_ticks


def _hash(directory: str) -> str:
    import hashlib

    return hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:32]
