"""Every known way in which a record and the process it names can disagree, as facts in and verdict out."""

from __future__ import annotations

from typing import Any

import pytest

from corral.model.claim import Claim
from corral.model.process import HostFacts, ProbeFacts, ProcessIdentity, ProcessState
from corral.model.verdict import Liveness
from tests.unit.sessions.decide.liveness_facts import (
    BOOT,
    BOOTED_AT,
    CONTAINER_NS,
    INITIAL_NS,
    NOW,
    OTHER_BOOT,
    PIN,
    TICKS,
    WRITTEN_AT,
    container,
    exact,
    host,
    in_state,
    judge,
    look_alike,
    no_process,
    process,
    record,
    words,
)

HOUR, DAY = 3600.0, 86400.0
NFS_HOME: dict[str, Any] = {"on_network_fs": True, "hostname": "localhost"}
Row = tuple[str, Claim, ProbeFacts | None, HostFacts, ProcessIdentity | None, str]


def row(
    name: str,
    claim: Claim,
    probe: ProbeFacts | None,
    expected: str,
    on: HostFacts | None = None,
    pin: ProcessIdentity | None = None,
) -> Row:
    return name, claim, probe, on or host(), pin, expected


V1_ROWS = [
    row("1 runs, began before the record", record(), process(), "live(began-before)"),
    row("1 began within the error of its start time", record(), process(began=0.04), "live(began-before)"),
    row("2 stopped or frozen is running", record(), in_state(ProcessState.RUNNING), "live(began-before)"),
    row("3 gone", record(), no_process(), "stale(gone)"),
    row("4 reused by another program", record(), process(began=2.21), "stale(reused)"),
    row(
        "5 reused by the same CLI in the same directory",
        record(),
        look_alike(began=60),
        "unknown(clock-step)",
    ),
    row("6 reused within two seconds", record(), process(began=1.5), "unknown(tolerance)"),
    row("6 the same, looking alike", record(), look_alike(began=1.5), "unknown(tolerance)"),
    row("7 zombie", record(), in_state(ProcessState.ZOMBIE), "stale(zombie)"),
    row("8 zombie of another user", record(), in_state(ProcessState.ZOMBIE, uid=65534), "stale(zombie)"),
    row("9 a thread of another process", record(), no_process(state=ProcessState.THREAD), "stale(tid)"),
    row("10 reboot, number free", record(written_at=900_000.0), no_process(), "stale(reboot)"),
    row("10 reboot, number taken", record(written_at=900_000.0), process(), "stale(reboot)"),
    row("11 record of the future", record(written_at=NOW + DAY), process(), "unknown(future)"),
    row("11 the same, its process gone", record(written_at=NOW + DAY), no_process(), "unknown(future)"),
    row("12 clock set forward, looks alike", record(), look_alike(began=HOUR), "unknown(clock-step)"),
    row(
        "12 clock set forward by 30 days: the record seems older than the boot",
        record(written_at=WRITTEN_AT - 30 * DAY),
        look_alike(began=0),
        "unknown(clock-step)",
    ),
    row("12 clock set forward, nothing alike: the known limit", record(), process(began=HOUR), "stale(reused)"),
    row("13 clock set back", record(written_at=NOW + HOUR), process(), "unknown(future)"),
    row("15 suspended for days", record(), process(began=-30 * DAY), "live(began-before)"),
    row("17 other host", record(hostname="other"), process(), "remote-host elsewhere"),
    row("17 other host, number free here", record(hostname="other"), no_process(), "remote-host elsewhere"),
    row("18 letter case", record(hostname="BOX"), process(), "live(began-before)"),
    row("18 final dot", record(hostname="box."), process(), "live(began-before)"),
    row("19 short name and full name", record(hostname="box.lan"), process(), "live(began-before)"),
    row("19 the same, gone", record(hostname="box.lan"), no_process(), "unknown(host-ambiguous)"),
    row(
        "19 the same label in two domains",
        record(hostname="box.lan"),
        process(),
        "unknown(host-ambiguous)",
        on=host(hostname="box.office"),
    ),
    row(
        "20 two machines named alike share a home, number free",
        record(**NFS_HOME),
        no_process(),
        "unknown(shared-home)",
        on=host(hostname="localhost"),
    ),
    row(
        "20 the same, number taken earlier",
        record(**NFS_HOME),
        process(),
        "unknown(shared-home)",
        on=host(hostname="localhost"),
    ),
    row(
        "20 the same, older than this boot",
        record(**NFS_HOME, boot_id=OTHER_BOOT, start_ticks=TICKS),
        process(),
        "unknown(shared-home)",
        on=host(hostname="localhost"),
    ),
    row("20 a network home but a name of its own", record(on_network_fs=True), no_process(), "stale(gone)"),
    row("21 this host was renamed", record(), process(), "remote-host elsewhere", on=host(hostname="new")),
    row("22 container with a name of its own", record(hostname="3f2a"), process(), "remote-host elsewhere"),
    row(
        "23 container named as the host, seen through its inner number",
        record(),
        no_process(inner_pids=(31337,)),
        "unknown(container) elsewhere",
    ),
    row(
        "23 the same, the number taken here since",
        record(),
        process(began=60, inner_pids=(31337,)),
        "unknown(container) elsewhere",
    ),
    row(
        "24 small number of a container: a kernel thread here",
        record(pid=17),
        in_state(ProcessState.KERNEL, pid=17, began=-4000),
        "unknown(foreign-namespace) elsewhere",
    ),
    row(
        "24 a kernel thread younger than the record",
        record(),
        in_state(ProcessState.KERNEL, began=60),
        "stale(reused)",
    ),
    row(
        "25 host's record read in a container that has the host's name",
        record(),
        no_process(),
        "unknown(pid-namespace) elsewhere",
        on=container(uts_ns_is_initial=True),
    ),
    row(
        "25 the same, and an older process bears the number in the container",
        record(),
        process(pid_ns=CONTAINER_NS),
        "unknown(pid-namespace)",
        on=container(uts_ns_is_initial=True),
    ),
    row("26 container restarted", record(), no_process(), "stale(gone)", on=container()),
    row("26 the same, number taken", record(), process(began=60), "stale(reused)", on=container()),
    row("27 process of another user", record(), process(uid=65534), "unknown(owner)"),
    row("27 the record is root's", record(owner_uid=0), process(uid=65534), "live(began-before)"),
    row("28 hidden", record(), no_process(state=ProcessState.HIDDEN), "unknown(hidden)"),
    row("29 no /proc, number taken", record(), no_process(state=ProcessState.NO_PROC), "unknown(no-proc)"),
    row("29 no /proc, number free", record(), no_process(), "stale(gone)"),
    *[
        row(f"30 pid {value!r}", record(pid=value), process(), "unknown(invalid:pid)")
        for value in (0, -1, True, 1e3, "12", 2**31, 2**64)
    ],
    row(
        "30b pid 1 of a container, inside",
        record(pid=1),
        process(pid=1),
        "live(began-before)",
        on=container(),
    ),
    row("30b pid 1 on the host", record(pid=1), process(pid=1), "unknown(foreign-namespace) elsewhere"),
    row("31 comm like a stat line", record(), process(names=(") S 1 (",)), "live(began-before)"),
    row("32 exec'd another program", record(), process(names=("vi",)), "live(began-before)"),
    row("33 a hook wrote its own pid", record(), no_process(), "stale(gone)"),
    row(
        "45 a platform without start times",
        record(),
        no_process(state=ProcessState.NO_PROC),
        "unknown(no-proc)",
    ),
    row("45 WSL and Windows: two names", record(hostname="DESKTOP-1"), process(), "remote-host elsewhere"),
    row("no time in the record", record(written_at=None), process(), "unknown(undated)"),
    row("no time in the record, gone", record(written_at=None), no_process(), "stale(gone)"),
    row("time is not a number", record(written_at=float("nan")), process(), "unknown(invalid:written_at)"),
    row("start unreadable", record(), process(started_at=None), "unknown(undated)"),
    row("not looked at", record(), None, "unknown(not-probed)"),
    row("no host in the record", record(hostname=None), process(), "live(began-before)"),
]

