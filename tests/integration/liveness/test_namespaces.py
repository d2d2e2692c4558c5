"""The same records, read from other namespaces and through a changed /proc: containers, names, boots."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from corral.machine.processes import Process, ProcessTable
from corral.model.claim import Claim
from tests.integration.liveness.machine import (
    NOBODY,
    Question,
    exact,
    identity_of,
    judge,
    judge_within,
    need,
    need_root,
    record,
    running,
    unshare,
    wait_until,
)

PRIVATE_PIDS = ("--pid", "--fork", "--mount-proc", "--kill-child")


def _free_pid() -> int:
    """A number that nobody on the host has, and that a namespace can give out."""
    highest = int(Path("/proc/sys/kernel/pid_max").read_text())
    table = ProcessTable()
    return next(pid for pid in range(highest - 2, 300, -1) if table.find(pid) is None)


def test_25_a_container_with_the_hosts_name_cannot_judge_the_hosts_records() -> None:
    with running() as child:
        verdicts = judge_within(unshare(*PRIVATE_PIDS), [record(child.pid), exact(child.pid)])
    assert verdicts == ["unknown(pid-namespace) elsewhere", "unknown(foreign-namespace) elsewhere"]


def test_26_a_container_with_its_own_name_proves_its_own_dead() -> None:
    verdicts = judge_within(unshare("--uts", *PRIVATE_PIDS), [record(_free_pid())])
    assert verdicts == ["stale(gone)"]


def test_30b_pid_1_is_an_ordinary_process_inside_its_container() -> None:
    need_root()
    questions = [Question(record(1), written_there=True)]
    assert judge_within(unshare("--uts", *PRIVATE_PIDS), questions) == ["live(began-before)"]


def test_23_a_containers_process_is_seen_from_the_host() -> None:
    inner = _free_pid()
    with _container(inner) as (outer, claim):
        assert judge(record(inner, owner_uid=0)) == "unknown(container) elsewhere"
        assert identity_of(outer).pid_ns == claim.pid_ns
        assert judge(claim) == "live(container)"
        os.kill(outer, 9)
        wait_until(lambda: judge(claim).startswith("stale"), "the container's process ends")
    wait_until(lambda: judge(claim) == "stale(gone)", "the rest of the container ends")


def test_a_containers_process_under_another_clock_is_not_called_dead() -> None:
    """In a time namespace of its own a process writes down other start ticks than we read of it."""
    inner = _free_pid()
    with _container(inner, "--time", "--boottime", "100000") as (outer, claim):
        assert claim.start_ticks is not None
        written_there = msgspec.structs.replace(claim, start_ticks=claim.start_ticks + 100_000 * 100)
        assert judge(written_there) == "unknown(foreign-namespace) elsewhere"
        os.kill(outer, 9)
        wait_until(lambda: judge(written_there) == "stale(gone)", "the container's process ends")


def test_a_process_under_another_clock_among_our_pids_is_not_called_reused() -> None:
    need_root()
    with running(*unshare("--time", "--boottime", "100000", "--fork", "--kill-child"), need("sleep"), "300") as outside:
        wait_until(lambda: _sleeper_below(outside.pid) is not None, "the process starts")
        process = _sleeper_below(outside.pid)
        assert process is not None
        claim = exact(process.pid, start_ticks=process.start_ticks + 100_000 * 100)
        assert judge(claim) == "unknown(undated)"
        assert judge(exact(process.pid)) == "live(exact)"
    wait_until(lambda: judge(claim) == "stale(gone)", "the process is gone")


def test_a_number_that_another_process_of_the_container_has_now_is_dead() -> None:
    inner = _free_pid()
    with _container(inner) as (_, claim):
        assert claim.start_ticks is not None
        assert judge(msgspec.structs.replace(claim, start_ticks=claim.start_ticks - 500)) == "stale(gone)"


def test_a_container_that_is_not_ours_may_have_the_number() -> None:
    """As an ordinary user: the namespaces of root's processes can't be read, only the numbers inside."""
    inner = _free_pid()
    with _container(inner) as (_, claim):
        assert claim.pid_ns is not None and claim.start_ticks is not None
        other = msgspec.structs.replace(claim, pid_ns=claim.pid_ns + 1)
        older = msgspec.structs.replace(claim, start_ticks=claim.start_ticks - 500)
        free = msgspec.structs.replace(other, pid=inner - 1000)
        assert [judge(one) for one in (other, older, free)] == ["stale(gone)"] * 3
        verdicts = judge_within([need("env")], [other, older, free], uid=NOBODY)
        assert verdicts == ["unknown(foreign-namespace) elsewhere"] * 2 + ["stale(gone)"]


def test_17_under_another_host_name_a_record_is_remote() -> None:
    with running() as child:
        questions = [record(child.pid), exact(child.pid), Question(record(child.pid), identity_of(child.pid))]
        verdicts = judge_within(unshare("--uts"), questions, setup="hostname some-other-host")
    # 21: the same boot proves that it is the same machine, renamed.
    assert verdicts == ["remote-host elsewhere", "live(exact)", "live(pinned)"]


def test_18_19_spellings_of_the_host_name() -> None:
    with running() as child:
        name = os.uname().nodename
        spellings = [name.upper(), f"{name}.", f"{name}.some.domain"]
        questions = [record(child.pid, hostname=spelling) for spelling in spellings]
        assert [judge(question) for question in questions] == ["live(began-before)"] * 3
    assert [judge(question) for question in questions[1:]] == ["stale(gone)", "unknown(host-ambiguous)"]


def test_10_11_another_boot_id_is_a_reboot(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("11111111-2222-3333-4444-555555555555\n")
    with running() as child:
        questions = [exact(child.pid), Question(record(child.pid), identity_of(child.pid)), record(child.pid)]
        setup = f"mount --bind {tmp_path}/boot_id /proc/sys/kernel/random/boot_id"
        verdicts = judge_within(unshare("--mount"), questions, setup=setup)
    assert verdicts == ["stale(reboot)", "stale(reboot)", "live(began-before)"]


def test_10_a_record_older_than_the_boot_is_of_another_boot() -> None:
    with running() as child:
        booted_at = ProcessTable().boot_offset
        assert judge(record(child.pid, written_at=booted_at - 10)) == "stale(reboot)"
    assert judge(record(child.pid, written_at=booted_at - 10)) == "stale(reboot)"


def test_a_shifted_btime_in_proc_stat_fools_nobody(tmp_path: Path) -> None:
    lines = Path("/proc/stat").read_text().splitlines()
    shifted = [f"btime {int(line.split()[1]) + 5000}" if line.startswith("btime") else line for line in lines]
    (tmp_path / "stat").write_text("\n".join(shifted) + "\n")
    with running() as child:
        setup = f"mount --bind {tmp_path}/stat /proc/stat; grep -q 'btime {_btime(shifted)}' /proc/stat"
        verdicts = judge_within(unshare("--mount"), [record(child.pid), exact(child.pid)], setup=setup)
    assert verdicts == ["live(began-before)", "live(exact)"]


def test_16_a_reader_in_another_time_namespace_says_the_same() -> None:
    with running() as child:
        questions = [
            record(child.pid),
            exact(child.pid),
            record(child.pid, written_at=child_start(child) - 5),
        ]
        verdicts = judge_within(unshare("--time", "--boottime", "100000", "--fork"), questions)
    # Ticks are shifted there: exact comparison would be wrong, the start time is not.
    assert verdicts == ["live(began-before)", "live(began-before)", "stale(reused)"]


def test_28_what_hidepid_hides_is_unknown() -> None:
    need_root()
    verdicts = judge_within(
        unshare("--uts", *PRIVATE_PIDS),
        [record(1), record(_free_pid())],
        setup="mount -o remount,hidepid=2 /proc",
        uid=NOBODY,
    )
    assert verdicts == ["unknown(hidden)", "stale(gone)"]


def test_29_without_proc_a_process_that_exists_is_unknown_and_a_free_number_is_gone() -> None:
    free = _free_pid()
    with running() as child:
        questions = [record(child.pid), exact(child.pid), record(free)]
        verdicts = judge_within(unshare("--mount"), questions, setup="umount -l /proc")
    assert verdicts == ["unknown(no-proc)", "unknown(no-proc)", "stale(gone)"]


def test_a_proc_that_counts_otherwise_than_we_do_is_no_proc() -> None:
    """After `unshare --pid` without a new /proc, the numbers in /proc are the outer ones."""
    verdicts = judge_within(unshare("--uts", "--pid", "--fork", "--kill-child"), [record(1), record(_free_pid())])
    assert verdicts == ["unknown(no-proc)", "stale(gone)"]


def child_start(child: subprocess.Popen[bytes]) -> float:
    process = ProcessTable().find(child.pid)
    assert process is not None
    return process.started_at


def _btime(lines: list[str]) -> str:
    return next(line.split()[1] for line in lines if line.startswith("btime"))


def _sleeper_below(pid: int) -> Process | None:
    return next((each for each in ProcessTable().descendants(pid) if each.comm == "sleep"), None)


@contextmanager
def _container(inner_pid: int, *more: str) -> Iterator[tuple[int, Claim]]:
    """A process with this number in PIDs of its own under the host's name: its outer PID, its claim."""
    need_root()
    need("sleep")
    script = f"echo {inner_pid - 1} >/proc/sys/kernel/ns_last_pid; sleep 300 & echo $!; wait"
    command = [*unshare(*more, *PRIVATE_PIDS), need("sh"), "-c", script]
    with running(*command, stdout=subprocess.PIPE) as outside:
        assert outside.stdout is not None
        assert int(outside.stdout.readline()) == inner_pid
        wait_until(lambda: _sleeper_below(outside.pid) is not None, "the container's process starts")
        process = _sleeper_below(outside.pid)
        assert process is not None
        yield process.pid, msgspec.structs.replace(exact(process.pid), pid=inner_pid)
