"""One package per agent CLI. Built-ins are found by listing this folder; nothing else names them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from corral.model.process import WHOLE_HOME, Reach

if TYPE_CHECKING:
    from corral.model.claim import BadClaim, Claim
    from corral.model.hook_target import HookTarget
    from corral.model.key import Home
    from corral.model.known import Known
    from corral.model.process import Recognised
    from corral.model.record import Resting, SessionRecord, Skipped
    from corral.model.restore import Loss, Program, Refused, Resume, Start
    from corral.model.usage import UsageBatch, UsageSource
    from corral.system.processes import Process, ProcessTable
    from corral.system.visits import Visits


def _not_asked(path: str) -> str | None:
    return None


class Environment(Struct, frozen=True, kw_only=True):
    """What a provider may know of the person's environment."""

    home_dir: str
    variables: Mapping[str, str]
    extra_homes: Mapping[str, tuple[str, ...]]
    """From corral's config: further data roots by provider name."""
    programs: Mapping[str, str] = {}
    """From corral's config: the program to use, by provider name, before PATH is searched."""
    ask_version: Callable[[str], str | None] = _not_asked
    """What `PATH --version` printed, for a program whose files do not say what it is; None when nobody asked it."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What this CLI can do, as data: every view says it instead of pretending."""

    title: str
    """How people call it: "Kimi CLI"."""
    program: str
    """The command's name on PATH."""
    picks_id: bool
    """The caller may choose the id of a fresh session."""
    identified_by: tuple[str, ...]
    """What tells which session a process serves: "registry", "hooks", "runtime.json", "log"."""
    restore: str
    """"resume" or "none"."""
    proven_versions: tuple[str, ...]
    home_variables: tuple[str, ...]
    """What moves its home: dropped from the child's environment unless the session's home needs them."""
    silent_s: float | None
    """How long a process may run before it has a session: seconds, or None where it has none until its first prompt."""
    needs_hooks: bool
    """Without our hooks its processes stay unattributed."""
    servers_report: bool = False
    """Shown on the real CLI: in its server modes, too, it reports each session that it makes or loads."""
    poison: tuple[str, ...] = ()
    """Variables it gives to its children, which would mislead a fresh start from such a child."""
    starts_one_at_a_time: bool = False
    """Its own registry of directories is not safe against two starts at once."""
    may_destroy_transcript: bool = False
    """A start is known to destroy the history under some conditions: it is copied first, and compared after."""


def lazy_parts(package: str, **parts: str) -> Callable[[str], object]:
    """A package's `__getattr__`: each name with the file that has it, imported when it is first asked for.

    A listing needs only some parts of a few providers, and importing is most of what it costs.
    """

    def find_part(name: str) -> object:
        if name not in parts:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib

        file, _, attribute = parts[name].partition(":")
        found = getattr(importlib.import_module(f"{package}.{file}"), attribute or name)
        setattr(sys.modules[package], name, found)
        return found

    return find_part


def no_default_model(home: str) -> str | None:
    """For a CLI that records the model with each request."""
    return None


def no_loss(record: SessionRecord) -> Loss | None:
    """For a CLI that drops nothing at a resume, or where `read_guard` refuses."""
    return None


def no_native_claims(home: Home) -> Iterator[Claim | BadClaim]:
    """For a CLI that publishes nothing of its processes: only runtime.json and our journal name them."""
    return iter(())


def reaches_whole_home(process: Process, home: str) -> Reach:
    """For a CLI of which nobody has shown that it opens less."""
    return WHOLE_HOME


class Provider(Protocol):
    """What a provider package's `__init__` offers. Listing touches the disk only; it never runs the CLI.

    `list_claims` gives what the CLI itself publishes (a registry, locks); the runtime.json that a record
    points to is read by the engine.
    """

    name: str
    capabilities: Capabilities
    unrecorded_kinds: tuple[str, ...]
    """Calls that the CLI never records and that leave no trace, in words."""
    hook_target: HookTarget | None
    """Where it takes hooks of ours; None if it does not. With hooks comes a `reporter.py` in the package."""

    def homes(self, env: Environment) -> Sequence[Home]: ...
    def list_sessions(self, home: Home, known: Known) -> Iterator[SessionRecord | Resting | Skipped]: ...
    def list_claims(self, home: Home) -> Iterator[Claim | BadClaim]: ...
    def recognise(self, process: Process, table: ProcessTable) -> Recognised | None: ...
    def find_reach(self, process: Process, home: str) -> Reach:
        """What a process that says nothing could have open, without having written anything: shown on the real CLI."""
        ...

    def find_program(self, env: Environment) -> Program | None: ...
    def transcript_path(self, record: SessionRecord) -> str: ...
    def list_usage_sources(self, home: Home, visits: Visits | None = None) -> Iterator[UsageSource]: ...
    def read_usage(self, source: UsageSource, since: int, fd: int) -> UsageBatch: ...
    def read_default_model(self, home: str) -> str | None: ...
    def read_guard(self, record: SessionRecord) -> Refused | None: ...
    def read_loss(self, record: SessionRecord) -> Loss | None: ...
    def plan_start(self, work_dir: str, session_id: str | None, program: Program, home: Home) -> Start | Refused: ...
    def plan_resume(self, record: SessionRecord, program: Program, home: Home) -> Resume: ...