EXACT_ROWS = [
    row("the very process", exact(), process(), "live(exact)"),
    row("the very process, though the clock was set", exact(), process(began=HOUR), "live(exact)"),
    row(
        "the very process, though the record is of the future",
        exact(written_at=NOW + DAY),
        process(),
        "live(exact)",
    ),
    row("other ticks", exact(), process(start_ticks=TICKS + 1), "stale(reused)"),
    row("other ticks, looking alike", exact(), look_alike(began=60), "stale(reused)"),
    row("same ticks in another namespace", exact(), process(pid_ns=CONTAINER_NS), "stale(reused)"),
    row("gone", exact(), no_process(), "stale(gone)"),
    row("zombie", exact(), in_state(ProcessState.ZOMBIE), "stale(zombie)"),
    row("thread", exact(), no_process(state=ProcessState.THREAD), "stale(tid)"),
    row("kernel thread", exact(), in_state(ProcessState.KERNEL), "stale(reused)"),
    row("hidden", exact(), no_process(state=ProcessState.HIDDEN), "unknown(hidden)"),
    row("no /proc", exact(), no_process(state=ProcessState.NO_PROC), "unknown(no-proc)"),
    row("not looked at", exact(), None, "unknown(not-probed)"),
    row("start unreadable", exact(), process(start_ticks=None), "unknown(undated)"),
    row("other boot", exact(boot_id=OTHER_BOOT), process(), "stale(reboot)"),
    row(
        "other boot, other host",
        exact(boot_id=OTHER_BOOT, hostname="far"),
        process(),
        "remote-host elsewhere",
    ),
    row("other boot, no host named", exact(boot_id=OTHER_BOOT, hostname=None), process(), "stale(reboot)"),
    row(
        "other boot, no host named, network home",
        exact(boot_id=OTHER_BOOT, hostname=None, on_network_fs=True),
        process(),
        "unknown(shared-home)",
    ),
    row("21 renamed host, same boot", exact(hostname="old-name"), process(), "live(exact)"),
    row("root started it in a user's home", exact(), process(uid=0), "live(exact)"),
    row(
        "24 small number of a container",
        exact(pid_ns=CONTAINER_NS),
        process(),
        "unknown(foreign-namespace) elsewhere",
    ),
    row(
        "25 the host's, read in a container",
        exact(),
        process(pid_ns=CONTAINER_NS),
        "unknown(foreign-namespace) elsewhere",
        on=container(),
    ),
    row(
        "25 the same, gone here",
        exact(),
        no_process(),
        "unknown(foreign-namespace) elsewhere",
        on=container(),
    ),
    row(
        "23 container's process found from outside",
        exact(pid=17, pid_ns=CONTAINER_NS),
        process(pid=31337, pid_ns=CONTAINER_NS),
        "live(container)",
    ),
    row(
        "23 the same, other ticks",
        exact(pid=17, pid_ns=CONTAINER_NS),
        process(pid=31337, pid_ns=CONTAINER_NS, start_ticks=TICKS + 1),
        "unknown(foreign-namespace) elsewhere",
    ),
    row(
        "23 nobody in that container has the number",
        exact(pid=17, pid_ns=CONTAINER_NS),
        no_process(pid=17, pid_ns=CONTAINER_NS),
        "stale(gone)",
    ),
    row("boot and ticks without namespace", exact(pid_ns=None), process(), "live(exact)"),
    row(
        "boot and ticks without namespace, in a container named as the host",
        exact(pid_ns=None),
        no_process(),
        "unknown(pid-namespace) elsewhere",
        on=container(uts_ns_is_initial=True),
    ),
    row("ticks without boot", exact(boot_id=None), process(), "live(start-ticks)"),
    row("ticks without boot settle the tolerance", exact(boot_id=None), process(began=1), "live(start-ticks)"),
    row("ticks without boot, others", exact(boot_id=None), process(start_ticks=1), "stale(reused)"),
    row("ticks without boot, clock set", exact(boot_id=None), process(began=HOUR), "unknown(clock-step)"),
    row("ticks without boot or time", exact(boot_id=None, written_at=None), process(), "unknown(boot-unknown)"),
    row(
        "16 ticks are not comparable in a private time namespace",
        exact(),
        process(start_ticks=TICKS + 10_000_000),
        "live(began-before)",
        on=host(boot_id=None),
    ),
    row("ended, whatever runs", exact(ended_at=NOW), process(), "stale(ended)"),
]

