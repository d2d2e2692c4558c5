"""Whether one claim holds: does the process it names still run, is it the same one, and is it on this host?"""

from __future__ import annotations

import math
from collections.abc import Collection
from enum import Enum
from typing import Literal, NamedTuple, assert_never

from corral.model.claim import Claim
from corral.model.process import HostFacts, ProbeFacts, ProcessIdentity, ProcessState
from corral.model.verdict import ClaimVerdict, Liveness

MAX_PID = 4_194_304
CLOCK_TOLERANCE_S = 2.0
"""Writers round, and clocks are slewed: a start this little after the record proves neither side."""
START_ERROR_S = 0.05
"""Start times come in ticks of 10 ms; through CLOCK_BOOTTIME they were measured 10 ms early to 5 ms late."""


def decide_liveness(
    claim: Claim, probe: ProbeFacts | None, host: HostFacts, pin: ProcessIdentity | None
) -> ClaimVerdict:
    """Judge one claim by what a look at its PID found.

    `live` and `stale` are proven; what can be neither is `unknown`, with the reason. `pin` is the identity
    this same claim was verified against before. Working directory and program name never make `live`: they
    only keep a claim from being called dead.
    """
    case = _Case(claim, probe, host, compare_hosts(claim.hostname, host.hostname))
    if claim.ended_at is not None:
        why = f" ({claim.end_reason})" if claim.end_reason else ""
        return case.stale("ended", f"pid {claim.pid} reported that it left the session{why}")
    if type(claim.pid) is not int or not 1 <= claim.pid <= MAX_PID:
        return case.unknown("invalid:pid", f"{claim.pid!r} can't be a process")
    if claim.written_at is not None and not math.isfinite(claim.written_at):
        return case.unknown("invalid:written_at", "the record's time is not a number")
    if (identity := _exact_identity(claim, host, pin)) is not None:
        return _decide_exactly(case, identity)
    return _decide_by_time(case)


def is_plainly_gone(
    pid: int, hostname: str | None, host: HostFacts, pids: Collection[int], *, on_network_fs: bool
) -> bool:
    """Whether a record of this host names a number that no process has, here or in a container below.

    What a full look would call `stale`; so a listing need not look at thousands of old records. `pids` are
    all numbers in use that we can see, inner ones included: where /proc hides some, init is among them.
    """
    here = host.pid_ns_is_initial and compare_hosts(hostname, host.hostname) is HostMatch.SAME
    return here and not (on_network_fs and is_generic(hostname)) and 1 in pids and pid not in pids


class _Exact(NamedTuple):
    rule: str
    boot_id: str
    pid_ns: int | None
    start_ticks: int


class _Case(NamedTuple):
    """One claim with all that is known about it."""

    claim: Claim
    probe: ProbeFacts | None
    host: HostFacts
    named: HostMatch

    def live(self, rule: str, reason: str, probe: ProbeFacts) -> ClaimVerdict:
        pid_ns = self.host.pid_ns if probe.pid_ns is None else probe.pid_ns
        identity = ProcessIdentity(self.host.boot_id or "", pid_ns, probe.pid, probe.start_ticks or 0)
        return ClaimVerdict(claim=self.claim, liveness=Liveness.LIVE, rule=rule, reason=reason, identity=identity)

    def stale(self, rule: str, reason: str) -> ClaimVerdict:
        return ClaimVerdict(claim=self.claim, liveness=Liveness.STALE, rule=rule, reason=reason)

    def unknown(self, rule: str, reason: str, elsewhere: bool = False) -> ClaimVerdict:
        return ClaimVerdict(claim=self.claim, liveness=Liveness.UNKNOWN, rule=rule, reason=reason, elsewhere=elsewhere)

    def remote(self) -> ClaimVerdict:
        return ClaimVerdict(
            claim=self.claim,
            liveness=Liveness.REMOTE,
            rule="remote-host",
            reason=f"written on {self.claim.hostname!r}, and this host is {self.host.hostname!r}",
            elsewhere=True,
        )

    def dead_on_this_host(self, rule: str, reason: str) -> ClaimVerdict:
        """Stale, if the record certainly belongs to this host."""
        if self.may_be_of_a_namesake:
            doubt = f"{reason}; but the network home may be shared by hosts with the same name"
            return self.unknown("shared-home", doubt)
        if self.named is not HostMatch.SAME:
            doubt = f"{reason}; but {self.claim.hostname!r} may be another host"
            return self.unknown("host-ambiguous", doubt)
        return self.stale(rule, reason)

    def dead_in_this_namespace(self, rule: str, reason: str) -> ClaimVerdict:
        """Stale, if the record certainly belongs to this host and this PID namespace."""
        pid = self.claim.pid
        if self.claim.pid_ns == self.host.pid_ns:
            return self.dead_on_this_host(rule, reason)
        if self.probe is not None and self.probe.inner_pids:
            seen = ", ".join(map(str, self.probe.inner_pids[:3]))
            doubt = f"{reason}; but pid {seen} is pid {pid} inside a container"
            return self.unknown("container", doubt, elsewhere=True)
        if self.in_unnamed_namespace:
            doubt = f"{reason}; but the host's own pids can't be seen from here"
            return self.unknown("pid-namespace", doubt, elsewhere=True)
        return self.dead_on_this_host(rule, reason)

    @property
    def may_be_of_a_namesake(self) -> bool:
        return self.claim.on_network_fs and is_generic(self.claim.hostname)

    @property
    def in_unnamed_namespace(self) -> bool:
        """We are in a container that has the host's name: a record could belong to either."""
        return self.host.uts_ns_is_initial and not self.host.pid_ns_is_initial


