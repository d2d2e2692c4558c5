"""Writers that are killed at any instant, and several processes that open the same session."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral import sidecar
from corral.sidecar import Refusal

SOURCE = str(Path(sidecar.__file__).parents[2])
HERE = Path(__file__).parent


def test_a_thousand_killed_writers_leave_no_torn_file_and_no_temp_after_the_next_start(tmp_path: Path):
    seed = random.randrange(1 << 32)
    nurseries: list[subprocess.Popen[str]] = []
    for number in range(8):  # side by side, since each waits for the disk most of the time
        directory = tmp_path / str(number)
        directory.mkdir()
        command = [
            sys.executable,
            "-I",
            str(HERE / "kill_writers.py"),
            SOURCE,
            str(directory),
            "125",
            str(seed + number),
        ]
        nurseries.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    results = [json.loads(nursery.communicate(timeout=240)[0]) for nursery in nurseries]
    print(f"seed {seed}: {results}")
    for found in results:
        assert found["torn"] == [] and found["failed"] == []
        assert found["left_after_start"] == 0 and found["left_at_end"] == []
    hits = sum(found["left_by_kill"] for found in results)
    assert hits > 20, "hardly a writer was hit in the middle: this run proves nothing"


OPENER = """
import sys
sys.path.insert(0, sys.argv[1])
from corral import sidecar
claim = None
for line in sys.stdin:
    word, *rest = line.split()
    if word == "open":
        claim = sidecar.claim(rest[0], session_id="s", work_dir="/w", cli="kimi-cli", version="1")
    elif word == "refresh":
        claim.refresh()
    elif word == "switch":
        claim.switch(rest[0], rest[1])
    elif word == "release":
        claim.release(remove=True)
    print(claim.problem.code if claim.problem else "ok", flush=True)
"""


class Opener:
    """A process that claims sessions when it is told to."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-c", OPENER, SOURCE]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def do(self, *words: object) -> str:
        self.send(*words)
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def holder(directory: Path) -> int | None:
    record = sidecar.read(directory / "runtime.json")
    if isinstance(record, Refusal):
        assert record.code == "io:ENOENT"
        return None
    return record.pid


def test_the_second_opener_waits_and_takes_over_when_the_first_is_killed(tmp_path: Path):
    first, second = Opener(), Opener()
    try:
        assert first.do("open", tmp_path) == "ok"
        assert second.do("open", tmp_path) == "held:live"
        assert second.do("refresh") == "held:live"
        assert second.do("release") == "ok"
        assert holder(tmp_path) == first.process.pid
        assert second.do("open", tmp_path) == "held:live"
        first.process.send_signal(signal.SIGSTOP)
        assert second.do("refresh") == "held:live", "a stopped process lives"
        first.kill()
        assert holder(tmp_path) == first.process.pid, "a crash leaves the file"
        assert second.do("refresh") == "ok"
        assert holder(tmp_path) == second.process.pid
    finally:
        first.kill()
        second.kill()


def test_the_second_opener_takes_over_when_the_first_moves_on(tmp_path: Path):
    for name in "ab":
        (tmp_path / name).mkdir()
    first, second = Opener(), Opener()
    try:
        assert first.do("open", tmp_path / "a") == "ok"
        assert second.do("open", tmp_path / "a") == "held:live"
        assert first.do("switch", tmp_path / "b", "b") == "ok"
        assert holder(tmp_path / "a") is None
        assert second.do("refresh") == "ok"
        assert first.do("switch", tmp_path / "a", "a") == "held:live"
        assert holder(tmp_path / "a") == second.process.pid and holder(tmp_path / "b") is None
    finally:
        first.kill()
        second.kill()


def test_of_many_openers_at_once_exactly_one_holds_and_keeps_the_file(tmp_path: Path):
    openers = [Opener() for _ in range(6)]
    try:
        for number in range(30):
            directory = tmp_path / str(number)
            directory.mkdir()
            if number % 2:  # every other time a dead process's file lies there already
                dead = subprocess.Popen(["sleep", "60"])
                sidecar.write(directory, session_id="s", work_dir="/w", cli="x", version="1", process=dead.pid)
                dead.kill()
                dead.wait()
            for opener in openers:
                opener.send("open", directory)
            answers = [opener.answer() for opener in openers]
            # Who waited in vain for a slow disk tries again at its next event, as every agent does.
            give_up = time.monotonic() + 60
            while "busy" in answers and time.monotonic() < give_up:
                answers = [
                    opener.do("refresh") if answer == "busy" else answer
                    for opener, answer in zip(openers, answers, strict=True)
                ]
            assert sorted(answers) == ["held:live"] * 5 + ["ok"], answers
            assert holder(directory) == openers[answers.index("ok")].process.pid
            assert os.listdir(directory) == ["runtime.json"]
    finally:
        for opener in openers:
            opener.kill()


def test_a_reused_pid_never_protects_the_file_of_the_dead():
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.fail("a PID namespace is needed: run as root and install the package util-linux (unshare)")
    command = [
        "unshare",
        "-pf",
        "--mount-proc",
        sys.executable,
        "-I",
        str(HERE / "reuse_pids.py"),
        SOURCE,
        "100",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {"verdicts": {"exact stale reused": 100, "v1 stale reused": 100}, "taken_over": 100}
