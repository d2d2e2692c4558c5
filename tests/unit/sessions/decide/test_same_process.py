"""Records without an identity are judged as the process that surely wrote them, and as no other."""

from __future__ import annotations

from typing import Any

import pytest

from corral.model.claim import Claim, ClaimKind
from corral.model.process import ProbeFacts, ProcessState
from corral.sessions.decide.conflicts import decide_by_writer
from tests.unit.sessions.decide.liveness_facts import (
    BOOT,
    BOOTED_AT,
    CONTAINER_NS,
    INITIAL_NS,
    OTHER_BOOT,
    PID,
    TICKS,
    WRITTEN_AT,
    host,
    judge,
    process,
    record,
    words,
)

# The process of these tests began 1000 s before its runtime.json was written.
BEGAN = BOOTED_AT + TICKS / 100


def inner(kind: ClaimKind = ClaimKind.REGISTRY, **changed: Any) -> Claim:
    """The exact word of a process in a container, a moment after its runtime.json."""
    fields: dict[str, Any] = {"kind": kind, "boot_id": BOOT, "pid_ns": CONTAINER_NS, "start_ticks": TICKS}
    fields |= {"hostname": None, "written_at": WRITTEN_AT + 0.2, "path": "/h/registry"}
    if kind is ClaimKind.JOURNAL:
        fields |= {"hostname": "inside", "boottime": WRITTEN_AT + 0.2 - BOOTED_AT}
    return record(**(fields | changed))


GONE = ProbeFacts(pid=PID, state=ProcessState.GONE, pid_ns=CONTAINER_NS)
RUNS = ProbeFacts(pid=99, state=ProcessState.RUNNING, pid_ns=CONTAINER_NS, start_ticks=TICKS, started_at=BEGAN)
UNSEEN = ProbeFacts(pid=PID, state=ProcessState.HIDDEN)


def decide(written: Claim, *writers: tuple[Claim, ProbeFacts | None], ours: ProbeFacts | None = None) -> str:
    """The verdict on a runtime.json beside these words, with this process of ours under its number."""
    judged = [judge(written, ours or ProbeFacts(pid=PID, state=ProcessState.KERNEL))]
    judged += [judge(claim, probe) for claim, probe in writers]
    return words(decide_by_writer(judged, host())[0])


@pytest.mark.parametrize("hostname", ["inside", "box"])
@pytest.mark.parametrize("kind", [ClaimKind.REGISTRY, ClaimKind.JOURNAL])
def test_it_is_dead_when_the_process_that_wrote_it_is(kind: ClaimKind, hostname: str) -> None:
    writer = inner(kind, **({"hostname": hostname} if kind is ClaimKind.JOURNAL else {}))
    assert decide(record(hostname=hostname)).endswith("elsewhere")
    assert decide(record(hostname=hostname), (writer, GONE)) == "stale(same-process)"


def test_it_is_of_the_process_inside_and_not_of_ours_with_that_number() -> None:
    assert decide(record(), ours=process()) == "live(began-before)"
    verdicts = decide_by_writer([judge(record(), process()), judge(inner(), RUNS)], host())
    assert [words(one) for one in verdicts] == ["live(same-process)", "live(container)"]
    assert verdicts[0].identity == verdicts[1].identity
    assert decide(record(), (inner(), GONE), ours=process()) == "stale(same-process)"


def test_what_cannot_be_seen_of_its_process_cannot_be_seen_of_it() -> None:
    assert decide(record(hostname="inside"), (inner(), UNSEEN)) == "unknown(same-process) elsewhere"


def test_a_process_that_left_the_session_after_it_has_left_it() -> None:
    left = inner(ClaimKind.JOURNAL, ended_at=WRITTEN_AT + 60)
    assert decide(record(hostname="inside"), (left, None)) == "stale(same-process)"


def test_also_in_an_earlier_boot_for_the_journal_has_both_clocks() -> None:
    left = inner(ClaimKind.JOURNAL, ended_at=WRITTEN_AT + 60, boot_id=OTHER_BOOT)
    assert decide(record(hostname="inside"), (left, None)) == "stale(same-process)"
    assert decide(record(hostname="inside"), (inner(boot_id=OTHER_BOOT), None)) == "remote-host elsewhere"


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": PID + 1},
        {"session_id": "s2"},
        {"home": "/other"},
        {"scope": "another"},
        {"hostname": "another-container"},
        {"version": "0.9"},
        {"written_at": WRITTEN_AT - 0.1, "ended_at": WRITTEN_AT - 0.1},
        {"start_ticks": int((WRITTEN_AT + 5 - BOOTED_AT) * 100)},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_a_word_of_another_process_session_or_time_says_nothing(changed: dict[str, Any]) -> None:
    word = inner(ClaimKind.JOURNAL, **({"ended_at": WRITTEN_AT + 60} | changed))
    assert decide(record(hostname="inside", version="1.0"), (word, None)) == "remote-host elsewhere"


def test_hosts_that_share_a_home_may_have_the_same_names_and_numbers() -> None:
    left = inner(ClaimKind.JOURNAL, ended_at=WRITTEN_AT + 60)
    assert decide(record(hostname="inside", on_network_fs=True), (left, None)) == "remote-host elsewhere"


def test_of_two_that_may_have_written_it_one_is_not_dead() -> None:
    left = inner(ClaimKind.JOURNAL, ended_at=WRITTEN_AT + 60)
    twin = inner(ClaimKind.JOURNAL, pid_ns=CONTAINER_NS + 1)
    alive = ProbeFacts(pid=98, state=ProcessState.RUNNING, pid_ns=CONTAINER_NS + 1, start_ticks=TICKS)
    for order in ([(left, None), (twin, alive)], [(twin, alive), (left, None)]):
        assert decide(record(hostname="inside"), *order) == "live(same-process)"


def test_a_record_that_is_proven_needs_no_help() -> None:
    registry = inner(pid_ns=INITIAL_NS)
    assert decide(record(), (registry, process()), ours=process()) == "live(began-before)"
    assert decide(record(written_at=WRITTEN_AT - 90_000), (registry, process()), ours=process()) == "stale(reboot)"
