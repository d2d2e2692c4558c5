"""What a demo shows, that a lost tab comes back in it, and that nothing outlives it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from corral.sidecar.processes import read_identity
from tests.contract.terminal import Terminal
from tests.integration.demo.showing import (
    SECONDS,
    Person,
    Showing,
    assert_all_gone,
    caretaker_of,
    running_in,
    running_with,
    wait_for_place,
)
from tests.integration.terminals.held import kill, wait_until


@pytest.fixture
def person(tmp_path):
    return Person(tmp_path)


@pytest.fixture(scope="module")
def showing(tmp_path_factory):
    """One for all tests that only look or use it."""
    found = Showing(Person(tmp_path_factory.mktemp("demo")))
    try:
        yield found.await_ready()
    finally:
        found.end()


@pytest.fixture
def show(person):
    started: list[Showing] = []

    def start(*words: str) -> Showing:
        started.append(Showing(person, *words))
        return started[-1]

    yield start
    for one in started:
        one.end()


def test_every_state_is_shown_by_the_server_and_on_the_command_line(showing):
    sessions = showing.sessions()
    live = {title: one["activity"] for title, one in sessions.items() if one["state"] == "live"}
    assert (
        live.items()
        >= {"Fix the checkout rounding": "waiting", "Add tests for refunds": "busy", "Rate limiter": "ready"}.items()
    )
    states = {title: one["state"] for title, one in sessions.items()}
    assert states["Upgrade the linter"] == "orphaned" and states["Translate the welcome page"] == "elsewhere"
    assert states["Dark theme"] == "idle"
    assert len({one["work_dir"] for one in sessions.values()}) == 3
    for one in sessions.values():
        if one["state"] == "live":
            assert read_identity(one["pid"]) is not None
    shown = showing.corral("ps", "--all")
    for words in ("◆ waiting", "◐ busy", "● ready", "✖ lost", "⇄ claimed by", "○ idle"):
        assert words in shown
    answer = showing.api("sessions")
    assert answer["degraded"] == [] and answer["demo"] is True


def test_there_is_something_to_see_of_usage(showing):
    wait_until(lambda: len(showing.api("usage?by=day")["rows"]) >= 4, "the first reading of the logs", SECONDS)
    assert showing.api("usage?by=day")["total"]["cost"]["unpriced_events"] == 0
    assert "~/src/shop" in showing.corral("usage", "--by", "project")


def test_a_tab_that_was_cut_off_comes_back_as_the_same_conversation(showing):
    tab = showing.tab("Migrate to v2")
    assert tab["state"] == "gone" and tab["restorable"]
    lost = showing.sessions()["Migrate to v2"]
    assert lost["state"] == "orphaned"
    showing.api(f"tabs/{tab['tab']}/open", {})
    wait_until(lambda: showing.sessions()["Migrate to v2"]["state"] == "live", "the session", SECONDS)
    back = showing.sessions()["Migrate to v2"]
    assert back["session_id"] == lost["session_id"] and read_identity(back["pid"]) is not None
    wait_until(lambda: showing.tab("Migrate to v2")["state"] == "running", "its tab", SECONDS)


def test_a_new_tab_needs_no_questions_answered_but_the_directory(showing):
    started = showing.api("tabs", {"provider": "kimi-cli", "work_dir": showing.place.home, "trust": True})
    wait_until(
        lambda: any(one["tab"] == started["tab"] and one["ref"] for one in showing.api("tabs")["tabs"]),
        "its session",
        SECONDS,
    )


def test_agents_of_the_person_have_no_part_in_it(showing):
    # As the real one looks like while it starts: its home would be read and its doubts be shared.
    program = showing.person.home / "bin" / "kimi"
    program.parent.mkdir(exist_ok=True)
    program.write_text("import time\ntime.sleep(600)\n")
    env = showing.person.env | {"KIMI_SHARE_DIR": str(showing.person.home / ".kimi")}
    running = subprocess.Popen([sys.executable, str(program)], env=env)
    try:
        words = [sys.executable, "-m", "corral", "ps", "--all", "--json"]
        own = json.loads(subprocess.run(words, env=env, capture_output=True, check=True, timeout=60).stdout)
        assert running.pid in [one["pid"] for one in (*own["unattributed"], *own["no_session_yet"])]
        shown = json.loads(showing.corral("ps", "--all", "--json"))
        assert shown["unattributed"] == []
        assert {one["home"] for one in shown["sessions"]} == {showing.place.agent_home}
    finally:
        running.kill()
        running.wait()


def test_nothing_outside_its_directory_is_written_and_ctrl_c_ends_all_of_it(person):
    before = person.files()
    with Terminal(person.command(), cwd=person.home, env=person.env, columns=160, lines=60) as terminal:
        terminal.wait_screen("Ctrl-C ends every process", SECONDS)
        (place,) = person.places()
        assert os.stat(place.root).st_mode & 0o777 == 0o700
        running = running_in(place)
        assert len(running) >= 2 + 2 * 3  # its caretaker and its server, three holders, three agents
        terminal.send("\x03")
        assert terminal.wait_exit(SECONDS) == 0
        assert "nothing is left of it" in terminal.screen()
    assert [one for one in running if read_identity(one.pid) == one] == []
    assert person.files() == before and list(person.temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_of_its_start_leaves_nothing(show, person, number):
    started = show()
    running = running_in(wait_for_place(person))
    assert started.stop(number) == 0
    assert_all_gone(started, running)


def test_one_that_is_killed_in_the_middle_of_its_start_ends_by_itself(show, person):
    started = show()
    running = running_in(wait_for_place(person))
    assert started.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not list(person.temporary.iterdir()), "the end of its place", SECONDS)
    wait_until(lambda: not [one for one in running if read_identity(one.pid) == one], "its last process", SECONDS)
    assert "could not clean up" not in started.errors.read_text()


def test_one_that_is_killed_ends_by_itself_and_keeps_the_files_it_was_to_keep(show, person):
    started = show("--keep").await_ready()
    running = running_in(started.place)
    assert len(running) >= 2 + 2 * 3  # its caretaker and its server, three holders, three agents
    assert started.stop(signal.SIGKILL) == -signal.SIGKILL

    def is_over() -> bool:
        owner = started.place.read_owner()
        return owner is not None and owner.kept and not running_in(started.place)

    wait_until(is_over, "its last process", SECONDS)
    assert Path(started.place.home, ".kimi", "kimi.json").is_file()


def test_what_a_killed_one_left_is_swept_by_the_next_and_other_directories_are_not(show, person):
    """Killed with its caretaker, as when memory runs out."""
    started = show()
    place = wait_for_place(person)
    running = running_in(place)
    kill(caretaker_of(place))
    assert started.stop(signal.SIGKILL) == -signal.SIGKILL
    assert [one for one in running if read_identity(one.pid) == one] != []
    foreign = person.temporary / "corral-demo-of-somebody"
    foreign.mkdir(mode=0o700)
    (foreign / "precious").write_text("x")
    alive = person.temporary / "corral-demo-alive"
    alive.mkdir(mode=0o700)
    own = read_identity(os.getpid())
    assert own is not None
    (alive / "owner.json").write_text(
        f'{{"schema": 1, "process": ["{own.boot_id}", {own.pid_ns}, {own.pid}, {own.start_ticks}], "kept": false}}'
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        # The next one sweeps, and then can't have this port: it says so, and leaves nothing of its own.
        following = show("--port", str(taken.getsockname()[1]))
        assert following.wait() == 1
    said = following.errors.read_text()
    assert "cleaned up after a demo that was killed" in said and "Address already in use" in said
    assert [one for one in running if read_identity(one.pid) == one] == []
    assert sorted(path.name for path in person.temporary.iterdir()) == ["corral-demo-alive", "corral-demo-of-somebody"]


def test_kept_files_stay_and_nothing_runs_in_them(show, person):
    started = show("--keep")
    place = wait_for_place(person)
    running = running_in(place)
    assert started.stop(signal.SIGTERM) == 0
    assert [one for one in running if read_identity(one.pid) == one] == [] == running_in(place)
    assert Path(place.home, ".kimi", "kimi.json").is_file()
    owner = place.read_owner()
    assert owner is not None and owner.kept


def test_it_says_when_its_server_ends_by_itself(show, person):
    started = show().await_ready()
    servers = running_with(started.place, b"serve")
    assert len(servers) == 1
    kill(servers[0])
    assert started.wait() == 1
    assert "the demo's server ended" in started.errors.read_text()
    assert list(person.temporary.iterdir()) == []
