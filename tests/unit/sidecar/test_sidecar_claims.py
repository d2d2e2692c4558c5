"""Claims: a process and its file over a whole life, switches included, beside others that live."""

from __future__ import annotations

import os
import random
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
