"""Tabs whose terminal died come back as the same conversation, once, or say why they don't."""

from __future__ import annotations

import json
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from corral.demo.conversation import Home, Session, take_turn
from corral.terminals.directory import list_terminals
from tests.integration.server.serving import Serving
from tests.integration.server.test_tabs import say
from tests.integration.terminals.held import is_gone, kill, wait_until


def lose_terminal(serving: Serving, tab: str) -> None:
    """The holder dies, and with it the terminal and its program."""
    terminal = next(one for one in list_terminals(str(serving.world.state / "terminals")) if one.tab == tab)
    assert terminal.holder is not None
    for identity in (terminal.holder, terminal.child):  # a holder that sees its program end writes that down
        kill(identity)
    wait_until(lambda: is_gone(terminal.holder) and is_gone(terminal.child), "the end of both")


def lose_everything(serving: Serving) -> None:
    serving.kill()
    for terminal in list_terminals(str(serving.world.state / "terminals")):
        lose_terminal(serving, terminal.tab)
    serving.start()


def talk(serving: Serving, tab: str, text: str) -> str:
    """One turn; returns the id of the session that answered."""
    viewer = serving.terminal(tab)
    say(viewer, text, f": {text}".encode())
    viewer.close()
    ref = serving.wait_for_tab(tab, lambda one: one["ref"])["ref"]
    return next(one["session_id"] for one in serving.sessions().values() if one["ref"] == ref)


def context_of(serving: Serving, session_id: str) -> str:
    (path,) = serving.world.root.glob(f".kimi/sessions/*/{session_id}/context.jsonl")
    return path.read_text()


def list_own(serving: Serving) -> list[Any]:
    """What `corral ps` shows, less the agents of other homes."""
    shown = serving.world.json("ps")["sessions"]
    return [one for one in shown if one["home"].startswith(str(serving.world.root))]


def install_silent_agent(serving: Serving) -> None:
    """One that calls no hooks and writes nothing of itself."""
    serving.world.program.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'kimi, version 1.51.0' && exit\nexec cat\n"
    )


def test_a_tab_without_terminal_is_resumed_by_its_providers_id(serving):
    tab = serving.start_tab()
    session_id = talk(serving, tab, "remember")
    lose_everything(serving)
    gone = serving.wait_for_tab(tab, lambda one: one["state"] == "gone")
    assert gone["restorable"] and gone["pid"] is None
    opened = serving.ask("POST", f"/api/tabs/{tab}/open", {})
    assert (opened.status, opened.body) == (200, {"tab": tab, "plan": "resume"})
    assert talk(serving, tab, "again") == session_id
    assert "remember" in context_of(serving, session_id)
    viewer = serving.terminal(tab)
    viewer.read_until(b"echo #2: again")


def test_what_was_typed_while_no_server_ran_is_followed(serving):
    tab = serving.start_tab()
    first = talk(serving, tab, "one")
    serving.kill()
    attached = serving.world.on_terminal("attach", tab)
    attached.send("/new\r")
    wait_until(lambda: len(serving.world.sessions()) == 2, "the new session")
    attached.send("two\r")
    attached.wait_screen(": two")
    second = next(one for one in serving.world.sessions() if one != first)
    lose_terminal(serving, tab)
    serving.start()
    serving.wait_for_tab(tab, lambda one: one["state"] == "gone" and one["restorable"])
    assert serving.ask("POST", f"/api/tabs/{tab}/open", {}).body["plan"] == "resume"
    assert talk(serving, tab, "three") == second


