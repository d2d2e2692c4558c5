"""What a provider is: what corral asks of the package of an agent CLI, and what it may leave to a named default.

    PROVIDER = Provider(
        name="some-cli",
        capabilities=Capabilities(…),
        homes=homes,                     # these six every provider has
        list_sessions=list_sessions,
        recognise=recognise,
        plan_resume=not_resumed,         # … the last may be a default
        list_claims=no_native_claims,    # and what is not said is as named here
    )

Listing touches the disk only; nothing here ever runs the CLI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from corral.model.process import WHOLE_HOME, ProcessMode, Reach

if TYPE_CHECKING:
    from corral.machine.processes import Process, ProcessTable
    from corral.machine.visits import Visits
    from corral.model.claim import BadClaim, Claim
    from corral.model.hook_target import HookTarget
    from corral.model.key import Home
    from corral.model.known import Known
    from corral.model.process import Recognised
    from corral.model.record import Exchange, Resting, SessionRecord, Skipped
    from corral.model.restore import Loss, Program, Refused, Resume, Start
    from corral.model.usage import UsageBatch, UsageSource


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


class Evidence(Struct, frozen=True, kw_only=True):
    """Evidence that is complete by itself: a process of these modes without any serves no session.

    Only what was shown on the real CLI. Where our hooks are the evidence, `silent_s` and the state of the hooks tell.
    """

    modes: tuple[ProcessMode, ...]
    within_s: float
    """How long after its start a process may have a session without such evidence."""


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
    """A resume can destroy what it should give back: `Resume.keep` names what is copied first."""
    evidence: tuple[Evidence, ...] = ()
    """Of `list_claims`: in which modes a process that it does not name serves nothing."""


class Support(Struct, frozen=True, kw_only=True):
    """How far a provider goes, as its parts say."""

    lists: bool
    knows_live: bool
    resumes: bool
    counts: bool

    def words(self) -> tuple[str, ...]:
        """What it does, for people."""
        said = {
            "lists sessions": self.lists,
            "knows which are live": self.knows_live,
            "resumes": self.resumes,
            "counts usage": self.counts,
        }
        return tuple(word for word, does in said.items() if does)


# The named defaults.


def no_problem(version: str) -> str | None:
    """For a CLI of which every version can be used."""
    return None


def no_update(path: str, version: str, env: Environment) -> str | None:
    """For a CLI that always runs the version that is installed."""
    return None


def no_default_model(home: str) -> str | None:
    """For a CLI that records the model with each request."""
    return None


def no_native_claims(home: Home, table: ProcessTable) -> Iterable[Claim | BadClaim]:
    """For a CLI that publishes nothing of its processes: only runtime.json and our journal name them."""
    return ()


def reaches_whole_home(process: Process, home: str) -> Reach:
    """For a CLI of which nobody has shown that it opens less."""
    return WHOLE_HOME


def record_path(record: SessionRecord) -> str:
    """For a CLI whose sessions are one file each, or one directory."""
    return record.path


def no_guard(record: SessionRecord) -> Refused | None:
    """For a CLI that refuses by itself what it can't resume whole."""
    return None


def no_loss(record: SessionRecord) -> Loss | None:
    """For a CLI that drops nothing at a resume, or where `read_guard` refuses."""
    return None


def no_exchanges(record: SessionRecord, most: int) -> Sequence[Exchange]:
    """For a CLI of whose conversations nobody has asked to see any."""
    return ()


def not_resumed(record: SessionRecord, program: Program, home: Home) -> Resume | Refused:
    """For a CLI of which no way to resume has been proven yet."""
    from corral.model.restore import Refusal, Refused

    return Refused(
        reason=Refusal.RESTORE_UNSUPPORTED, message=f"corral has no proven way to resume a session of {record.provider}"
    )


def start_plainly(work_dir: str, session_id: str | None, program: Program, home: Home) -> Start | Refused:
    """For a CLI that is started by its bare name in the directory, in its default home."""
    from corral.model.restore import Refusal, Refused, Start

    if not home.is_default:
        message = f"how {home.provider} is led to the home {home.path} is not known"
        return Refused(reason=Refusal.HOME_MISSING, message=message)
    return Start(argv=(program.path,), cwd=work_dir, env={}, key=None)


def no_hooks() -> HookTarget | None:
    """For a CLI that takes no hooks, or of which nobody has shown where."""
    return None


def _no_sources(home: Home, visits: Visits | None = None) -> Iterable[UsageSource]:
    return ()


