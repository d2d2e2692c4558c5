"""A CLI that takes hooks in a file of our own, in a dialect of its own: added as files, with nothing else edited."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import corral

PROVIDER = '''
"""Dialect: sessions are directories in `~/.dialect/sessions`, hooks are a file of our own."""

import json
import os

from corral.model.hook_target import ConfigFormat, HookTarget
from corral.model.process import Recognised
from corral.model.record import SessionRecord, TurnState
from corral.providers.contract import Capabilities, Provider, not_resumed
from corral.providers.kit.homes import HomePlace

NAME = "dialect"
HOME = HomePlace(NAME, "DIALECT_HOME", ".dialect")


def list_sessions(home, known):
    for entry in os.scandir(f"{home.path}/sessions"):
        yield SessionRecord(
            provider=NAME, home=home.path, scope="", session_id=entry.name, path=entry.path, work_dir="/", title=None,
            created_at=None, updated_at=None, durable=True, turn=TurnState.ENDED,
        )


def recognise(process, table):
    if process.comm != NAME:
        return None
    return Recognised(
        provider=NAME, identity=process.identity, started_at=process.started_at, home=HOME.find_of(process),
        group=process.pid,
    )


def write_own(commands):
    return json.dumps({"version": 1, "on": {event: {"bash": command} for event, command in commands.items()}})


def hooks():
    return HookTarget(
        provider=NAME, config_name="hooks/corral.json", format=ConfigFormat.OWN_FILE,
        events=("opened", "left", "asked"), write_own=write_own,
    )


PROVIDER = Provider(
    name=NAME,
    capabilities=Capabilities(
        title="Dialect", program=NAME, picks_id=False, identified_by=("hooks",), restore="none", proven_versions=(),
        home_variables=(HOME.variable,), silent_s=None, needs_hooks=True,
    ),
    homes=HOME.list, list_sessions=list_sessions, recognise=recognise, plan_resume=not_resumed, hooks=hooks,
)
'''
REPORTER = '''
"""Part of the hook program. Its payload has `sessionId` and never names the event."""

from corral.providers.kit.reported import END, SERVES, START, Told, first_existing_dir, home_in_force, model_in_payload
from corral.providers.kit.reported import text_of

name = "dialect"
moves_on_start = True
_KINDS = {"opened": START, "left": END, "asked": SERVES}


def read(payload, event):
    session_id = text_of(payload, "sessionId", 128)
    return Told(_KINDS[event], session_id, "new") if session_id and event in _KINDS else None


def recognise(caller, payload):
    return caller.comm == "dialect"


def find_home(caller):
    return home_in_force(caller, "DIALECT_HOME", ".dialect")


def find_scope(caller, payload, home):
    return ""


def find_version(caller):
    return None


def serves_many(caller, home):
    return False


def session_dir(home, scope, session_id):
    return None


find_work_dir, find_model = first_existing_dir, model_in_payload
'''
AGENT = """
import ctypes, json, subprocess, sys
ctypes.CDLL(None).prctl(15, b"dialect", 0, 0, 0)
for line in sys.stdin:
    event, session_id = line.split()
    command = json.load(open(sys.argv[1]))["on"][event]["bash"]
    subprocess.run(["sh", "-c", command], input=json.dumps({"sessionId": session_id}).encode())
    print(flush=True)
"""
Corral = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path) -> Corral:
    """corral with one provider more, and a home of it with two sessions."""
    source = Path(corral.__file__).parent
    package = tmp_path / "src" / "corral"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__", "dist"))
    (package / "providers" / "dialect").mkdir()
    (package / "providers" / "dialect" / "__init__.py").write_text(PROVIDER.lstrip())
    (package / "providers" / "dialect" / "reporter.py").write_text(REPORTER.lstrip())
    for name in ("first", "second"):
        (tmp_path / ".dialect" / "sessions" / name).mkdir(parents=True)
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path / "src")}

    def run_corral(*words: str, fails: bool = False) -> Any:
        command = [sys.executable, "-m", "corral", *words, "--json"]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == int(fails), done
        return json.loads(done.stdout)

    return run_corral


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", AGENT, str(tmp_path / ".dialect" / "hooks" / "corral.json")]
    env = {**os.environ, "HOME": str(tmp_path)}
    process = subprocess.Popen(words, stdin=-1, stdout=-1, text=True, env=env)
    yield process
    process.kill()
    process.wait()


def live(run: Corral) -> dict[str, int]:
    sessions = run("ps", "--all")["sessions"]
    return {one["session_id"]: one["pid"] for one in sessions if (one["provider"], one["state"]) == ("dialect", "live")}


def test_events_in_its_dialect_say_which_session_it_serves(run: Corral, agent: subprocess.Popen[str]) -> None:
    def tell(line: str) -> None:
        assert agent.stdin and agent.stdout
        print(line, file=agent.stdin, flush=True)
        assert agent.stdout.readline() == "\n"

    (done,) = run("hooks", "install", "dialect")["results"]
    assert done["outcome"] == "installed"
    tell("opened first")
    assert live(run) == {"first": agent.pid}
    tell("asked second")
    assert live(run) == {"second": agent.pid}
    tell("left second")
    assert live(run) == {}


def test_a_file_of_our_own_comes_and_goes_whole(run: Corral, tmp_path: Path) -> None:
    file = tmp_path / ".dialect" / "hooks" / "corral.json"
    run("hooks", "install", "dialect")
    (status,) = run("hooks", "status", "dialect")["hooks"]
    assert (status["installed"], status["problems"], status["events"]) == (True, [], ["opened", "left", "asked"])
    file.write_text(file.read_text() + "\n")  # somebody touched it: it is ours all the same
    run("hooks", "uninstall", "dialect")
    assert not file.exists()


def test_a_file_of_somebody_else_in_its_place_is_left_alone(run: Corral, tmp_path: Path) -> None:
    file = tmp_path / ".dialect" / "hooks" / "corral.json"
    file.parent.mkdir()
    file.write_text("{}")
    (done,) = run("hooks", "install", "dialect", fails=True)["results"]
    assert (done["outcome"], "corral did not write this file" in done["message"]) == ("refused", True)
    assert file.read_text() == "{}"
