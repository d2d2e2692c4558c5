"""`corral sidecar` as another language would call it: arguments in, exit code and lines out."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral import sidecar
from corral.sidecar import RuntimeRecord

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    def call(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "corral", "sidecar", *map(str, words)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    return call


def write(run: Run, directory: Path, *more: object) -> subprocess.CompletedProcess[str]:
    fixed = ["--session-id", "s1", "--work-dir", "/w", "--cli", "my-cli", "--version", "1.2"]
    return run("write", directory, *fixed, *more)


def test_the_caller_is_the_process_that_serves(run: Run, tmp_path: Path):
    done = write(run, tmp_path, "--json", "--provider", "kimi-cli")
    assert (done.returncode, done.stderr) == (0, "")
    record = sidecar.read(tmp_path / "runtime.json")
    assert isinstance(record, RuntimeRecord)
    assert record.identity == sidecar.own_identity() and (record.cli, record.version) == ("my_cli", "1.2")
    assert json.loads(done.stdout) == json.loads((tmp_path / "runtime.json").read_text())


def test_the_life_of_a_file_for_another_process(run: Run, tmp_path: Path):
    path = tmp_path / "runtime.json"
    agent = subprocess.Popen(["sleep", "300"])
    try:
        assert write(run, tmp_path, "--pid", agent.pid).returncode == 0
        done = run("read", path)
        assert done.returncode == 0 and f"\npid            {agent.pid}\n" in done.stdout
        shown = json.loads(run("read", path, "--json").stdout)
        assert shown == json.loads(path.read_text())
        assert (shown["pid"], shown["my_cli_version"]) == (agent.pid, "1.2")
        done = run("check", path)
        assert done.returncode == 0 and done.stdout.startswith("live")
        held = write(run, tmp_path)
        assert held.returncode == 1 and "[held:live]" in held.stderr and held.stdout == ""
        done = run("clear", path, "--pid", os.getpid())
        assert done.returncode == 1 and "[not-ours]" in done.stderr
    finally:
        agent.kill()
        agent.wait()
    done = run("check", path, "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["verdict"] == "stale"
    assert run("clear", path, "--pid", agent.pid).returncode == 0
    assert not path.exists()


def test_what_is_not_there_is_not_found(run: Run, tmp_path: Path):
    path = tmp_path / "runtime.json"
    for done in (run("read", path), run("check", path), write(run, tmp_path / "nowhere")):
        assert done.returncode == 4 and done.stderr.startswith("corral: ") and done.stdout == ""
    assert run("clear", path, "--pid", os.getpid()).returncode == 0, "gone is what was asked for"


def test_what_is_no_record_is_refused_by_name(run: Run, tmp_path: Path):
    path = tmp_path / "runtime.json"
    path.write_text('{"schema_version": 2}')
    done = run("read", path)
    assert done.returncode == 1 and "[unsupported]" in done.stderr
    done = run("check", path, "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["verdict"] == "unknown"
    assert path.read_text() == '{"schema_version": 2}'


def test_a_hostile_record_can_not_write_to_the_terminal(run: Run, tmp_path: Path):
    sidecar.write(tmp_path, session_id="s", work_dir="/w/\x1b]0;x\x07\u202e\r\nz", cli="x", version="1")
    done = run("read", tmp_path / "runtime.json")
    assert not set("\x1b\x07\u202e\r") & set(done.stdout) and "/w/\\x1b]0;x\\x07\\u202e\\r\\nz" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["write"],
        ["write", "d"],
        ["clear", "p"],
        ["clear", "p", "--pid", "0"],
        ["clear", "p", "--pid", "x"],
        ["eat"],
    ],
)
def test_wrong_usage_is_exit_code_2(run: Run, words: list[str]):
    done = run(*words)
    assert done.returncode == 2 and "usage:" in done.stderr


@pytest.mark.parametrize("words", [[], ["write"], ["read"], ["check"], ["clear"]])
def test_help_is_there(run: Run, words: list[str]):
    done = run(*words, "--help")
    assert done.returncode == 0 and len(done.stdout) > 200
