"""The look and the verdict on processes of this machine: running, stopped, ended, threads, other users."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corral.machine import procfs
from corral.machine.probe import probe
from corral.machine.processes import ProcessTable
from corral.model.process import ProcessState
from tests.integration.liveness.machine import (
    NOBODY,
    exact,
    identity_of,
    judge,
    need,
    need_root,
    record,
    running,
    wait_until,
)


def test_1_a_running_process_is_live() -> None:
    with running() as child:
        assert judge(record(child.pid)) == "live(began-before)"
        assert judge(exact(child.pid)) == "live(exact)"


def test_2_a_stopped_process_is_live() -> None:
    with running() as child:
        os.kill(child.pid, signal.SIGSTOP)
        wait_until(lambda: _state(child.pid) == "T", "the process stops")
        assert judge(record(child.pid)) == "live(began-before)"
        assert judge(exact(child.pid)) == "live(exact)"


def test_2_a_frozen_process_is_live() -> None:
    need_root()
    with running() as child, _frozen(child.pid):
        assert judge(record(child.pid)) == "live(began-before)"
        assert judge(exact(child.pid)) == "live(exact)"


def test_3_a_process_that_ended_is_gone() -> None:
    with running() as child:
        claims = record(child.pid), exact(child.pid)
    assert [judge(claim) for claim in claims] == ["stale(gone)"] * 2


def test_7_a_zombie_is_not_live_though_it_can_be_signalled() -> None:
    with running() as child:
        claims = record(child.pid), exact(child.pid)
        os.kill(child.pid, signal.SIGKILL)
        wait_until(lambda: _state(child.pid) == "Z", "the process ends")
        os.kill(child.pid, 0)
        assert [judge(claim) for claim in claims] == ["stale(zombie)"] * 2


def test_8_a_zombie_of_another_user_is_not_live() -> None:
    need_root()
    with running(need("sleep"), "300", user=NOBODY, group=NOBODY, extra_groups=[]) as child:
        claim = record(child.pid, owner_uid=NOBODY)
        assert judge(claim) == "live(began-before)"
        os.kill(child.pid, signal.SIGKILL)
        wait_until(lambda: _state(child.pid) == "Z", "the process ends")
        assert judge(claim) == "stale(zombie)"


def test_a_process_whose_first_thread_ended_runs_on(tmp_path: Path) -> None:
    program = compile_c(tmp_path, "leaderless", _LEADERLESS)
    with running(program) as child:
        wait_until(lambda: _state(child.pid) == "Z", "the first thread ends")
        assert judge(record(child.pid)) == "live(began-before)"
        claim = exact(child.pid)
        assert judge(claim) == "live(exact)"
        os.kill(child.pid, signal.SIGKILL)
        wait_until(lambda: judge(claim) == "stale(zombie)", "the whole process ends")


def test_9_a_thread_id_is_no_process() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        os.kill(thread.native_id, 0)
        assert judge(record(thread.native_id)) == "stale(tid)"
    finally:
        done.set()
        thread.join()


def test_24_a_kernel_thread_means_a_record_from_a_container() -> None:
    kernel = next((process for process in ProcessTable() if process.is_kernel), None)
    if kernel is None:
        pytest.fail("no kernel thread is visible: run this outside of a container")
    assert judge(record(kernel.pid)) == "unknown(foreign-namespace) elsewhere"
    assert judge(record(1)) == "unknown(foreign-namespace) elsewhere"


def test_27_another_users_process_does_not_serve_our_session() -> None:
    need_root()
    with running(need("sleep"), "300", user=NOBODY, group=NOBODY, extra_groups=[]) as child:
        assert judge(record(child.pid, owner_uid=1000)) == "unknown(owner)"
        assert judge(record(child.pid, owner_uid=NOBODY)) == "live(began-before)"


def test_27_a_process_that_may_not_be_dumped_keeps_its_owner() -> None:
    need_root()
    # The libraries come first: the user whom it becomes may not be able to read them.
    script = (
        f"import ctypes, os, time; os.setuid({NOBODY}); ctypes.CDLL(None).prctl(4, 0);"
        " print(1, flush=True); time.sleep(300)"
    )
    with running(sys.executable, "-c", script, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        assert probe(child.pid, time.time()).uid == NOBODY


def test_31_a_name_like_a_stat_line_is_read_right() -> None:
    script = "import ctypes; ctypes.CDLL(None).prctl(15, b') S 1 (Z) 0'); print(1, flush=True); input()"
    with running(sys.executable, "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        process = ProcessTable().find(child.pid)
        assert process is not None and process.comm == ") S 1 (Z) 0"
        assert process.parent_pid == os.getpid()
        assert judge(record(child.pid)) == "live(began-before)"
        assert judge(exact(child.pid)) == "live(exact)"


def test_32_a_process_that_becomes_another_program_is_the_same_process() -> None:
    with running(need("sh"), "-c", "read line; exec sleep 300", stdin=subprocess.PIPE) as child:
        claims = record(child.pid), exact(child.pid)
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        wait_until(lambda: _comm(child.pid) == "sleep", "the shell becomes sleep")
        assert [judge(claim) for claim in claims] == ["live(began-before)", "live(exact)"]


@pytest.mark.parametrize("reap", [True, False], ids=["reaped", "zombie"])
def test_43_a_process_that_dies_while_it_is_looked_at_is_not_live(reap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as child:
        claim = record(child.pid)
        read_uid = procfs.read_uid

        def die_after_stat_was_read(pid: int) -> int | None:
            os.kill(child.pid, signal.SIGKILL)
            if reap:
                child.wait()
            else:
                wait_until(lambda: _state(child.pid) == "Z", "the process ends")
            monkeypatch.setattr(procfs, "read_uid", read_uid)
            return read_uid(pid)

        monkeypatch.setattr(procfs, "read_uid", die_after_stat_was_read)
        assert judge(claim) == ("stale(gone)" if reap else "stale(zombie)")


@pytest.mark.parametrize("ended", [False, True], ids=["runs", "gone"])
def test_where_no_pidfd_can_be_had_the_answer_is_the_same(ended: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with running() as child:
        claim = record(child.pid)
        if ended:
            child.kill()
            child.wait()
        assert judge(claim) == ("stale(gone)" if ended else "live(began-before)")


def test_where_no_pidfd_can_be_had_a_thread_is_still_told_from_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        assert probe(thread.native_id, time.time()).state is ProcessState.THREAD
    finally:
        done.set()
        thread.join()


def test_a_pin_of_this_very_process_holds_and_of_its_predecessor_does_not() -> None:
    before = time.time()
    with running() as child:
        pin = identity_of(child.pid)
        long_ago = record(child.pid, written_at=before - 5)
        assert judge(long_ago) == "stale(reused)"
        assert judge(long_ago, pin) == "live(pinned)"
        assert judge(record(child.pid), pin._replace(start_ticks=pin.start_ticks - 1)) == "stale(reused)"
        assert judge(record(child.pid), pin._replace(boot_id="another")) == "stale(reboot)"


def test_start_times_are_right_to_some_milliseconds() -> None:
    for _ in range(20):
        before = time.time()
        with running() as child:
            after = time.time()
            started_at = probe(child.pid, after).started_at
            assert started_at is not None and before - 0.03 < started_at < after + 0.03


def test_a_look_needs_no_free_descriptors_kept() -> None:
    gc.collect()  # what earlier tests left open is not to be closed in between
    before = len(os.listdir("/proc/self/fd"))
    for pid in (os.getpid(), 1, 2, 4_000_000):
        probe(pid, time.time())
        probe(pid, None)
    assert len(os.listdir("/proc/self/fd")) == before


def _state(pid: int) -> str | None:
    stat = procfs.read_stat(pid)
    return stat and stat.state


def _comm(pid: int) -> str | None:
    stat = procfs.read_stat(pid)
    return stat and os.fsdecode(stat.comm)


def compile_c(directory: Path, name: str, source: str, *options: str) -> str:
    (directory / f"{name}.c").write_text(source)
    target = str(directory / name)
    command = [need("cc"), "-O1", *options, "-o", target, str(directory / f"{name}.c"), "-lpthread", "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return target


_LEADERLESS = """
#include <pthread.h>
#include <unistd.h>
static void *run(void *unused) { sleep(300); return unused; }
int main(void) { pthread_t t; pthread_create(&t, 0, run, 0); pthread_exit(0); }
"""


@contextmanager
def _frozen(pid: int) -> Iterator[None]:
    """In a control group of its own, by whichever freezer this machine has."""
    name = f"corral-test-{pid}"
    old, new = Path("/sys/fs/cgroup/freezer"), Path("/sys/fs/cgroup")
    thaw: Callable[[], object]
    if (old / "cgroup.procs").exists():
        group, home = old / name, old
        group.mkdir()
        (group / "cgroup.procs").write_text(str(pid))
        (group / "freezer.state").write_text("FROZEN")
        wait_until(lambda: (group / "freezer.state").read_text() == "FROZEN\n", "the group freezes")
        thaw = lambda: (group / "freezer.state").write_text("THAWED")  # noqa: E731
    elif (new / "cgroup.controllers").exists():
        group, home = new / name, new
        group.mkdir()
        (group / "cgroup.procs").write_text(str(pid))
        (group / "cgroup.freeze").write_text("1")
        wait_until(lambda: "frozen 1" in (group / "cgroup.events").read_text(), "the group freezes")
        thaw = lambda: (group / "cgroup.freeze").write_text("0")  # noqa: E731
    else:
        pytest.fail("no freezer: mount cgroup2 at /sys/fs/cgroup, or the v1 freezer at /sys/fs/cgroup/freezer")
    try:
        yield
    finally:
        thaw()
        (home / "cgroup.procs").write_text(str(pid))
        group.rmdir()