def _read_nothing(source: UsageSource, since: int, fd: int) -> UsageBatch:
    from corral.model.usage import UsageBatch

    return UsageBatch(events=[], actions=[], unrecorded=[], skipped=[], next_offset=since)


# What belongs together.


class Programs(Struct, frozen=True, kw_only=True):
    """The installed CLI, declared: `kit/programs.py` finds it by this."""

    commands: tuple[str, ...]
    """Its names on PATH, in the order they are looked for."""
    product: str
    """Its name in the registry it is published in: others may have a command of the same name."""
    says_before_version: str = ""
    """What `--version` prints before the number; empty where it prints the number first."""
    says_after_version: str = ""
    """Of one that prints the number first: all that it prints behind it."""
    find_problem: Callable[[str], str | None] = no_problem
    """Why this version can't be used."""
    find_update: Callable[[str, str, Environment], str | None] = no_update
    """The version that the program at this path, of that version, would run instead of itself."""


class Transcript(Struct, frozen=True, kw_only=True):
    """The history that a resume gives back to the model: where it is, and what would go wrong with it."""

    find_path: Callable[[SessionRecord], str] = record_path
    read_guard: Callable[[SessionRecord], Refused | None] = no_guard
    """Why the CLI must not be asked to resume this now."""
    read_loss: Callable[[SessionRecord], Loss | None] = no_loss
    """What a resume would drop for good. May read the transcript whole."""
    read_last: Callable[[SessionRecord, int], Sequence[Exchange]] = no_exchanges
    """The last exchanges, at most that many, oldest first. Read when somebody asks, kept nowhere."""


class Usage(Struct, frozen=True, kw_only=True):
    """What was spent, as the CLI records it: in files that it only appends to, or in tables (`UsageSource.is_table`).

    Of a request that a session records twice, the larger count is taken.
    """

    list_sources: Callable[[Home, Visits | None], Iterable[UsageSource]]
    """The files of a home; which directories were looked into goes to the `Visits`, where there are any."""
    read: Callable[[UsageSource, int, int], UsageBatch]
    """What a file, open as that descriptor, says from an offset on; of a table, from the provider's own cursor on."""
    read_default_model: Callable[[str], str | None] = no_default_model
    """The model that a home's configuration names, for events that name none."""
    dated_by_file: bool = False
    """Records are appended with their own time and copied with it, so that a file holds nothing later than its own
    modification time. Where nobody has shown that, every file is read for every question."""
    unrecorded_kinds: tuple[str, ...] = ()
    """Calls that the CLI never records and that leave no trace, in words."""


no_usage = Usage(list_sources=_no_sources, read=_read_nothing)
"""For a CLI of which nobody has shown where it records what it spends."""
plain_transcript = Transcript()
"""For a CLI whose record is its transcript, and that loses nothing."""


class Provider(Struct, frozen=True, kw_only=True):
    """One agent CLI. The value `PROVIDER` of a package in this folder is found by itself, with no list edited."""

    name: str
    """As its package, with dashes: "kimi-cli"."""
    capabilities: Capabilities
    homes: Callable[[Environment], Sequence[Home]]
    list_sessions: Callable[[Home, Known], Iterator[SessionRecord | Resting | Skipped]]
    recognise: Callable[[Process, ProcessTable], Recognised | None]
    plan_resume: Callable[[SessionRecord, Program, Home], Resume | Refused]

    programs: Programs | None = None
    """None: corral knows of no program that it could start."""
    list_claims: Callable[[Home, ProcessTable], Iterable[Claim | BadClaim]] = no_native_claims
    """What the CLI itself publishes (a registry, locks); the runtime.json of a record is read without being asked."""
    find_reach: Callable[[Process, str], Reach] = reaches_whole_home
    """What a process that says nothing could have open, without having written anything: shown on the real CLI."""
    plan_start: Callable[[str, str | None, Program, Home], Start | Refused] = start_plainly
    transcript: Transcript = plain_transcript
    hooks: Callable[[], HookTarget | None] = no_hooks
    """Where it takes hooks of ours; None if it does not. With hooks comes a `reporter.py` in the package."""
    usage: Usage = no_usage

    @property
    def support(self) -> Support:
        return Support(
            lists=True,
            knows_live=bool(self.capabilities.identified_by),
            resumes=self.capabilities.restore == "resume",
            counts=self.usage is not no_usage,
        )

    def find_program(self, env: Environment) -> Program | None:
        """The program that the config names, else the first on PATH that is this CLI; None when there is none."""
        if self.programs is None:
            return None
        from corral.providers.kit.programs import find_program

        return find_program(self.name, self.programs, env)
