"""What no combination of facts may ever do to a verdict."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.model.claim import Claim, ClaimKind
from corral.model.process import HostFacts, ProbeFacts, ProcessIdentity, ProcessState
from corral.model.verdict import Liveness
from corral.sessions.decide.conflicts import decide_superseded
from corral.sessions.decide.liveness import CLOCK_TOLERANCE_S, MAX_PID, decide_liveness, is_plainly_gone
from tests.unit.sessions.decide import liveness_facts as facts

# Few values, so that equal and nearly equal ones meet often.
pids = st.sampled_from([1, 2, 17, 4711]) | st.integers()
namespaces = st.sampled_from([4026531836, 4026532999])
boots = st.sampled_from(["a", "b", ""])
ticks = st.integers(0, 3)
times = st.sampled_from([0.0, 990.0, 1000.0, 1000.04, 1001.0, 1003.0, 2000.0, math.inf, math.nan]) | st.floats()
names = st.sampled_from(["box", "BOX.", "box.lan", "box.office", "localhost", "far", ""])
uids = st.sampled_from([0, 1000, 65534])
dirs = st.sampled_from(["/src/app", "/tmp"])


def maybe(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


claims = st.builds(
    Claim,
    kind=st.sampled_from(ClaimKind),
    provider=st.sampled_from(["kimi-cli", "qwen-code", ""]),
    home=st.just("/h"),
    scope=maybe(st.sampled_from(["a", "b"])),
    session_id=st.sampled_from(["s1", "s2"]),
    path=st.just("/h/x"),
    pid=pids,
    written_at=maybe(times),
    hostname=maybe(names),
    boot_id=maybe(boots),
    pid_ns=maybe(namespaces),
    start_ticks=maybe(ticks),
    owner_uid=maybe(uids),
    on_network_fs=st.booleans(),
    work_dir=maybe(dirs),
    ended_at=st.one_of(st.none(), st.none(), st.none(), times),
    many=st.booleans(),
)
probes = st.builds(
    ProbeFacts,
    pid=pids,
    state=st.sampled_from(ProcessState),
    start_ticks=maybe(ticks),
    started_at=maybe(times),
    uid=maybe(uids),
    pid_ns=maybe(namespaces),
    cwd=maybe(dirs),
    names=st.sampled_from([(), ("kimi",), ("qwen", "node"), ("sleep",)]),
    inner_pids=st.sampled_from([(), (), (31337,)]),
)
hosts = st.builds(
    HostFacts,
    hostname=names,
    boot_id=maybe(boots),
    booted_at=st.sampled_from([0.0, 500.0, 995.0]),
    now=st.sampled_from([1000.0, 2000.0]),
    pid_ns=namespaces,
    pid_ns_is_initial=st.booleans(),
    uts_ns_is_initial=st.booleans(),
    uid=uids,
)
pins = st.none() | st.builds(ProcessIdentity, boots, namespaces, pids, ticks)
MANY = settings(max_examples=250, deadline=None, database=None)
DEAD_STATES = {ProcessState.GONE, ProcessState.ZOMBIE, ProcessState.THREAD, ProcessState.KERNEL}


@MANY
@given(claims, st.none() | probes, hosts, pins)
def test_every_combination_has_a_verdict_with_a_rule_and_a_sentence(
    claim: Claim, probe: ProbeFacts | None, host: HostFacts, pin: ProcessIdentity | None
) -> None:
    verdict = decide_liveness(claim, probe, host, pin)
    assert verdict.rule and verdict.reason and verdict.claim is claim
    assert (verdict.identity is not None) == (verdict.liveness is Liveness.LIVE)
    assert not (verdict.elsewhere and verdict.liveness in (Liveness.LIVE, Liveness.STALE))


@MANY
@given(claims, probes, hosts, pins)
def test_never_live_with_other_ticks_another_boot_or_a_dead_process(
    claim: Claim, probe: ProbeFacts, host: HostFacts, pin: ProcessIdentity | None
) -> None:
    if decide_liveness(claim, probe, host, pin).liveness is not Liveness.LIVE:
        return
    assert probe.state is ProcessState.RUNNING
    assert claim.ended_at is None
    if host.boot_id and probe.start_ticks is not None:  # else only its start time can tell
        assert claim.start_ticks in (None, probe.start_ticks)
        if claim.start_ticks is not None:
            assert claim.boot_id in (None, "", host.boot_id)
    if claim.pid_ns is not None and probe.pid_ns is not None and claim.boot_id and claim.start_ticks is not None:
        assert claim.pid_ns == probe.pid_ns or not host.boot_id


@MANY
@given(claims, st.none() | probes, hosts, pins)
def test_never_stale_without_positive_proof(
    claim: Claim, probe: ProbeFacts | None, host: HostFacts, pin: ProcessIdentity | None
) -> None:
    if decide_liveness(claim, probe, host, pin).liveness is not Liveness.STALE:
        return
    written = claim.written_at
    began_late = (
        probe is not None
        and probe.started_at is not None
        and written is not None
        and probe.started_at > written + CLOCK_TOLERANCE_S
    )
    other_ticks = (
        probe is not None
        and probe.start_ticks is not None
        and (
            claim.start_ticks not in (None, probe.start_ticks)
            or (pin is not None and pin.start_ticks != probe.start_ticks)
        )
    )
    other_ns = (
        probe is not None
        and probe.pid_ns is not None
        and (claim.pid_ns not in (None, probe.pid_ns) or (pin is not None and pin.pid_ns != probe.pid_ns))
    )
    assert (
        claim.ended_at is not None
        or (claim.boot_id and claim.boot_id != host.boot_id)
        or (pin is not None and pin.boot_id != host.boot_id)
        or (written is not None and written < host.booted_at - CLOCK_TOLERANCE_S)
        or (probe is not None and probe.state in DEAD_STATES)
        or began_late
        or other_ticks
        or other_ns
    )


@MANY
@given(claims, probes, hosts, pins, st.sampled_from(["/src/app", "/tmp"]))
def test_corroboration_never_makes_live_and_only_ever_saves_from_stale(
    claim: Claim, probe: ProbeFacts, host: HostFacts, pin: ProcessIdentity | None, cwd: str
) -> None:
    def with_hints(cwd: str | None, names: tuple[str, ...]) -> ProbeFacts:
        return ProbeFacts(
            pid=probe.pid,
            state=probe.state,
            start_ticks=probe.start_ticks,
            started_at=probe.started_at,
            uid=probe.uid,
            pid_ns=probe.pid_ns,
            inner_pids=probe.inner_pids,
            cwd=cwd,
            names=names,
        )

    bare = decide_liveness(claim, with_hints(None, ()), host, pin)
    hinted = decide_liveness(claim, with_hints(cwd, ("kimi", "qwen")), host, pin)
    if bare.liveness is not hinted.liveness:
        assert (bare.liveness, hinted.liveness) == (Liveness.STALE, Liveness.UNKNOWN)
        assert hinted.rule == "clock-step"


@MANY
@given(claims, hosts, st.sets(pids, max_size=3))
def test_a_listing_leaves_out_only_what_a_full_look_calls_dead(claim: Claim, host: HostFacts, seen: set[int]) -> None:
    network = claim.on_network_fs
    if not is_plainly_gone(claim.pid, claim.hostname, host, {1, *seen}, on_network_fs=network):
        return
    # Of these no hint is kept (system/runtime_claims): the claim is looked at each time.
    ahead = claim.written_at is not None and not -math.inf < claim.written_at <= host.now
    unstarted = claim.pid_ns is not None and (claim.start_ticks is None or not claim.boot_id or not host.boot_id)
    invalid = type(claim.pid) is not int or not 1 <= claim.pid <= MAX_PID
    if not (ahead or unstarted or invalid):
        nobody = ProbeFacts(pid=claim.pid, state=ProcessState.GONE, pid_ns=claim.pid_ns)
        assert decide_liveness(claim, nobody, host, None).liveness is Liveness.STALE


@pytest.mark.parametrize(
    ("pid", "hostname", "on_network_fs", "seen", "gone"),
    [
        (4711, "box", True, {1}, True),
        (4711, "box", True, {1, 4711}, False),
        (4711, "localhost", False, {1}, True),
        (4711, "localhost", True, {1}, False),
        (4711, None, True, {1}, False),
        (4711, "box", False, {4712}, False),
    ],
    ids=["gone", "runs", "generic name", "namesake on a shared home", "no name on a shared home", "hidepid"],
)
def test_what_is_plainly_gone(pid: int, hostname: str | None, on_network_fs: bool, seen: set[int], gone: bool) -> None:
    on = facts.host(hostname=hostname or "box")
    assert is_plainly_gone(pid, hostname, on, seen, on_network_fs=on_network_fs) is gone


@MANY
@given(claims, probes, hosts)
def test_another_host_name_without_our_boot_is_never_judged_here(
    claim: Claim, probe: ProbeFacts, host: HostFacts
) -> None:
    if claim.hostname == "far" and host.hostname != "far" and claim.boot_id != host.boot_id:
        verdict = decide_liveness(claim, probe, host, None)
        assert verdict.elsewhere or verdict.rule in ("ended", "invalid:pid", "invalid:written_at")


@MANY
@given(st.lists(st.tuples(claims, probes), max_size=5), hosts)
def test_superseding_only_ever_takes_belief_away_and_only_from_foreign_records(
    pairs: list[tuple[Claim, ProbeFacts]], host: HostFacts
) -> None:
    before = [decide_liveness(claim, probe, host, None) for claim, probe in pairs]
    after = decide_superseded(before)
    assert [verdict.claim for verdict in after] == [verdict.claim for verdict in before]
    for old, new in zip(before, after, strict=True):
        if new != old:
            assert old.claim.kind is ClaimKind.RUNTIME and not old.claim.many
            assert old.claim.boot_id is None or old.claim.start_ticks is None
            assert new.liveness in (Liveness.STALE, Liveness.UNKNOWN)
            assert new.rule in ("superseded", "tie")