def _exact_identity(claim: Claim, host: HostFacts, pin: ProcessIdentity | None) -> _Exact | None:
    """What can be compared without any clock, or None. What the writer says goes before our pin."""
    if not host.boot_id:
        return None
    if claim.boot_id and claim.start_ticks is not None:
        return _Exact("exact", claim.boot_id, claim.pid_ns, claim.start_ticks)
    if pin is None or not pin.boot_id or pin.pid != claim.pid:
        return None
    if claim.start_ticks not in (None, pin.start_ticks) or claim.pid_ns not in (None, pin.pid_ns):
        return None
    return _Exact("pinned", pin.boot_id, pin.pid_ns, pin.start_ticks)


def _decide_exactly(case: _Case, wanted: _Exact) -> ClaimVerdict:
    claim, probe, host = case.claim, case.probe, case.host
    if wanted.boot_id != host.boot_id:
        if case.named is HostMatch.OTHER:
            return case.remote()
        return case.dead_on_this_host("reboot", f"pid {claim.pid} belonged to another boot of the machine")
    # The boot id is random per boot: from here on the record belongs to this machine, whatever its name is now.
    if wanted.pid_ns is not None and wanted.pid_ns != host.pid_ns:
        return _decide_in_other_namespace(case, wanted)
    here = case._replace(named=HostMatch.SAME)
    dead = here.stale if wanted.pid_ns is not None else here.dead_in_this_namespace
    if probe is None:
        return case.unknown("not-probed", f"pid {claim.pid} was not checked")
    match probe.state:
        case ProcessState.HIDDEN | ProcessState.NO_PROC:
            return _decide_unseen(case, probe)
        case ProcessState.GONE | ProcessState.ZOMBIE | ProcessState.THREAD | ProcessState.KERNEL:
            return dead(*_say_dead(claim.pid, probe.state))
        case ProcessState.RUNNING:
            if probe.start_ticks is None:
                return case.unknown("undated", f"pid {claim.pid} runs, and its start can't be read")
            other_ns = None not in (wanted.pid_ns, probe.pid_ns) and wanted.pid_ns != probe.pid_ns
            if probe.start_ticks != wanted.start_ticks or other_ns:
                return dead("reused", _ticks_differ(claim.pid, wanted.start_ticks, probe))
            return case.live(wanted.rule, _ticks_agree(claim.pid, probe, host), probe)
        case _:
            assert_never(probe.state)


def _decide_in_other_namespace(case: _Case, wanted: _Exact) -> ClaimVerdict:
    """Only facts about the same namespace count; the process with this number here says nothing."""
    pid, probe = case.claim.pid, case.probe
    if probe is not None and probe.pid_ns == wanted.pid_ns:
        if probe.state is ProcessState.GONE:
            return case.stale("gone", f"no process has pid {pid} in its PID namespace {wanted.pid_ns}")
        if probe.start_ticks == wanted.start_ticks:
            if probe.state is ProcessState.RUNNING:
                return case.live("container", f"pid {pid} of a container is pid {probe.pid} here", probe)
            if probe.state is ProcessState.ZOMBIE:
                return case.stale("zombie", f"pid {pid} of a container has ended")
    return _foreign_namespace(case, wanted.pid_ns)


