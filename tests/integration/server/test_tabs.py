"""Tabs over the server: the same process and the same bytes, whatever happens to the server."""

from __future__ import annotations

import json
import os
import signal
import socket

import pytest
from websockets.sync.client import connect

from corral.terminals.directory import list_terminals
from tests.integration.server.serving import Viewer
from tests.integration.terminals.held import is_gone, kill, wait_until


def say(viewer: Viewer, text: str, answer: bytes) -> None:
    viewer.type(text.encode() + b"\r")
    viewer.read_until(answer)


def test_a_fresh_tab_is_listed_with_its_session_and_shows_its_terminal(serving):
    tab = serving.start_tab()
    shown = serving.tabs()[tab]
    session = next(one for one in serving.sessions().values() if one["ref"] == shown["ref"])
    assert (session["tab"], session["state"], session["pid"]) == (tab, "live", shown["pid"])
    assert shown["restorable"] and shown["live_only_reason"] is None
    viewer = serving.terminal(tab)
    viewer.read_until(session["session_id"].encode())
    say(viewer, "hello", b": hello")
    viewer.close()


def test_a_server_that_is_killed_loses_no_byte(serving):
    tab = serving.start_tab()
    pid = serving.tabs()[tab]["pid"]
    viewer = serving.terminal(tab)
    say(viewer, "before", b": before")
    seen, end = viewer.data, viewer.end
    serving.kill()
    serving.start()
    shown = serving.tabs()[tab]
    assert (shown["pid"], shown["state"]) == (pid, "running")
    again = serving.terminal(tab, offset=end)
    assert again.begin == end
    say(again, "after", b": after")
    whole = serving.terminal(tab)
    while whole.end < again.end:
        whole.step()
    assert whole.begin == 0
    assert whole.data[: len(seen)] == seen
    assert whole.data[end : again.end] == again.data
    assert os.path.exists(f"/proc/{pid}")


def test_a_stopped_server_ends_cleanly_and_its_terminals_live_on(serving):
    tab = serving.start_tab()
    pid = serving.tabs()[tab]["pid"]
    page = serving.events()  # as a page that is open has it
    assert serving.stop() == 0
    assert "Traceback" not in serving.errors()
    assert next(iter(page))[1] == "hello"
    page.close()
    assert serving.world.tab(tab)["pid"] == pid
    serving.start()
    assert serving.tabs()[tab]["pid"] == pid


def test_an_ended_program_is_shown_with_its_status(serving):
    tab = serving.start_tab()
    viewer = serving.terminal(tab)
    viewer.type(b"/quit\r")
    while not any("exit" in one for one in viewer.controls):
        viewer.step()
    assert viewer.controls[-1] == {"exit": 0}
    shown = serving.wait_for_tab(tab, lambda one: one["exit_status"] is not None)
    assert (shown["state"], shown["exit_status"], shown["ended"]) == ("ended", 0, "ended with exit status 0")


def test_what_ended_a_program_and_what_could_not_be_started_is_said_in_words(serving, world):
    tab = serving.start_tab()
    os.kill(serving.tabs()[tab]["pid"], signal.SIGKILL)
    shown = serving.wait_for_tab(tab, lambda one: one["exit_status"] is not None)
    assert (shown["state"], shown["ended"]) == ("ended", "ended by signal 9 (SIGKILL): it was killed")
    terminal = next(one for one in list_terminals(str(world.state / "terminals")) if one.tab == tab)
    if terminal.holder is not None:
        kill(terminal.holder)
        wait_until(lambda: is_gone(terminal.holder), "the end of its holder")
    with pytest.raises(AssertionError, match="is closed: its program ended by signal 9"):
        failing(serving, tab)
    world.program.write_text("#!/opt/gone/python\n")
    body = {"provider": "kimi-cli", "work_dir": str(world.work), "trust": True, "live_only": True}
    refused = serving.ask("POST", "/api/tabs", body)
    assert refused.reason == "spawn_failed"
    wanted = f"{world.program} is a script for /opt/gone/python, which is not there"
    assert refused.body["error"]["message"] == wanted


def failing(serving, tab: str) -> None:
    """Attach to a terminal that is not there, and raise what is said."""
    viewer = connect(
        f"ws://{serving.host}/api/tabs/{tab}/terminal",
        sock=socket.create_connection(("127.0.0.1", serving.port), 60),
        origin=serving.origin,
        additional_headers={"Authorization": f"Bearer {serving.token}"},
    )
    with viewer:
        said = json.loads(viewer.recv(60))["failed"]["message"]
    raise AssertionError(said)


def test_a_closed_tab_lives_on_and_opens_again_from_its_session(serving):
    tab = serving.start_tab()
    shown = serving.tabs()[tab]
    assert serving.ask("DELETE", f"/api/tabs/{tab}").status == 204
    assert tab not in serving.tabs()
    assert os.path.exists(f"/proc/{shown['pid']}")
    opened = serving.ask("POST", f"/api/sessions/{shown['ref']}/open", {})
    assert (opened.status, opened.body) == (200, {"tab": tab, "plan": "attach"})
    assert serving.tabs()[tab]["pid"] == shown["pid"]


def test_the_order_of_tabs_is_kept_over_a_restart(serving):
    first, second, third = (serving.start_tab() for _ in range(3))
    assert list(serving.tabs()) == [first, second, third]
    assert serving.ask("POST", f"/api/tabs/{third}/move", {"order": 0}).status == 204
    assert list(serving.tabs()) == [third, first, second]
    serving.kill()
    serving.start()
    assert list(serving.tabs()) == [third, first, second]


def test_ending_a_tab_ends_its_program(serving):
    tab = serving.start_tab()
    pid = serving.tabs()[tab]["pid"]
    assert serving.ask("POST", f"/api/tabs/{tab}/end", {}).status == 202
    serving.wait_for_tab(tab, lambda one: one["state"] == "ended")
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "its end")


def test_a_directory_that_is_new_and_hooks_that_are_missing_are_asked_about_first(serving):
    body = {"provider": "kimi-cli", "work_dir": str(serving.world.work)}
    new = serving.ask("POST", "/api/tabs", body)
    assert (new.reason, new.body["error"]["commands"]) == ("ask_trust", []) and new.body["error"]["remedy"]
    silent = serving.ask("POST", "/api/tabs", {**body, "trust": True})
    assert silent.reason == "hooks_missing"
    assert silent.body["error"]["commands"] == silent.body["error"]["remedy"] == ["corral hooks install kimi-cli"]
    for nowhere in ("/nowhere/at/all", "", "/with\0nothing"):
        assert serving.ask("POST", "/api/tabs", {**body, "work_dir": nowhere}).reason == "work_dir_missing"
    assert serving.ask("POST", "/api/tabs", {**body, "provider": "qwen-code"}).reason == "provider_missing"
    unknown = serving.ask("POST", "/api/tabs", {**body, "provider": "no-such-cli"})
    assert (unknown.status, unknown.reason) == (404, "no_such_provider")
    assert serving.tabs() == {}
    assert list(serving.world.state.glob("bindings/*")) == []
