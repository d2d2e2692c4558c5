"""What release 0.1.0 left behind, and its own programs, under this version: nothing of it is lost."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.demo.place import agent_program
from corral.terminals.directory import list_terminals
from tests.integration.liveness.machine import need_root, unshare
from tests.integration.terminals.held import kill

KEPT = Path(__file__).parent / "0.1.0"
ANSWERS = json.loads((KEPT / "answers.json").read_text())
SOURCES = str(Path(__file__).parents[2] / "src")
SECONDS = 60


class Machine:
    """devbox, on which `dev` used 0.1.0: mount and PID namespaces of its own, with the home where it was."""

    def __init__(self, root: Path) -> None:
        need_root()
        self.home = root / "dev"
        with tarfile.open(KEPT / "home.tar.gz") as archive:
            archive.extractall(self.home, filter="fully_trusted")
        (self.home / "projects" / "app").mkdir(parents=True)

    def ask(self, *words: str, sources: str = SOURCES) -> Any:
        script = 'mount --bind "$0" /home && cd /home/dev/projects/app && exec "$@"'
        namespaces = unshare("--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child")
        name_it = ["sh", "-c", 'echo devbox > /proc/sys/kernel/hostname && exec "$@"', "sh"]
        command = [sys.executable, "-m", "corral", *words, "--json"]
        done = subprocess.run(
            [*namespaces, *name_it, "sh", "-c", script, str(self.home.parent), *command],
            env={"HOME": "/home/dev", "PATH": os.environ["PATH"], "PYTHONPATH": sources},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0 or (words == ("hooks", "status") and done.returncode == 1), done
        return json.loads(done.stdout)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def sums(report: Any) -> dict[str, Any]:
    return {
        json.dumps(row["key"], sort_keys=True): (row["events"], row["tokens"], row["cost"]) for row in report["rows"]
    }


def states(report: Any) -> dict[str, Any]:
    return {one["session_id"]: (one["state"], one["title"], one["durable"]) for one in report["sessions"]}


COMMANDS = (
    "ps --all",
    "doctor",
    "usage",
    "usage --by tool",
    "hooks status",
    "terminals",
    "statusline",
    "prices",
    "config",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_field_of_its_json_is_still_there(machine: Machine, tmp_path: Path, command: str) -> None:
    """JSON only grows: who reads a field of 0.1.0 finds it."""
    (wheel,) = KEPT.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "old")
    before = list_fields(machine.ask(*command.split(), sources=str(tmp_path / "old")))
    assert before - list_fields(machine.ask(*command.split())) == set()


def list_fields(value: Any, place: str = "") -> set[str]:
    if isinstance(value, list):
        return set().union(*(list_fields(one, f"{place}[]") for one in value))
    if not isinstance(value, dict):
        return set()
    found = {f"{place}.{name}" for name in value}
    return found.union(*(list_fields(one, f"{place}.{name}") for name, one in value.items()))


def test_its_ledger_says_the_same(machine: Machine) -> None:
    assert sums(machine.ask("usage", "--tz", "UTC", "--by", "session")) == sums(ANSWERS["usage"])


def test_its_ledger_says_the_same_after_the_logs_are_gone(machine: Machine) -> None:
    for home in (".kimi", ".kimi-code", ".qwen"):
        shutil.rmtree(machine.home / home)
    assert sums(machine.ask("usage", "--tz", "UTC", "--by", "session")) == sums(ANSWERS["usage"])
    state = machine.home / ".local" / "state" / "corral"
    assert not list(state.glob("ledger.db.broken-*")), "it was migrated in place"
    with sqlite3.connect(state / "ledger.db") as db:
        assert db.execute("SELECT schema FROM about").fetchone() == (5,)


def test_its_sessions_are_what_they_were(machine: Machine) -> None:
    now, then = states(machine.ask("ps", "--all")), states(ANSWERS["ps"])
    # Whether the namespace that a record names is dead can be proven only where all processes can be looked into.
    unproven = {name for name, one in now.items() if one[0] == "elsewhere"}
    assert now.keys() == then.keys() and {then[name][0] for name in unproven} <= {"elsewhere", "empty"}
    assert {name: now[name] for name in now.keys() - unproven} == {name: then[name] for name in then.keys() - unproven}


def test_its_tabs_are_listed_with_their_sessions(machine: Machine) -> None:
    (tab,) = machine.ask("terminals")["terminals"]
    assert tab["tab"] == ANSWERS["tab"] and tab["session"] is not None


class Person:
    """A home in which 0.1.0 is still running while this version is there too."""

    def __init__(self, root: Path) -> None:
        self.root = root
        zipfile.ZipFile(next(KEPT.glob("*.whl"))).extractall(root / "old")
        self.work = root / "work"
        self.work.mkdir()
        program = root / "kimi"
        program.write_text(agent_program())
        program.chmod(0o755)
        config = root / ".config" / "corral" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f'[programs]\nkimi-cli = "{program}"\n')

    def corral(self, *words: str, old: bool = False) -> str:
        sources = str(self.root / "old") if old else SOURCES
        done = subprocess.run(
            [sys.executable, "-m", "corral", *words],
            env={"HOME": str(self.root), "PATH": os.environ["PATH"], "PYTHONPATH": sources, "TERM": "xterm"},
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout

    def terminals(self) -> list[Any]:
        return json.loads(self.corral("terminals", "--json"))["terminals"]

    def sessions(self) -> list[Any]:
        """Those of this home: agents of other tests may run on this machine."""
        found = json.loads(self.corral("ps", "--all", "--json"))["sessions"]
        return [one for one in found if one["home"].startswith(str(self.root))]

    def end(self) -> None:
        for held in list_terminals(str(self.root / ".local" / "state" / "corral" / "terminals")):
            for one in (held.child, held.holder):
                if one is not None:
                    kill(one)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    person = Person(tmp_path)
    yield person
    person.end()


def test_a_terminal_that_it_holds_is_listed_and_ended(person: Person) -> None:
    assert (person.root / "old" / "corral" / "terminals").is_dir()
    tab = person.corral("run", "kimi-cli", "--detach", "--yes", "--no-hooks", old=True).strip()
    deadline = time.monotonic() + SECONDS
    while (session := person.terminals()[0]["session"]) is None:
        if time.monotonic() > deadline:
            raise TimeoutError("its session is not known")
        time.sleep(0.1)
    assert person.terminals()[0]["tab"] == tab
    (live,) = person.sessions()
    assert (live["state"], live["session_id"]) == ("live", session["session_id"])
    person.corral("kill", session["session_id"], "--yes")
    (ended,) = person.sessions()
    assert ended["state"] != "live"


AGENT = """
import ctypes, glob, subprocess, sys
ctypes.CDLL(None).prctl(15, b"kimi-code", 0, 0, 0)
while not glob.glob(sys.argv[3]):  # on a busy machine the hook gives up
    subprocess.run(["sh", "-c", sys.argv[1]], input=sys.argv[2].encode(), check=True)