PIN_ROWS = [
    row("14 clock set forward", record(), process(began=HOUR), "live(pinned)", pin=PIN),
    row("14 clock set forward by 30 days", record(), process(began=30 * DAY), "live(pinned)", pin=PIN),
    row("14 clock set back", record(written_at=NOW + HOUR), process(), "live(pinned)", pin=PIN),
    row("14 the same, reused", record(), process(start_ticks=TICKS + 1), "stale(reused)", pin=PIN),
    row("14 the same, gone", record(written_at=NOW + HOUR), no_process(), "stale(gone)", pin=PIN),
    row(
        "11 reboot with a wrong clock",
        record(written_at=NOW + DAY),
        process(),
        "stale(reboot)",
        pin=PIN._replace(boot_id=OTHER_BOOT),
    ),
    row("21 this host was renamed", record(hostname="old-name"), process(), "live(pinned)", pin=PIN),
    row(
        "a pin of another pid is no pin",
        record(),
        process(began=60),
        "stale(reused)",
        pin=PIN._replace(pid=5),
    ),
    row(
        "a pin without a boot is no pin",
        record(),
        process(began=60),
        "stale(reused)",
        pin=PIN._replace(boot_id=""),
    ),
    row("the writer's ticks go before a pin", exact(start_ticks=1), process(), "stale(reused)", pin=PIN),
]