def test_two_tabs_in_one_directory_come_back_each_as_itself_by_restore_all(serving):
    tabs = [serving.start_tab() for _ in range(3)]
    ids = {tab: talk(serving, tab, f"tab{number}") for number, tab in enumerate(tabs)}
    assert len(set(ids.values())) == 3
    lose_everything(serving)
    events = serving.events()
    assert serving.ask("POST", "/api/tabs/restore", {}).body == {"queued": 3}
    _, last = events.wait_for("restore", lambda body: body["done"] == 3)
    assert last == {"done": 3, "total": 3, "failed": 0}
    for tab in tabs:
        serving.wait_for_tab(tab, lambda one: one["state"] == "running" and one["ref"])
        assert talk(serving, tab, "again") == ids[tab]
    assert serving.ask("POST", "/api/tabs/restore", {}).body == {"queued": 0}


def test_many_clicks_start_one_process(serving):
    tab = serving.start_tab()
    session_id = talk(serving, tab, "once")
    lose_everything(serving)
    serving.wait_for_tab(tab, lambda one: one["state"] == "gone")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: serving.ask("POST", f"/api/tabs/{tab}/open", {}), range(8)))
    assert [answer.status for answer in answers] == [200] * 8
    assert {answer.body["tab"] for answer in answers} == {tab}
    assert sorted(answer.body["plan"] for answer in answers) == ["attach"] * 7 + ["resume"]
    serving.wait_for_tab(tab, lambda one: one["state"] == "running" and one["ref"])
    assert len(serving.sessions()[session_id]["pids"]) == 1


def test_a_server_killed_while_it_restores_does_not_spoil_it(serving):
    tab = serving.start_tab()
    session_id = talk(serving, tab, "firm")
    for number in range(3):
        lose_everything(serving)
        serving.wait_for_tab(tab, lambda one: one["state"] == "gone")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: serving.ask("POST", f"/api/tabs/{tab}/open", {}))
            wait_until(lambda: serving.process is not None, "the request")
            # At another moment each time: before, while or after the program is started.
            signal.sigtimedwait([], 0.05 + 0.15 * number)
            serving.kill()
        serving.start()
        serving.wait_for_tab(tab, lambda one: one["restorable"])
        assert serving.ask("POST", f"/api/tabs/{tab}/open", {}).status == 200
        serving.wait_for_tab(tab, lambda one: one["state"] == "running" and one["ref"])
        assert talk(serving, tab, f"turn{number}") == session_id
        assert len(serving.sessions()[session_id]["pids"]) == 1


def test_a_refusal_is_shown_and_logged_with_the_same_reason_and_changes_nothing(serving):
    tab = serving.start_tab()
    session_id = talk(serving, tab, "here")
    before = context_of(serving, session_id)
    lose_everything(serving)
    serving.wait_for_tab(tab, lambda one: one["state"] == "gone")
    shutil.move(serving.world.work, serving.world.root / "away")
    try:
        refused = serving.ask("POST", f"/api/tabs/{tab}/open", {})
        assert (refused.status, refused.reason) == (409, "work_dir_missing")
        shown = serving.wait_for_tab(tab, lambda one: one["state"] == "refused")
        assert shown["refusal"]["reason"] == "work_dir_missing"
        lines = [json.loads(line) for line in (serving.files / "log.jsonl").read_text().splitlines()]
        (logged,) = [line for line in lines if line["event"] == "restore_refused"]
        assert (logged["tab"], logged["reason"]) == (tab, "work_dir_missing")
        assert logged["message"] == shown["refusal"]["message"] == refused.body["error"]["message"]
    finally:
        shutil.move(serving.world.root / "away", serving.world.work)
    assert context_of(serving, session_id) == before
    assert serving.ask("POST", f"/api/tabs/{tab}/open", {}).status == 200


def test_a_tab_whose_home_is_gone_says_so(serving):
    tab = serving.start_tab()
    talk(serving, tab, "here")
    lose_everything(serving)
    serving.wait_for_tab(tab, lambda one: one["state"] == "gone")
    shutil.move(serving.world.root / ".kimi", serving.world.root / "away")
    assert serving.ask("POST", f"/api/tabs/{tab}/open", {}).reason == "home_missing"


