"""Claims: a process and its file over a whole life, switches included, beside others that live."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
from pathlib import Path

from corral import sidecar
from corral.sidecar import RuntimeRecord
from corral.sidecar.atomic import Directory
from tests.unit.sidecar.written import code


def claim(directory: Path, session_id: str = "s") -> sidecar.Claim:
    return sidecar.claim(directory, session_id=session_id, work_dir="/w", cli="kimi-cli", version="1")


def test_a_claim_follows_the_process_and_leaves_its_last_file(tmp_path: Path):
    for name in "ab":
        (tmp_path / name).mkdir()
    held = claim(tmp_path / "a", "a")
    assert held.problem is None
    assert held.switch(tmp_path / "b", "b") is None
    assert os.listdir(tmp_path / "a") == []
    record = sidecar.read(tmp_path / "b" / "runtime.json")
    assert isinstance(record, RuntimeRecord) and record.session_id == "b"
    before = record.started_at
    assert held.refresh() is None
    record = sidecar.read(tmp_path / "b" / "runtime.json")
    assert isinstance(record, RuntimeRecord) and record.started_at > before
    assert held.release() is None
    assert os.listdir(tmp_path / "b") == ["runtime.json"]
    assert code(held.refresh()) == "released"


def test_a_claim_can_take_its_file_along(tmp_path: Path):
    held = claim(tmp_path)
    assert held.release(remove=True) is None
    assert os.listdir(tmp_path) == []


def test_a_claim_without_a_directory_keeps_the_problem(tmp_path: Path):
    held = claim(tmp_path / "later")
    assert code(held.problem) == "io:ENOENT"
    (tmp_path / "later").mkdir()
    assert held.refresh() is None and held.problem is None


def test_a_file_that_could_not_be_cleared_is_cleared_at_the_next_event(tmp_path: Path):
    for name in "ab":
        (tmp_path / name).mkdir()
    held = claim(tmp_path / "a", "a")
    with Directory(str(tmp_path / "a")) as stuck:
        assert stuck.lock()
        assert code(held.switch(tmp_path / "b", "b")) == "busy"
    assert sorted(path.parent.name for path in tmp_path.glob("*/runtime.json")) == ["a", "b"]
    assert held.refresh() is None
    assert [path.parent.name for path in tmp_path.glob("*/runtime.json")] == ["b"]


def test_switching_away_leaves_a_living_others_file(tmp_path: Path, other: subprocess.Popen[bytes]):
    for name in "ab":
        (tmp_path / name).mkdir()
    sidecar.write(tmp_path / "a", session_id="a", work_dir="/w", cli="x", version="1", process=other.pid)
    held = claim(tmp_path / "a", "a")
    assert code(held.problem) == "held:live"
    assert held.switch(tmp_path / "b", "b") is None
    assert (tmp_path / "a" / "runtime.json").exists() and (tmp_path / "b" / "runtime.json").exists()


def test_the_survivor_takes_over_at_its_next_event(tmp_path: Path, other: subprocess.Popen[bytes]):
    sidecar.write(tmp_path, session_id="s", work_dir="/w", cli="x", version="1", process=other.pid)
    held = claim(tmp_path)
    assert code(held.problem) == "held:live"
    other.kill()
    other.wait()
    assert held.refresh() is None
    record = sidecar.read(tmp_path / "runtime.json")
    assert isinstance(record, RuntimeRecord) and record.pid == os.getpid()


def test_a_burst_of_switches_from_eight_threads_ends_with_the_last_one(tmp_path: Path):
    names = [f"s{number}" for number in range(16)]
    for name in names:
        (tmp_path / name).mkdir()
    held = claim(tmp_path / "s0", "s0")
    order: list[str] = []
    real = held._write
    held._write = lambda: (order.append(held._session_id), real())[1]  # type: ignore[method-assign]

    def switch_about(seed: int) -> None:
        for name in random.Random(seed).choices(names, k=25):
            assert held.switch(tmp_path / name, name) is None
            assert len(list(tmp_path.glob("*/runtime.json"))) <= 1

    threads = [threading.Thread(target=switch_about, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(order) == 200
    left = list(tmp_path.glob("*/*")) + list(tmp_path.glob("*/.*"))
    assert left == [tmp_path / order[-1] / "runtime.json"]
    record = sidecar.read(left[0])
    assert isinstance(record, RuntimeRecord) and record.session_id == order[-1]


def named(root: Path) -> list[str]:
    return sorted(path.parent.name for path in root.glob("*/runtime.json"))


def test_a_released_claim_stays_released(tmp_path: Path):
    for name in "ab":
        (tmp_path / name).mkdir()
    held = claim(tmp_path / "a", "a")
    assert held.release() is None
    assert code(held.switch(tmp_path / "b", "b")) == "released"
    assert code(held.problem) == "released"
    assert named(tmp_path) == ["a"]
    assert code(held.switch(tmp_path / "a", "a")) == "released"
    assert code(held.refresh()) == "released"
    assert named(tmp_path) == ["a"]


def test_a_second_release_changes_nothing_and_says_so_if_it_should_have(tmp_path: Path):
    held = claim(tmp_path / "a")
    (tmp_path / "a").mkdir()
    held.refresh()
    assert held.release() is None
    assert held.release() is None
    # By now another claim of this process may have the directory: its file must stay.
    later = claim(tmp_path / "a")
    assert later.problem is None
    assert code(held.release(remove=True)) == "released"
    assert named(tmp_path) == ["a"]
    assert later.release(remove=True) is None
    assert later.release(remove=True) is None
    assert named(tmp_path) == []


def test_what_a_release_could_not_clear_is_cleared_by_the_next_one(tmp_path: Path):
    held = claim(tmp_path)
    with Directory(str(tmp_path)) as stuck:
        assert stuck.lock()
        assert code(held.release(remove=True)) == "busy"
    assert held.release() is None
    assert not (tmp_path / "runtime.json").exists()


def test_no_switch_outlives_a_release_from_another_thread(tmp_path: Path):
    names = [f"s{number}" for number in range(8)]
    for name in names:
        (tmp_path / name).mkdir()
    for seed in range(10):
        held = claim(tmp_path / "s0", "s0")
        ready = threading.Barrier(5)
        told: list[sidecar.Refusal | None] = []

        def switch_about(held: sidecar.Claim = held, ready: threading.Barrier = ready, seed: int = seed) -> None:
            ready.wait(60)
            for name in random.Random(seed).choices(names, k=6):
                told.append(held.switch(tmp_path / name, name))  # noqa: B023

        threads = [threading.Thread(target=switch_about) for _ in range(4)]
        for thread in threads:
            thread.start()
        ready.wait(60)
        assert held.release(remove=True) is None
        for thread in threads:
            thread.join()
        assert named(tmp_path) == []
        assert {one.code for one in told if one is not None} <= {"released"}


def test_a_claim_in_a_forked_child_speaks_for_the_child_and_waits_for_no_lock_of_its_parent(tmp_path: Path):
    for name in "ab":
        (tmp_path / name).mkdir()
    held = claim(tmp_path / "a", "a")
    with held._lock:  # another thread of the parent is in a switch while it forks
        child = os.fork()
    if not child:
        try:
            signal.alarm(60)
            refused = code(held.refresh()) == "held:live"
            switched = held.switch(tmp_path / "b", "b") is None
            record = sidecar.read(tmp_path / "b" / "runtime.json")
            ours = isinstance(record, RuntimeRecord) and record.pid == os.getpid()
            os._exit(0 if refused and switched and ours else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    record = sidecar.read(tmp_path / "a" / "runtime.json")
    assert isinstance(record, RuntimeRecord) and record.pid == os.getpid()


def test_a_claim_for_a_named_process_is_refused_in_a_forked_child(tmp_path: Path, other: subprocess.Popen[bytes]):
    for name in "ab":
        (tmp_path / name).mkdir()
    process = sidecar.read_identity(other.pid)
    held = sidecar.claim(tmp_path / "a", session_id="a", work_dir="/w", cli="x", version="1", process=process)
    assert held.problem is None
    child = os.fork()
    if not child:
        try:
            refusals = [held.switch(tmp_path / "b", "b"), held.refresh(), held.release(remove=True)]
            os._exit(0 if [code(one) for one in refusals] == ["forked"] * 3 else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert named(tmp_path) == ["a"]
    assert held.switch(tmp_path / "b", "b") is None
    assert named(tmp_path) == ["b"]


def test_a_claim_that_was_released_before_a_fork_stays_released_in_the_child(tmp_path: Path):
    held = claim(tmp_path)
    held.release(remove=True)
    child = os.fork()
    if not child:
        try:
            os._exit(0 if code(held.switch(tmp_path, "s")) == "released" else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not (tmp_path / "runtime.json").exists()