print(flush=True)
sys.stdin.read()
"""


def test_what_its_hook_program_reports_is_believed(person: Person) -> None:
    home = person.root / ".kimi-code"
    session = home / "sessions" / "wd_work_1" / "session_a"
    session.mkdir(parents=True)
    person.corral("hooks", "install", "kimi-code", old=True)
    hook = tomllib.loads((home / "config.toml").read_text())["hooks"][0]["command"]
    start = {"hook_event_name": "SessionStart", "session_id": "session_a", "source": "startup", "cwd": str(person.work)}
    journals = str(person.root / ".local" / "state" / "corral" / "journal" / "kimi-code" / "*.json")
    words = [sys.executable, "-c", AGENT, hook, json.dumps(start), journals]
    env = {"HOME": str(person.root), "PATH": os.environ["PATH"]}
    with subprocess.Popen(words, env=env, cwd=person.work, stdin=-1, stdout=-1, text=True) as agent:
        try:
            assert agent.stdout and agent.stdout.readline() == "\n"
            (live,) = person.sessions()
            assert (live["session_id"], live["state"], live["pid"]) == ("session_a", "live", agent.pid)
            assert ("journal", "live") in {(one["kind"], one["verdict"]) for one in live["evidence"]}
        finally:
            agent.kill()
    (ended,) = person.sessions()
    assert ended["state"] != "live"
