"""Which processes are Codex's and which threads they have: real processes under its name, which hold real locks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.machine.processes import ProcessTable
from corral.model.process import NOTHING, WHOLE_HOME, ProcessMode, Reach, Recognised
from corral.model.restore import Attach, Refusal, Refused
from corral.model.verdict import Activity, State
from corral.providers.codex import PROVIDER as codex
from corral.tabs.kill import decide_end
from tests.providers.codex_support import AGENT, DAEMON_KILLED, FORK, HOLDER, NEW_ID, PARENT, WITH_AGENT, Place
from tests.providers.node import find_node

DAEMON = ("app-server", "--listen", "unix://", "--managed-daemon")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    for name in ("STATE", "CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"CORRAL_{name}_DIR", str(tmp_path / name.lower()))
    place = Place(tmp_path)
    yield place
    place.kill()


def recognise(pid: int) -> Recognised | None:
    table = ProcessTable()
    process = table.find(pid)
    assert process is not None
    return codex.recognise(process, table)


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ((), ProcessMode.CLIENT),
        (("resume", PARENT), ProcessMode.CLIENT),
        (("agents",), ProcessMode.CLIENT),
        (("--no-daemon", "-C", "/tmp"), ProcessMode.INTERACTIVE),
        (("resume", "--no-daemon", PARENT), ProcessMode.INTERACTIVE),
        (("--dangerously-bypass-hook-trust",), ProcessMode.INTERACTIVE),
        (("-m", "app-server", "exec", "--json", "hello"), ProcessMode.HEADLESS),
        (("e", "app-server"), ProcessMode.HEADLESS),
        (("review",), ProcessMode.HEADLESS),
        (DAEMON, ProcessMode.SERVER),
        (("mcp-server",), ProcessMode.SERVER),
    ],
)
def test_how_it_was_started(place: Place, words: tuple[str, ...], mode: ProcessMode) -> None:
    pid = place.start(*words)
    found = recognise(pid)
    assert found is not None
    assert (found.mode, found.home, found.group) == (mode, str(place.root), pid)


@pytest.mark.parametrize("words", [("login",), ("mcp", "list"), ("app-server", "daemon", "start"), ("--version",)])
def test_what_can_have_no_thread_is_no_agent(place: Place, words: tuple[str, ...]) -> None:
    assert recognise(place.start(*words)) is None


def test_another_program_of_that_name_is_not_codex(place: Place, tmp_path: Path) -> None:
    script = tmp_path / "codex"
    script.write_text("#!/bin/sh\necho\nread x\n")
    script.chmod(0o755)
    with subprocess.Popen([script], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout and process.stdout.readline() == "\n"
        assert recognise(process.pid) is None
        process.kill()


def test_the_version_is_that_of_its_package(place: Place, tmp_path: Path) -> None:
    place.start()
    package = tmp_path / "node_modules" / "@openai" / "codex-linux-x64"
    (package / "vendor" / "bin").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "@openai/codex", "version": "0.166.0-linux-x64"}')
    os.link(place.program, package / "vendor" / "bin" / "codex")
    found = recognise(place.start(program=package / "vendor" / "bin" / "codex"))
    assert found is not None and found.version == "0.166.0"


def test_a_wrapper_is_a_level_of_the_same_run(place: Place, tmp_path: Path) -> None:
    place.start()
    package = tmp_path / "node_modules" / "@openai" / "codex"
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "@openai/codex", "version": "0.166.0"}')
    wrapper = package / "bin" / "codex.js"
    wrapper.write_text(
        "require('node:child_process').spawn(process.env.NATIVE, process.argv.slice(2), {stdio: 'inherit'});"
    )
    env = {"HOME": str(tmp_path), "NATIVE": str(place.program), "PYTHONHOME": sys.base_prefix}
    words = [str(find_node()), str(wrapper), "-c", HOLDER, "--no-daemon"]
    with subprocess.Popen(words, env=env, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout and process.stdout.readline() == "\n"
        table = ProcessTable()
        (child,) = table.children(process.pid)
        levels = [recognise(process.pid), recognise(child.pid)]
        assert [one and (one.group, one.mode) for one in levels] == [(process.pid, ProcessMode.INTERACTIVE)] * 2
        assert process.stdin
        process.stdin.close()


@pytest.mark.parametrize(
    ("words", "reach"),
    [
        (("--no-daemon",), NOTHING),
        (("exec", "hello"), NOTHING),
        (DAEMON, NOTHING),
        (("resume", "--no-daemon", PARENT), Reach(directories=(), ids=(PARENT,), renamed=False)),
        (("resume", "--no-daemon", "--last"), WHOLE_HOME),
        (("exec", "resume", "--last", "hello"), WHOLE_HOME),
    ],
)
def test_what_it_may_be_about_to_open(place: Place, words: tuple[str, ...], reach: Reach) -> None:
    pid = place.start(*words)
    process = ProcessTable().find(pid)
    assert process is not None
    assert codex.find_reach(process, str(place.root)) == reach


# --- claims


def test_a_lock_says_which_process_has_a_thread_and_a_file_alone_nothing(place: Place) -> None:
    place.lock(FORK)
    pid = place.start("--no-daemon", locks=(PARENT,))
    for _ in range(2):
        assert place.live() == {PARENT: pid}
    found = {one.session_id: one for one in place.look().sessions}
    assert found[FORK].state is State.IDLE
    assert found[PARENT].activity is Activity.READY
    assert isinstance(found[PARENT].restore, Attach) and found[PARENT].restore.pid == pid
    place.kill()
    assert place.live() == {}


def test_a_fresh_thread_is_live_before_anything_of_it_is_on_disk(place: Place) -> None:
    pid = place.start("--no-daemon", locks=(NEW_ID,))
    assert place.live() == {NEW_ID: pid}


def test_a_turn_left_open_by_another_process_is_not_its_own(place: Place) -> None:
    place.start("--no-daemon", locks=(DAEMON_KILLED,))
    (found,) = [one for one in place.look().sessions if one.state is State.LIVE]
    assert found.activity is Activity.READY


def test_the_daemon_has_all_threads_and_its_windows_have_none(place: Place) -> None:
    daemon = place.start(*DAEMON, locks=(PARENT, FORK))
    windows = {place.start(), place.start("resume", FORK)}
    survey = place.look()
    assert {one.session_id: one.pid for one in survey.sessions if one.state is State.LIVE} == {
        PARENT: daemon,
        FORK: daemon,
    }
    assert {one.pid for one in survey.no_session_yet} == windows and not survey.unattributed
    assert {one.state for one in survey.sessions} == {State.LIVE, State.IDLE, State.ORPHANED, State.EMPTY}
    keys = {one.session_id: one.key for one in survey.sessions}
    refused = decide_end(keys[PARENT], survey.sessions)
    assert isinstance(refused, Refused) and refused.reason is Refusal.SERVES_OTHERS


def fronts(place: Place) -> dict[str, bool | None]:
    return {one.session_id: judged.claim.foreground for one in place.look().sessions for judged in one.verdict.evidence}


def test_of_several_threads_only_a_sub_agent_is_surely_not_in_front(place: Place) -> None:
    place.start("--no-daemon", locks=(WITH_AGENT, AGENT), logs=(WITH_AGENT, AGENT))
    assert fronts(place) == {WITH_AGENT: True, AGENT: False}
    place.kill()
    place.start("--no-daemon", locks=(PARENT, FORK), logs=(PARENT, FORK))
    assert fronts(place) == {PARENT: None, FORK: None}
    place.kill()
    place.start(*DAEMON, locks=(PARENT,), logs=(PARENT,))
    assert fronts(place) == {PARENT: None}


def test_a_session_may_be_ended_with_its_sub_agents_and_not_one_of_them(place: Place) -> None:
    place.start("--no-daemon", locks=(WITH_AGENT, AGENT))
    sessions = place.look().sessions
    keys = {one.session_id: one.key for one in sessions}
    assert not isinstance(decide_end(keys[WITH_AGENT], sessions), Refused)
    refused = decide_end(keys[AGENT], sessions)
    assert isinstance(refused, Refused) and refused.reason is Refusal.SERVES_OTHERS


def test_the_sub_agent_of_another_session_is_not_ended_with_this_one(place: Place) -> None:
    place.start(*DAEMON, locks=(PARENT, AGENT))
    sessions = place.look().sessions
    refused = decide_end(next(one.key for one in sessions if one.session_id == PARENT), sessions)
    assert isinstance(refused, Refused) and refused.reason is Refusal.SERVES_OTHERS


def test_a_process_that_has_just_begun_makes_only_what_it_may_open_doubtful(place: Place) -> None:
    resuming = place.start("resume", "--no-daemon", PARENT)
    found = {one.session_id: one for one in place.look().sessions}
    assert (found[PARENT].state, found[PARENT].verdict.maybe_pids) == (State.UNKNOWN, (resuming,))
    assert found[FORK].state is State.IDLE
