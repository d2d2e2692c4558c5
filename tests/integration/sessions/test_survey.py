"""Whole surveys beside real processes that are titled like an agent and say nothing: doubt must reach every session."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral import sidecar
from corral.model.key import SessionKey
from corral.sidecar.processes import read_identity
from corral.state.launches import Launch, Launches
from tests.providers.kimi_support import settle

FIXTURES = Path(__file__).resolve().parents[2] / "providers" / "fixtures" / "kimi-code"
TITLE = "kimi-code"
LOOK_ALIKE = """
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void) { prctl(PR_SET_NAME, "kimi-code"); puts("up"); fflush(stdout); for (;;) pause(); }
"""


class Machine:
    """A HOME with Kimi Code's sessions in it, and look-alikes that can be started beside them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / ".kimi-code"
        shutil.copytree(FIXTURES, self.home)
        self.state = root / ".local" / "state" / "corral"
        self._running: list[subprocess.Popen[bytes]] = []
        self._public = Path(tempfile.mkdtemp(prefix="corral-"))  # where another user may look, too
        self._public.chmod(0o755)
        self._program = self._public / "look-alike"
        source = self._public / "look-alike.c"
        source.write_text(LOOK_ALIKE)
        subprocess.run(["cc", "-o", self._program, source], check=True)

    def start(self, user: int | None = None, **env: str) -> int:
        """A process with exactly the name and command line that kimi-code gives itself."""
        process = subprocess.Popen(
            [TITLE],
            executable=self._program,
            user=user,
            env={"HOME": str(self.root), "PATH": "/usr/bin:/bin", **env},
            stdout=subprocess.PIPE,
        )
        self._running.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    def corral(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "corral", *words],
            env={"HOME": str(self.root), "PATH": "/usr/bin:/bin", **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def corral_alone(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Where no other process of the machine can be seen."""
        command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "corral", *words]
        env = {"HOME": str(self.root), "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    def ps(self, **env: str) -> Any:
        survey = json.loads(self.corral("ps", "--all", "--json", "--provider", "kimi-code", **env).stdout)
        for part in ("sessions", "unattributed", "no_session_yet"):  # other tests have agents, too
            survey[part] = [row for row in survey[part] if (row["home"] or "").startswith(str(self.root))]
        return survey

    def states(self, **env: str) -> set[str]:
        return {row["state"] for row in self.ps(**env)["sessions"]}

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
        shutil.rmtree(self._public)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path)
    yield found
    found.end()


def test_nothing_running_leaves_sessions_resting(machine: Machine) -> None:
    assert machine.states() <= {"idle", "orphaned", "empty"}


@pytest.mark.parametrize("spelling", ["{home}", "{home}/", "{link}", "{root}/./.kimi-code"])
def test_a_silent_agent_raises_doubt_however_its_home_is_spelt(machine: Machine, spelling: str) -> None:
    link = machine.root / "link"
    link.symlink_to(machine.home)
    pid = machine.start(KIMI_CODE_HOME=spelling.format(home=machine.home, link=link, root=machine.root))
    survey = machine.ps()
    assert {(row["state"], tuple(row["maybe_pids"])) for row in survey["sessions"]} == {("unknown", (pid,))}


def test_a_silent_agent_of_another_home_raises_none(machine: Machine) -> None:
    machine.start(KIMI_CODE_HOME=str(machine.root / "elsewhere"))
    assert machine.states() <= {"idle", "orphaned", "empty"}


def test_a_silent_agent_after_the_hooks_has_no_session_yet_unless_its_report_is_torn(machine: Machine) -> None:
    assert machine.corral("hooks", "install", "kimi-code").returncode == 0
    time.sleep(0.05)  # the installation must be older than the process, in ticks of 10 ms
    pid = machine.start()
    survey = machine.ps()
    assert [process["pid"] for process in survey["no_session_yet"]] == [pid]
    identity = read_identity(pid)
    assert identity is not None
    journal = machine.state / "journal" / "kimi-code" / f"{pid}-{identity.start_ticks}.json"
    journal.parent.mkdir(parents=True)
    journal.write_text('{"schema": 1, "pro')
    survey = machine.ps()
    assert survey["no_session_yet"] == []
    assert {row["state"] for row in survey["sessions"]} == {"unknown"}
    assert any(str(journal) in problem["step"] for problem in survey["degraded"])


def test_a_silent_agent_of_another_user_raises_doubt_for_root(machine: Machine) -> None:
    pid = machine.start(user=65534)
    assert {tuple(row["maybe_pids"]) for row in machine.ps()["sessions"]} == {(pid,)}


def test_without_proc_nothing_is_resting_and_nothing_is_resumed(machine: Machine) -> None:
    (one, *_) = machine.ps()["sessions"]
    hidden = subprocess.run(
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            'mount -t tmpfs none /proc && exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "corral",
            "ps",
            "--all",
            "--json",
        ],
        env={"HOME": str(machine.root), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    survey = json.loads(hidden.stdout)
    assert {row["state"] for row in survey["sessions"]} == {"unknown"}
    assert {row["restore"]["reason"] for row in survey["sessions"]} == {"maybe_open"}
    assert any(problem["step"] == "read /proc" for problem in survey["degraded"])
    assert one["session_id"] in hidden.stdout


def test_a_launch_that_was_never_confirmed_keeps_its_session_closed(machine: Machine) -> None:
    # Of a name that no copy of these sessions beside us has: what is ambiguous is refused for another reason.
    (idle, *_) = [one["session_id"] for one in machine.ps()["sessions"] if one["state"] == "idle"]
    (source,) = machine.home.glob(f"sessions/*/{idle}")
    own = shutil.copytree(source, source.with_name(f"session_{uuid.uuid4()}"))
    (own / "state.json").write_text(json.dumps(json.loads((own / "state.json").read_text()) | {"id": own.name}))
    (row,) = [one for one in machine.ps()["sessions"] if one["session_id"] == own.name]
    assert row["state"] == "idle"
    key = SessionKey("kimi-code", row["home"], row["scope"], row["session_id"])
    pid = machine.start(KIMI_CODE_HOME="/nowhere")
    identity = read_identity(pid)
    assert identity is not None
    for age, state in ((1.0, "pending"), (500.0, "unknown")):
        launch = Launch(
            key=key,
            identity=(identity.boot_id, identity.pid_ns, identity.pid, identity.start_ticks),
            launched_at=time.time() - age,
            argv=("kimi",),
            cwd="/",
        )
        Launches(str(machine.state)).write(launch)
        found = next(one for one in machine.ps()["sessions"] if one["session_id"] == key.session_id)
        assert found["state"] == state
        assert machine.corral("resume", key.session_id, "--print").returncode == 1


def test_a_path_that_is_no_utf8_is_listed_all_the_same(machine: Machine) -> None:
    odd = os.fsencode(machine.root) + b"/caf\xe9"
    shutil.copytree(os.fsencode(FIXTURES), odd)
    done = subprocess.run(
        [sys.executable, "-m", "corral", "ps", "--all", "--json"],
        env={b"HOME": os.fsencode(machine.root), b"PATH": b"/usr/bin:/bin", b"KIMI_CODE_HOME": odd},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sum("\udce9" in row["home"] for row in json.loads(done.stdout)["sessions"]) > 0


@pytest.mark.parametrize("words", [("ps", "--all"), ("doctor",), ("ps", "--json")])
def test_any_terminal_and_any_output_will_do(machine: Machine, words: tuple[str, ...]) -> None:
    registry = machine.root / ".kimi" / "kimi.json"
    registry.parent.mkdir()
    registry.write_text(json.dumps({"work_dirs": [{"path": "/home/dev/gr\u00fcn", "kaos": "local"}]}))
    assert machine.corral(*words, PYTHONIOENCODING="ascii").returncode == 0
    assert machine.corral(*words, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0").returncode == 0
    command = [sys.executable, "-m", "corral", *words]
    env = {"HOME": str(machine.root), "PATH": "/usr/bin:/bin"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, "could not be written" in done.stderr) == (1, True)


@pytest.mark.parametrize("words", [("ps", "--all"), ("doctor",), ("ps", "--all", "--json"), ("watch", "--help")])
def test_names_of_files_are_utf8_in_any_locale(machine: Machine, words: tuple[str, ...]) -> None:
    """Agents write paths as UTF-8 into their files: a locale without it would spell the same path otherwise."""
    home = machine.root / "gr\u00fcn \x9b"
    shutil.copytree(FIXTURES, home)
    machine.start(KIMI_CODE_HOME=str(home))
    for locale in ("C", "de_DE.ISO-8859-1"):
        done = machine.corral(*words, LC_ALL=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", KIMI_CODE_HOME=str(home))
        assert done.returncode == 0, done.stderr
        if "--json" in words:
            found = json.loads(done.stdout)["unattributed"]
            assert str(home) in {one["home"] for one in found}


def test_the_output_keeps_the_encoding_of_the_locale(machine: Machine) -> None:
    done = machine.corral("--version", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.stdout.isascii() and done.returncode == 0
    unknown = machine.corral("gr\u00fcn", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert unknown.returncode == 2 and unknown.stderr.isascii(), unknown.stderr


def test_installed_hooks_are_not_advised(machine: Machine) -> None:
    shutil.rmtree(machine.home / "sessions")
    before = machine.corral_alone("ps", "--all").stdout
    assert "No agent sessions" in before and "hooks install" in before
    assert machine.corral("hooks", "install").returncode == 0
    for words in (("ps", "--all"), ("doctor",)):
        done = machine.corral_alone(*words)
        assert "hooks install" not in done.stdout + done.stderr
    assert "installed" in machine.corral_alone("doctor").stdout


def test_hooks_are_not_advised_where_the_configuration_cannot_be_read(machine: Machine) -> None:
    shutil.rmtree(machine.home / "sessions")
    (machine.home / "config.toml").write_text("a = 1\nb =\n")
    pid = machine.start()
    (process,) = [one for one in machine.ps()["unattributed"] if one["pid"] == pid]
    assert process["advice"].startswith(f"fix {machine.home}/config.toml: the configuration does not parse")
    for words in (("ps", "--all"), ("doctor",)):
        done = machine.corral_alone(*words)
        assert "hooks install" not in done.stdout + done.stderr
    said = machine.corral_alone("doctor").stdout
    assert f"try: fix {machine.home}/config.toml: the configuration does not parse" in said
    assert "line 2" in said
    # Also after an installation, when the person breaks the file.
    (machine.home / "config.toml").write_text("a = 1\n")
    assert machine.corral("hooks", "install", "kimi-code").returncode == 0
    with (machine.home / "config.toml").open("a") as config:
        config.write("b =\n")
    for words in (("ps", "--all"), ("doctor",), ("hooks", "status")):
        done = machine.corral_alone(*words)
        assert "hooks install" not in done.stdout + done.stderr


def test_hooks_that_are_switched_off_are_not_advised_again(machine: Machine) -> None:
    settings = machine.root / ".qwen" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"disableAllHooks": true}')
    shutil.rmtree(machine.home)
    assert machine.corral("hooks", "install", "qwen-code").returncode == 0
    for words in (("ps", "--all"), ("doctor",), ("hooks", "status")):
        done = machine.corral_alone(*words)
        assert "hooks install" not in done.stdout + done.stderr
    assert "disableAllHooks is true" in machine.corral_alone("doctor").stdout


def test_what_a_foreign_file_says_cannot_move_the_cursor(machine: Machine) -> None:
    (path, *_) = (machine.home / "sessions").glob("*/*/state.json")
    state = json.loads(path.read_text())
    state["cwd"] = "/tmp/\x1b[31mred\nline"
    path.write_text(json.dumps(state))
    other = path.parent.parent / f"{path.parent.name}-too"
    shutil.copytree(path.parent, other)
    (other / "state.json").write_text(json.dumps(state | {"id": other.name}))
    session, unclear = path.parent.name, path.parent.name[:-1]
    shown = [(verb, name) for verb in ("show", "explain", "resume") for name in (session, unclear)]
    for words in (("ps", "--all"), *shown, ("doctor",)):
        done = machine.corral(*words)
        assert "\x1b" not in done.stdout + done.stderr
        assert "\nline" not in done.stdout + done.stderr


def test_a_claim_by_runtime_json_is_found_in_a_home_by_another_name(machine: Machine) -> None:
    link = machine.root / "link"
    link.symlink_to(machine.home)
    (path, *_) = (machine.home / "sessions").glob("*/*/state.json")
    sidecar.write(
        path.parent, session_id=path.parent.name, work_dir="/", cli="kimi", version="2.1.0", process=os.getpid()
    )
    survey = machine.ps(KIMI_CODE_HOME=str(link))
    live = [row for row in survey["sessions"] if row["state"] == "live"]
    assert [row["pids"] for row in live] == [[os.getpid()]]


def test_a_config_that_is_no_file_is_told_and_never_waited_for(machine: Machine) -> None:
    place = machine.root / "config"
    place.mkdir()
    os.mkfifo(place / "config.toml")
    done = machine.corral("config", CORRAL_CONFIG_DIR=str(place))
    assert (done.returncode, "not a regular file" in done.stderr) == (1, True)
    assert machine.corral("ps", CORRAL_CONFIG_DIR=str(place)).returncode == 0


def test_a_config_behind_a_link_is_read(machine: Machine) -> None:
    place = machine.root / "config"
    place.mkdir()
    (machine.root / "dotfile").write_text('[homes]\nkimi-code = ["/somewhere/else"]\n')
    (place / "config.toml").symlink_to(machine.root / "dotfile")
    assert "/somewhere/else" in machine.corral("config", CORRAL_CONFIG_DIR=str(place)).stdout


def test_a_cache_with_rubbish_in_it_is_made_again(machine: Machine) -> None:
    settle(machine.home)
    machine.ps()
    before = machine.ps()
    with sqlite3.connect(machine.root / ".cache" / "corral" / "cache.db") as db:
        assert db.execute("UPDATE records SET resting = x'c1' WHERE length(fingerprint)").rowcount > 0
    assert machine.ps()["sessions"] == before["sessions"]


def test_a_silent_agent_raises_doubt_for_sessions_that_were_only_counted(machine: Machine) -> None:
    settle(machine.home)
    everything = {row["session_id"] for row in machine.ps()["sessions"]}
    assert noteworthy(machine) < everything
    machine.start()
    assert noteworthy(machine) == everything


def noteworthy(machine: Machine) -> set[str]:
    """What `corral ps` lists without `--all`, as a person would call it."""
    listed = json.loads(machine.corral("ps", "--json", "--provider", "kimi-code").stdout)
    return {row["session_id"] for row in listed["sessions"] if row["home"].startswith(str(machine.root))}


def test_a_write_that_nobody_explains_is_a_witness_and_a_touch_is_none(machine: Machine) -> None:
    assert machine.corral("hooks", "install", "kimi-code").returncode == 0
    time.sleep(0.05)  # the installation must be older than the process, in ticks of 10 ms
    pid = machine.start()
    before = machine.ps()
    assert [process["pid"] for process in before["no_session_yet"]] == [pid]
    idle = next(row for row in before["sessions"] if row["state"] == "idle")
    wire = machine.home / "sessions" / idle["scope"] / idle["session_id"] / "agents" / "main" / "wire.jsonl"
    record = json.dumps({"type": "usage.record", "time": int(time.time() * 1000)}) + "\n"
    wire.touch()
    (machine.root / "backup").mkdir()
    shutil.copytree(wire.parent, machine.root / "backup" / "main")
    assert machine.ps()["unattributed"] == []
    shutil.copyfile(machine.root / "backup" / "main" / wire.name, wire)  # the backup is put back
    sub_agent = wire.parent.with_name("agent-7") / wire.name
    sub_agent.parent.mkdir()
    sub_agent.write_text(record)
    assert machine.ps()["unattributed"] == []
    with wire.open("a") as file:
        file.write(record)
    survey = machine.ps()
    assert [process["pid"] for process in survey["unattributed"]] == [pid]
    (written,) = [row for row in survey["sessions"] if row["session_id"] == idle["session_id"]]
    assert (written["state"], written["maybe_pids"]) == ("unknown", [pid])
    assert "written" in written["reason"] and str(pid) in written["reason"]
