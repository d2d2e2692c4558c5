"""The example agent, run as a person would: one live process, its file always with the session it serves."""

import hashlib
import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral import sidecar
from corral.sidecar import RuntimeRecord, Verdict

PROGRAM = (sys.executable, "-m", "corral.demo.reference_agent")


class Agent:
    """A running reference agent and its home."""

    def __init__(self, home: Path, work_dir: Path, environment: dict[str, str], *options: str) -> None:
        self.bucket = home / "sessions" / hashlib.md5(str(work_dir).encode()).hexdigest()
        command = [*PROGRAM, "--home", str(home), "--work-dir", str(work_dir), *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, bufsize=1
        )
        self.session_id = self.read().split()[1]

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().removeprefix("> ").strip()

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def say(self, line: str) -> str:
        self.send(line)
        answer = self.read()
        if answer.startswith("session "):
            self.session_id = answer.split()[1]
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def session(self) -> Path:
        return self.bucket / self.session_id

    def claims(self) -> list[str]:
        return sorted(path.parent.name for path in self.bucket.glob("*/runtime.json"))


@pytest.fixture
def start(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Agent]]:
    agents: list[Agent] = []

    def run(*options: str) -> Agent:
        agents.append(Agent(tmp_path / "home", tmp_path, environment, *options))
        return agents[-1]

    yield run
    for agent in agents:
        agent.kill()


def liveness(agent: Agent) -> str:
    verdict = sidecar.check(agent.session / "runtime.json")
    assert isinstance(verdict, Verdict), verdict
    return verdict.liveness


def types(session: Path) -> list[str]:
    lines = (session / "wire.jsonl").read_text().splitlines()[1:]
    return [json.loads(line)["message"]["type"] for line in lines]


def test_the_file_follows_the_process_through_new_fork_undo_and_sessions(start: Callable[..., Agent]):
    agent = start()
    first = agent.session_id
    assert agent.say("hello there") == "echo #1: hello there"
    assert agent.claims() == [first] and liveness(agent) == "live"
    agent.say("/fork")
    fork = agent.session_id
    assert fork != first and agent.claims() == [fork]
    assert agent.say("more") == "echo #2: more"
    agent.say("/undo")
    assert agent.claims() == [agent.session_id] and agent.session_id not in (first, fork)
    assert (agent.session / "context.jsonl").read_text() == (agent.bucket / first / "context.jsonl").read_text()
    assert (agent.session / "wire.jsonl").read_text() == (agent.bucket / first / "wire.jsonl").read_text()
    agent.say("/new")
    assert agent.claims() == [agent.session_id] and types(agent.session) == []
    agent.say(f"/sessions {first}")
    assert agent.session_id == first and agent.claims() == [first]
    record = sidecar.read(agent.session / "runtime.json")
    assert isinstance(record, RuntimeRecord)
    assert (record.pid, record.session_id, record.provider) == (agent.process.pid, first, "kimi-cli")


def test_a_clean_quit_leaves_a_stale_file_and_names_the_last_session(start: Callable[..., Agent], tmp_path: Path):
    agent = start("--session", "chosen-id")
    agent.say("hello")
    agent.send("/quit")
    assert agent.process.wait(60) == 0
    assert liveness(agent) == "stale" and types(agent.session)[-1] == "TurnEnd"
    listed = json.loads((tmp_path / "home" / "kimi.json").read_text())["work_dirs"]
    assert listed == [{"path": str(tmp_path), "kaos": "local", "last_session_id": "chosen-id"}]


def test_a_slow_turn_hangs_until_the_process_is_killed(start: Callable[..., Agent]):
    agent = start()
    agent.send("a SLOW question")
    deadline = time.monotonic() + 60
    while types(agent.session)[-1:] != ["StepBegin"]:
        if time.monotonic() > deadline:
            raise TimeoutError("the turn does not begin")
        time.sleep(0.01)
    assert agent.process.poll() is None and liveness(agent) == "live"
    agent.kill()
    assert liveness(agent) == "stale" and "TurnEnd" not in types(agent.session)


def test_two_agents_on_one_session(start: Callable[..., Agent]):
    first = start("--session", "shared")
    second = start("--session", "shared")
    second.say("hello")
    record = sidecar.read(first.session / "runtime.json")
    assert isinstance(record, RuntimeRecord) and record.pid == first.process.pid
    first.kill()
    second.say("hello again")
    record = sidecar.read(first.session / "runtime.json")
    assert isinstance(record, RuntimeRecord) and record.pid == second.process.pid


def refuse(home: Path, environment: dict[str, str]) -> str:
    command = [*PROGRAM, "--home", str(home)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    return done.stderr


def test_it_refuses_a_home_that_is_not_its_own(tmp_path: Path, environment: dict[str, str]):
    (tmp_path / "precious").write_text("x")
    assert "not empty" in refuse(tmp_path, environment)
    assert os.listdir(tmp_path) == ["precious"]
    real = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".kimi"
    before = real.exists()
    assert "never" in refuse(real, environment)
    assert "never" in refuse(real / "below", environment)
    assert real.exists() == before