def _decide_by_time(case: _Case) -> ClaimVerdict:
    """A record without a comparable identity: its writer was alive when it was written."""
    claim, probe, host = case.claim, case.probe, case.host
    pid, written = claim.pid, claim.written_at
    if case.named is HostMatch.OTHER:
        return case.remote()
    if case.named is HostMatch.DOMAIN:
        return case.unknown("host-ambiguous", f"{claim.hostname!r} and {host.hostname!r} may be two hosts")
    if written is not None and written > host.now + CLOCK_TOLERANCE_S:
        ahead = _duration(written - host.now)
        return case.unknown("future", f"the record is {ahead} ahead of the clock: one of the two is wrong")
    if written is not None and written < host.booted_at - CLOCK_TOLERANCE_S:
        age = _duration(host.booted_at - written)
        reason = f"the record was written {age} before the machine booted"
        return _unless_clock_stepped(case, "reboot", reason)
    if claim.pid_ns is not None and claim.pid_ns != host.pid_ns:
        return _foreign_namespace(case, claim.pid_ns)
    if probe is None:
        return case.unknown("not-probed", f"pid {pid} was not checked")
    match probe.state:
        case ProcessState.HIDDEN | ProcessState.NO_PROC:
            return _decide_unseen(case, probe)
        case ProcessState.KERNEL if claim.pid_ns is None and (_late(written, probe) or 0.0) <= CLOCK_TOLERANCE_S:
            reason = f"pid {pid} is a kernel thread here: the record belongs to another PID namespace"
            return case.unknown("foreign-namespace", reason, elsewhere=True)
        case ProcessState.GONE | ProcessState.ZOMBIE | ProcessState.THREAD | ProcessState.KERNEL:
            return case.dead_in_this_namespace(*_say_dead(pid, probe.state))
        case ProcessState.RUNNING:
            if pid == 1 and host.pid_ns_is_initial and claim.pid_ns is None:
                reason = "pid 1 is the machine's init here: the record belongs to another PID namespace"
                return case.unknown("foreign-namespace", reason, elsewhere=True)
            return _decide_running(case, probe)
        case _:
            assert_never(probe.state)


def _say_dead(
    pid: int, state: Literal[ProcessState.GONE, ProcessState.ZOMBIE, ProcessState.THREAD, ProcessState.KERNEL]
) -> tuple[str, str]:
    """The rule by which no agent has this number, and the reason."""
    match state:
        case ProcessState.GONE:
            return "gone", f"no process has pid {pid}"
        case ProcessState.ZOMBIE:
            return "zombie", f"pid {pid} has ended and is a zombie"
        case ProcessState.THREAD:
            return "tid", f"{pid} is a thread of another process now: the number was reused"
        case ProcessState.KERNEL:
            return "reused", f"pid {pid} is a kernel thread, never an agent"


def _decide_running(case: _Case, probe: ProbeFacts) -> ClaimVerdict:
    claim, pid = case.claim, case.claim.pid
    late = _late(claim.written_at, probe)
    if claim.start_ticks is not None and probe.start_ticks is not None and case.host.boot_id:
        if claim.start_ticks != probe.start_ticks:
            return case.dead_in_this_namespace("reused", _ticks_differ(pid, claim.start_ticks, probe))
        if late is None:
            return case.unknown("boot-unknown", f"pid {pid} began at that tick, but perhaps in another boot")
        if late > CLOCK_TOLERANCE_S:
            reason = f"pid {pid} began at that tick, but {_duration(late)} after the record"
            return case.unknown("clock-step", reason)
        return case.live("start-ticks", _ticks_agree(pid, probe, case.host), probe)
    if late is None:
        return case.unknown("undated", f"pid {pid} runs, and nothing says whether it began before the record")
    if late > CLOCK_TOLERANCE_S:
        reason = f"pid {pid} began {_duration(late)} after the record was written: the number was reused"
        return _unless_clock_stepped(case, "reused", reason)
    if late > START_ERROR_S:
        reason = f"pid {pid} began {_duration(late)} after the record was written: too close to be sure"
        return case.unknown("tolerance", reason)
    if case.in_unnamed_namespace and claim.pid_ns is None:
        reason = f"pid {pid} began before the record, which may be of the host's pid {pid} instead"
        return case.unknown("pid-namespace", reason)
    if case.may_be_of_a_namesake:
        reason = f"pid {pid} began before the record, but the network home may be shared by hosts with the same name"
        return case.unknown("shared-home", reason)
    if claim.owner_uid not in (None, 0, probe.uid):
        reason = f"the record belongs to uid {claim.owner_uid}, and pid {pid} runs as uid {probe.uid}"
        return case.unknown("owner", reason)
    reason = f"pid {pid} began {_duration(-late)} before the record was written"
    return case.live("began-before", reason, probe)


