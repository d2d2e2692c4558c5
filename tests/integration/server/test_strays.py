"""Agents without a known session: they appear while they run, and go when they end, before a subscriber's eyes."""

from __future__ import annotations

import json
import sys
import time

import pytest

from tests.integration.server.strays import end_stray, start_stray, write_stray
from tests.integration.server.test_events import watching
from tests.integration.server.test_restore import install_silent_agent, lose_terminal, talk
from tests.integration.terminals.held import wait_until
from tests.integration.terminals.test_attach_elsewhere import tmux  # noqa: F401 - a fixture

ROUNDS = 6
SOON_S = 1.0
"""What is promised; on a busy machine it is late now and then, but not most of the time."""


@pytest.fixture
def stray(world):
    started = []

    def start():
        started.append(start_stray(world))
        return started[-1]

    yield start
    for process in started:
        end_stray(process)


def pids_in(body, name: str) -> set[int]:
    return {one["pid"] for one in body[name]}


def test_an_agent_that_reports_to_nobody_appears_and_goes(serving, stray):
    events = serving.events()
    appeared, gone = list[float](), list[float]()
    for _ in range(ROUNDS):
        process = stray()
        begun = time.monotonic()
        _, body = events.wait_for("agents", lambda body, pid=process.pid: pid in pids_in(body, "unattributed"))
        appeared.append(time.monotonic() - begun)
        (found,) = [one for one in body["unattributed"] if one["pid"] == process.pid]
        assert (found["provider"], found["advice"]) == ("kimi-cli", "corral hooks install kimi-cli")
        assert process.pid in pids_in(serving.ask("GET", "/api/sessions").body, "unattributed")
        begun = time.monotonic()
        end_stray(process)
        events.wait_for("agents", lambda body, pid=process.pid: pid not in pids_in(body, "unattributed"))
        gone.append(time.monotonic() - begun)
    events.close()
    for times in (appeared, gone):
        assert sorted(times)[ROUNDS // 3] < SOON_S, times


def test_one_that_has_no_session_yet_appears_and_goes(serving, world, stray):
    (world.root / ".kimi").mkdir(exist_ok=True)
    assert serving.ask("POST", "/api/hooks/kimi-cli").status == 200
    events = serving.events()
    process = stray()
    events.wait_for("agents", lambda body: process.pid in pids_in(body, "no_session_yet"))
    end_stray(process)
    events.wait_for("agents", lambda body: process.pid not in pids_in(body, "no_session_yet"))


def test_what_was_maybe_open_is_not_any_more_when_the_process_ends(serving, world, stray):
    tab = serving.start_tab()
    ref = serving.tabs()[tab]["ref"]
    viewer = serving.terminal(tab)
    viewer.type(b"a turn\r")
    viewer.read_until(b": a turn")
    viewer.type(b"/quit\r")
    serving.wait_for_tab(tab, lambda one: one["state"] == "ended")
    events = serving.events()
    process = stray()
    events.wait_for("session", lambda body: body["session"]["ref"] == ref and body["session"]["state"] == "unknown")
    end_stray(process)
    events.wait_for("session", lambda body: body["session"]["ref"] == ref and body["session"]["state"] == "idle")


def test_corral_watch_tells_of_them_too(world, stray):
    with watching(world, [sys.executable, "-m", "corral", "watch", "--json"]) as read:
        assert read()["event"] == "snapshot"
        process = stray()
        while (line := read())["event"] != "agents" or process.pid not in pids_in(line, "unattributed"):
            pass
        end_stray(process)
        while (line := read())["event"] != "agents" or process.pid in pids_in(line, "unattributed"):
            pass


def lose_tab_with_turn(serving) -> str:
    """A tab whose agent had one turn, and whose terminal is gone."""
    tab = serving.start_tab()
    talk(serving, tab, "a turn")
    lose_terminal(serving, tab)
    serving.wait_for_tab(tab, lambda one: one["state"] == "gone")
    return tab


def test_a_refusal_never_outlives_the_process_that_it_names(serving, stray):
    tab = lose_tab_with_turn(serving)
    first = stray()
    refused = serving.ask("POST", f"/api/tabs/{tab}/open", {})
    assert refused.reason == "maybe_open" and str(first.pid) in refused.body["error"]["message"]
    end_stray(first)
    shown = serving.wait_for_tab(tab, lambda one: one["refusal"] is None)
    assert shown["state"] == "gone"
    second = stray()
    again = serving.ask("POST", f"/api/tabs/{tab}/open", {})
    assert str(second.pid) in again.body["error"]["message"]
    assert str(first.pid) not in json.dumps(again.body)
    shown = serving.wait_for_tab(tab, lambda one: str(second.pid) in json.dumps(one["refusal"] or "pid"))
    assert str(first.pid) not in json.dumps(shown["refusal"])


def test_a_look_is_about_this_moment_and_says_where_each_process_is(serving, world, stray):
    tab = lose_tab_with_turn(serving)
    path = f"/api/sessions/{serving.tabs()[tab]['ref']}/look"
    free = serving.ask("GET", path).body
    assert (free["session"]["state"], free["processes"]) == ("idle", [])
    process = stray()
    found = serving.ask("GET", path).body  # at once: whether anything was told of it or not
    assert (found["session"]["state"], found["session"]["maybe_pids"]) == ("unknown", [process.pid])
    (place,) = found["processes"]
    assert (place["pid"], place["kind"], place["tab"]) == (process.pid, "none", None)
    assert place["words"].endswith("runs without a terminal")
    end_stray(process)
    assert serving.ask("GET", path).body["session"]["state"] == "idle"
    write_stray(world.program)
    held = world.corral("run", "kimi-cli", "--detach", "--yes", "--no-hooks", "--", "--plain").stdout.strip()
    found = serving.ask("GET", path).body["processes"]
    assert [(one["kind"], one["tab"]) for one in found] == [("tab", held)]
    assert serving.ask("GET", "/api/sessions/0123456789abcdef/look").status == 404


def test_to_go_somewhere_starts_nothing(serving):
    tab = lose_tab_with_turn(serving)
    ref = serving.tabs()[tab]["ref"]
    refused = serving.ask("POST", f"/api/sessions/{ref}/open", {"attach_only": True})
    assert (refused.status, refused.reason) == (409, "not_open")
    assert [one["state"] for one in serving.tabs().values()] == ["gone"]
    other = serving.start_tab()
    opened = serving.ask("POST", f"/api/sessions/{serving.tabs()[other]['ref']}/open", {"attach_only": True})
    assert opened.body == {"tab": other, "plan": "attach"}


def test_a_tab_that_nobody_identified_says_what_will_not_be_possible(serving, world):
    write_stray(world.program)
    tab = world.corral("run", "kimi-cli", "--detach", "--yes", "--no-hooks", "--", "--plain").stdout.strip()
    lively = serving.wait_for_tab(tab, lambda one: one["state"] == "running")
    assert not lively["restorable"] and "only through hooks" in lively["live_only_reason"]
    lose_terminal(serving, tab)
    gone = serving.wait_for_tab(tab, lambda one: one["state"] == "gone")
    assert not gone["restorable"] and "only through hooks" in gone["live_only_reason"]
    assert serving.ask("POST", f"/api/tabs/{tab}/open", {}).reason == "never_identified"


def test_a_holder_that_dies_is_noticed_whatever_ran_in_it(serving, world):
    """Nothing on disk says so, and its program may be no agent that anybody knows."""
    install_silent_agent(serving)
    tab = world.corral("run", "kimi-cli", "--detach", "--yes", "--no-hooks", "--", "--plain").stdout.strip()
    serving.wait_for_tab(tab, lambda one: one["state"] == "running")
    events = serving.events()
    events.wait_for("beat")  # all that was to be told of its start is told
    lose_terminal(serving, tab)
    events.wait_for("tab", lambda body: body["tab"]["tab"] == tab and body["tab"]["state"] == "gone")


def test_a_process_in_tmux_is_named_with_the_way_there(serving, world, tmux):  # noqa: F811
    tab = lose_tab_with_turn(serving)
    program = write_stray(world.root / "elsewhere" / "kimi")
    tmux("new-session", "-d", "-s", "work", "-x", "90", "-y", "25", str(program))
    path = f"/api/sessions/{serving.tabs()[tab]['ref']}/look"
    wait_until(lambda: serving.ask("GET", path).body["processes"], "the process in tmux")
    (place,) = serving.ask("GET", path).body["processes"]
    assert place["kind"] == "tmux" and "pane work:0.0" in place["words"]
    assert place["command"][0] == "tmux" and "attach-session" in place["command"]