def test_a_tab_that_was_never_identified_is_live_only_and_is_not_guessed(serving):
    install_silent_agent(serving)
    (serving.world.root / ".kimi").mkdir()
    body = {"provider": "kimi-cli", "work_dir": str(serving.world.work), "trust": True, "live_only": True}
    tab = serving.ask("POST", "/api/tabs", body).body["tab"]
    # At once, and not after a time in which it seems to be starting: nobody will ever say which session it has.
    shown = serving.tabs()[tab]
    assert (shown["state"], shown["ref"], shown["restorable"]) == ("running", None, False)
    assert shown["live_only_reason"] == ("Kimi CLI reports its session only through hooks, and they are not installed")
    assert serving.world.tab(tab)["reason"] == shown["live_only_reason"]
    (listed,) = list_own(serving)
    assert (listed["state"], listed["silence"]) == ("pending", shown["live_only_reason"])
    assert listed["silence"] in listed["reason"] and "corral hooks install kimi-cli" in listed["reason"]
    assert "◌ unconfirmed" in serving.world.corral("ps").stdout
    lose_everything(serving)
    serving.wait_for_tab(tab, lambda one: one["state"] == "gone")
    refused = serving.ask("POST", f"/api/tabs/{tab}/open", {})
    assert (refused.status, refused.reason) == (409, "never_identified")


def test_a_tab_with_hooks_is_starting_while_its_word_is_expected(serving):
    install_silent_agent(serving)
    (serving.world.root / ".kimi").mkdir()
    assert serving.ask("POST", "/api/hooks/kimi-cli", {}).status == 200
    body = {"provider": "kimi-cli", "work_dir": str(serving.world.work), "trust": True}
    tab = serving.ask("POST", "/api/tabs", body).body["tab"]
    shown = serving.wait_for_tab(tab, lambda one: one["state"] == "starting")
    assert shown["ref"] and not shown["restorable"]
    assert shown["live_only_reason"] == "its agent has not reported its session yet"
    (listed,) = list_own(serving)
    assert (listed["state"], listed["silence"]) == ("pending", None)


def test_a_binding_that_was_tampered_with_starts_nothing(serving):
    tab = serving.start_tab()
    talk(serving, tab, "mine")
    lose_everything(serving)
    path = serving.world.state / "bindings" / f"{tab}.json"
    path.write_text(path.read_text().replace(tab, "f" * 16))
    refused = serving.ask("POST", f"/api/tabs/{tab}/open", {})
    assert refused.status in (404, 409)
    assert not [one for one in serving.sessions().values() if one["state"] == "live"]


def test_nobody_is_asked_to_trust_a_directory_and_then_refused(serving):
    home = Home(serving.world.root / ".kimi", str(serving.world.work))
    assert home.prepare() is None
    session = Session(home, "00000000-0000-4000-8000-000000000001").create("Somewhere else")
    take_turn(session, "hello")
    home.register(session.id)
    wait_until(lambda: serving.sessions().get(session.id, {}).get("state") == "idle", "the session")
    path = f"/api/sessions/{serving.sessions()[session.id]['ref']}/open"
    assert serving.ask("POST", path, {}).reason == "ask_trust"
    claim = {"schema_version": 1, "pid": 4217, "session_id": session.id, "work_dir": home.work_dir}
    claim |= {"hostname": "another-host", "started_at": 1_700_000_000.0, "kimi_cli_version": "1.51.0"}
    (session.path / "runtime.json").write_text(json.dumps(claim))
    refused = serving.ask("POST", path, {})
    assert refused.reason == "claimed_elsewhere" and refused.body["error"]["remedy"]
    assert serving.tabs() == {}
    # Only a person can know that it is not open there. A directory new to corral is asked about all the same.
    assert serving.ask("POST", path, {"anyway": True}).reason == "ask_trust"
    opened = serving.ask("POST", path, {"anyway": True, "trust": True})
    assert opened.status == 200 and len(serving.tabs()) == 1