@pytest.mark.parametrize("case", V1_ROWS + EXACT_ROWS + PIN_ROWS, ids=lambda case: case[0])
def test_the_facts_lead_to_the_verdict(case: Row) -> None:
    _, claim, probe, on, pin, expected = case
    verdict = judge(claim, probe, on, pin)
    assert words(verdict) == expected
    assert verdict.reason
    assert (verdict.identity is not None) == (verdict.liveness is Liveness.LIVE)


def test_the_reason_has_the_numbers() -> None:
    assert judge(record(), process(began=2.21)).reason == (
        "pid 4711 began 2.21 s after the record was written: the number was reused"
    )
    assert judge(record(), process(began=-90)).reason == "pid 4711 began 90.00 s before the record was written"
    assert "6.0 d" in judge(record(written_at=BOOTED_AT - 6 * DAY), process()).reason


def test_a_live_verdict_names_the_process_it_was_verified_against() -> None:
    assert judge(record(), process()).identity == PIN
    inside = judge(exact(pid=17, pid_ns=CONTAINER_NS), process(pid=31337, pid_ns=CONTAINER_NS))
    assert inside.identity == ProcessIdentity(BOOT, CONTAINER_NS, 31337, TICKS)


def test_a_process_whose_namespace_may_not_be_read_is_taken_to_be_in_ours() -> None:
    verdict = judge(record(), process(pid_ns=None))
    assert verdict.identity is not None and verdict.identity.pid_ns == INITIAL_NS