def _decide_unseen(case: _Case, probe: ProbeFacts) -> ClaimVerdict:
    pid = case.claim.pid
    if probe.state is ProcessState.HIDDEN:
        return case.unknown("hidden", f"pid {pid} exists, and /proc hides it from us")
    return case.unknown("no-proc", f"without /proc nothing says when pid {pid} began")


def _unless_clock_stepped(case: _Case, rule: str, reason: str) -> ClaimVerdict:
    """A process that looks like the claim's but is "too young" may be that process, if the clock was set in between."""
    claim, probe = case.claim, case.probe
    if probe is not None and _looks_alike(claim, probe, case.host):
        word = _program_word(claim.provider)
        doubt = f"{reason}, or the clock was set: {word} runs there as pid {probe.pid}"
        return case.unknown("clock-step", doubt)
    if rule == "reboot":  # no namespace outlives its kernel
        return case.dead_on_this_host(rule, reason)
    return case.dead_in_this_namespace(rule, reason)


def _looks_alike(claim: Claim, probe: ProbeFacts, host: HostFacts) -> bool:
    word = _program_word(claim.provider)
    return (
        probe.state is ProcessState.RUNNING
        and claim.start_ticks in (None, probe.start_ticks)
        and probe.uid == (host.uid if claim.owner_uid is None else claim.owner_uid)
        and probe.cwd is not None
        and probe.cwd == claim.work_dir
        and any(word in name.casefold() for name in probe.names)
    )


def _program_word(provider: str) -> str:
    """`kimi-cli` and `kimi-code` are both started as `kimi`; the others' programs begin with their names."""
    return provider.partition("-")[0].casefold()


def _foreign_namespace(case: _Case, pid_ns: int | None) -> ClaimVerdict:
    reason = f"pid {case.claim.pid} is of PID namespace {pid_ns}, and we are in {case.host.pid_ns}"
    return case.unknown("foreign-namespace", reason, elsewhere=True)


def _late(written_at: float | None, probe: ProbeFacts) -> float | None:
    """Seconds by which the process began after the record (negative: before), or None if unknown."""
    if written_at is None or probe.started_at is None or not math.isfinite(probe.started_at):
        return None
    return probe.started_at - written_at


def _ticks_differ(pid: int, wanted: int, probe: ProbeFacts) -> str:
    return f"pid {pid} began at tick {probe.start_ticks}, the claim's at tick {wanted}: the number was reused"


def _ticks_agree(pid: int, probe: ProbeFacts, host: HostFacts) -> str:
    if probe.started_at is None or not math.isfinite(probe.started_at):
        return f"pid {pid} is verified (tick {probe.start_ticks})"
    age = _duration(host.now - probe.started_at)
    return f"pid {pid} is verified, started {age} ago (tick {probe.start_ticks})"


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "an unknown time"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2f} s"


# --- whether two host names can mean the same machine


# Names that installers give to every machine: two machines that share a home may have the same name.
_GENERIC = {
    "archlinux",
    "centos",
    "computer",
    "debian",
    "fedora",
    "host",
    "kali",
    "laptop",
    "linux",
    "localhost",
} | {"macbook", "nixos", "pop-os", "raspberrypi", "server", "ubuntu", "user", "vm", "workstation", "wsl"}
_GENERIC_DOMAINS = (".local", ".localdomain")


class HostMatch(Enum):
    """How a record's host name relates to ours."""

    SAME = "same"
    SHORT = "short"
    """One name has a domain, the other has none."""
    DOMAIN = "domain"
    """The same first label in two domains."""
    OTHER = "other"


def compare_hosts(theirs: str | None, ours: str) -> HostMatch:
    """A record without a host name is taken as one of this host. Case and a final dot mean nothing."""
    if not theirs:
        return HostMatch.SAME
    their_label, _, their_domain = _plain(theirs).partition(".")
    our_label, _, our_domain = _plain(ours).partition(".")
    if their_label != our_label:
        return HostMatch.OTHER
    if their_domain == our_domain:
        return HostMatch.SAME
    return HostMatch.DOMAIN if their_domain and our_domain else HostMatch.SHORT


def is_generic(hostname: str | None) -> bool:
    """True for a name that many machines have, and if there is no name."""
    name = _plain(hostname or "")
    return name.partition(".")[0] in _GENERIC or name == "" or name.endswith(_GENERIC_DOMAINS)


def _plain(name: str) -> str:
    return name.casefold().removesuffix(".")
