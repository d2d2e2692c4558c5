"""Tabs after a loss: each comes back as itself, once, where it belongs; or it says why, and nothing is changed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed

from corral.terminals.directory import list_terminals
from tests.integration.server.serving import Serving
from tests.integration.server.test_restore import context_of, lose_everything, lose_terminal, talk
from tests.integration.server.test_tabs import say
from tests.integration.terminals.held import wait_until
from tests.integration.terminals.world import World

NEW_TAB = {"provider": "kimi-cli", "trust": True, "live_only": True}


def is_running(tab: dict) -> bool:
    return tab["state"] == "running" and tab["ref"]


def holders(serving: Serving) -> set[str]:
    """Terminals that have a process, listed or not."""
    return {one.tab for one in list_terminals(str(serving.world.state / "terminals")) if one.holder is not None}


@pytest.mark.parametrize("after", ["binding", "answer"])
def test_a_server_killed_as_a_tab_is_created_leaves_no_process_that_is_not_listed(serving, after):
    """T29: the moment its record is there, and the moment its answer is."""
    with ThreadPoolExecutor(1) as pool:
        body = {**NEW_TAB, "work_dir": str(serving.world.work)}
        asked = pool.submit(lambda: serving.ask("POST", "/api/tabs", body))
        if after == "answer":
            asked.result()
        wait_until(lambda: list(serving.world.state.glob("bindings/*.json")), "the binding")
        serving.kill()
        asked.exception()  # nobody answers any more
    serving.start()
    (tab,) = serving.tabs()
    assert holders(serving) <= {tab}
    if after == "answer":
        session_id = serving.wait_for_tab(tab, is_running) and talk(serving, tab, "kept")
        lose_everything(serving)
        assert serving.ask("POST", f"/api/tabs/{tab}/open", {}).body["plan"] == "resume"
        assert talk(serving, tab, "again") == session_id
    elif serving.tabs()[tab]["pid"] is None:
        refused = serving.ask("POST", f"/api/tabs/{tab}/open", {})
        assert (refused.status, refused.reason) == (409, "never_identified")


def test_a_conversation_that_was_never_begun_or_is_gone_is_not_resumed(serving):
    """T31: no turn was taken in one, and the files of the other were deleted; nothing is invented for either."""
    empty, deleted = serving.start_tab(), serving.start_tab()
    gone = talk(serving, deleted, "hello")
    (path,) = serving.world.root.glob(f".kimi/sessions/*/{gone}")
    lose_everything(serving)
    (path / "context.jsonl").unlink()
    before = sorted(serving.world.root.glob(".kimi/sessions/*/*/*"))
    reasons = {tab: serving.ask("POST", f"/api/tabs/{tab}/open", {}).reason for tab in (empty, deleted)}
    assert reasons[empty] == "not_durable"
    assert reasons[deleted] in ("transcript_missing", "not_durable")
    assert sorted(serving.world.root.glob(".kimi/sessions/*/*/*")) == before


def test_an_agent_that_worked_elsewhere_is_resumed_in_the_directory_it_was_started_for(serving):
    """T32: its process had another working directory than its session."""
    world = serving.world
    wrapper = world.root / "wanderer"
    wrapper.write_text(f'#!/bin/sh\ncd /\nexec {world.program} "$@"\n')
    wrapper.chmod(0o755)
    world.config.write_text(f'[programs]\nkimi-cli = "{wrapper}"\n')
    tab = serving.start_tab()
    session_id = talk(serving, tab, "from afar")
    assert os.readlink(f"/proc/{serving.tabs()[tab]['pid']}/cwd") == "/"
    world.config.write_text(f'[programs]\nkimi-cli = "{world.program}"\n')
    lose_everything(serving)
    assert serving.ask("POST", f"/api/tabs/{tab}/open", {}).body["plan"] == "resume"
    shown = serving.wait_for_tab(tab, is_running)
    assert os.readlink(f"/proc/{shown['pid']}/cwd") == str(world.work)
    assert talk(serving, tab, "again") == session_id


def test_a_home_that_a_variable_named_is_used_again_without_it_or_the_tab_says_that_it_is_gone(world):
    """T33: the server that comes back does not have the variable."""
    home = world.root / "moved home"
    first = Serving(world, KIMI_SHARE_DIR=str(home))
    second = None
    try:
        tab = first.start_tab()
        session_id = talk(first, tab, "in my own home")
        first.kill()
        lose_terminal(first, tab)
        second = Serving(world)
        assert second.wait_for_tab(tab, lambda one: one["state"] == "gone")["restorable"]
        assert second.ask("POST", f"/api/tabs/{tab}/open", {}).body["plan"] == "resume"
        pid = second.wait_for_tab(tab, is_running)["pid"]
        with open(f"/proc/{pid}/environ") as file:
            assert f"KIMI_SHARE_DIR={home}" in file.read().split("\0")
        assert talk(second, tab, "again") == session_id
        assert not (world.root / ".kimi").exists()
        second.kill()
        lose_terminal(second, tab)
        home.rename(world.root / "away")
        second.start()
        refused = second.ask("POST", f"/api/tabs/{tab}/open", {})
        assert (refused.status, refused.reason) == (409, "home_missing")
        assert not home.exists() and not (world.root / ".kimi").exists()
    finally:
        first.kill()
        if second is not None:
            second.kill()


def test_a_start_that_died_half_way_does_not_keep_the_next_one_out(serving):
    """T35: while another corral is at it, the tab waits its turn; when that one dies, the turn is free."""
    tab = serving.start_tab()
    session_id = talk(serving, tab, "once")
    lose_everything(serving)
    script = (
        "import os, sys, time\nfrom corral.model.key import SessionKey\nfrom corral.state.launches import Launches\n"
        "state, home, scope, name = sys.argv[1:]\n"
        "fd = Launches(state).lock_session(SessionKey('kimi-cli', home, scope, name))\n"
        "print(fd, flush=True)\ntime.sleep(600)\n"
    )
    session = serving.sessions()[session_id]
    words = [sys.executable, "-c", script, str(serving.world.state), session["home"], session["scope"], session_id]
    other = subprocess.Popen(words, env=serving.world.env, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and int(other.stdout.readline())
        refused = serving.ask("POST", f"/api/tabs/{tab}/open", {})
        assert (refused.status, refused.reason) == (409, "already_live")
    finally:
        other.kill()
        other.communicate()
    assert serving.ask("POST", f"/api/tabs/{tab}/open", {}).body["plan"] == "resume"
    serving.wait_for_tab(tab, is_running)
    assert len(serving.sessions()[session_id]["pids"]) == 1


def test_a_record_that_is_damaged_shows_why_in_its_tab_and_the_others_come_back(serving):
    """T38: the tab is not left out; only closing it forgets it."""
    damaged, whole = serving.start_tab(), serving.start_tab()
    session_id = talk(serving, whole, "whole")
    serving.kill()
    path = serving.world.state / "bindings" / f"{damaged}.json"
    path.write_bytes(path.read_bytes()[:100])
    serving.start()
    shown = serving.tabs()[damaged]
    assert shown["state"] == "running" and "not a binding" in shown["live_only_reason"]
    lose_everything(serving)
    shown = serving.tabs()[damaged]
    assert (shown["state"], shown["refusal"]["reason"]) == ("refused", "identity_invalid")
    assert "not a binding" in shown["refusal"]["message"]
    assert serving.ask("POST", f"/api/tabs/{damaged}/open", {}).reason == "identity_invalid"
    assert serving.ask("POST", f"/api/tabs/{whole}/open", {}).body["plan"] == "resume"
    assert talk(serving, whole, "again") == session_id
    assert path.stat().st_size == 100
    assert serving.ask("DELETE", f"/api/tabs/{damaged}").status == 204
    assert damaged not in serving.tabs() and not path.exists()


def test_a_tab_whose_agent_can_not_be_written_down_says_so_before_it_is_too_late(serving):
    """T38: the disk takes no more, and the agent is not the program that was started but one below it."""
    world: World = serving.world
    go = world.root / "go"
    os.mkfifo(go)
    slow = world.root / "slow"
    slow.write_text(f'#!/bin/sh\n[ "$1" = --version ] || read line < {go}\nexec {world.program} "$@"\n')
    slow.chmod(0o755)
    wrapper = world.root / "wrapper"
    wrapper.write_text(f'#!/bin/sh\n{slow} "$@"\n')
    wrapper.chmod(0o755)
    world.config.write_text(f'[programs]\nkimi-cli = "{wrapper}"\n')
    tab = serving.ask("POST", "/api/tabs", {**NEW_TAB, "work_dir": str(world.work)}).body["tab"]
    bindings = world.state / "bindings"
    subprocess.run(["mount", "--bind", bindings, bindings], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", bindings], check=True)
    try:
        go.write_text("on\n")
        shown = serving.wait_for_tab(
            tab, lambda one: one["live_only_reason"] and "Read-only" in one["live_only_reason"]
        )
        assert not shown["restorable"] and shown["state"] == "running"
    finally:
        subprocess.run(["umount", "-l", bindings], check=True)  # the server may be reading there
    talk(serving, tab, "on we go")
    serving.wait_for_tab(tab, lambda one: one["restorable"] and one["live_only_reason"] is None)


def test_what_is_no_id_is_refused_and_never_reaches_a_shell(world):
    """T39: as a name on the command line, and as a directory that a stranger left among the sessions."""
    world.run_detached()
    (bucket,) = world.root.glob(".kimi/sessions/*")
    mark = world.root / "ran"
    hostile = [f"$(touch {mark})", f"a;touch {mark}", f"a\ntouch {mark}", "-rf", "--yolo", "x" * 200, "..", "a b'\""]
    for name in hostile:
        if "/" not in name and name != "..":
            (bucket / name).mkdir()
            shutil.copy(next(bucket.glob("*/context.jsonl")), bucket / name / "context.jsonl")
        done = world.corral("resume", "--print", "--", name)
        assert done.returncode in (1, 2, 4) and done.stdout == "", (name, done)
    assert set(hostile).isdisjoint(world.sessions())
    assert not mark.exists()


def test_what_is_typed_after_the_agent_died_runs_nowhere(serving):
    """T40: there is no shell behind it."""
    tab = serving.start_tab()
    viewer = serving.terminal(tab)
    say(viewer, "hello", b": hello")
    mark = serving.world.work / "ran"
    os.kill(serving.tabs()[tab]["pid"], signal.SIGKILL)
    with pytest.raises(ConnectionClosed):
        while True:
            with suppress(ConnectionClosed):  # what came before the end is read first
                viewer.type(f"touch {mark}\r".encode())
            viewer.step()
    assert {"exit": -9} in viewer.controls
    serving.wait_for_tab(tab, lambda one: one["state"] == "ended")
    with pytest.raises(ConnectionClosed):
        serving.terminal(tab, first=f"touch {mark}\r".encode())
    assert not mark.exists()


def test_keys_and_an_end_that_were_meant_for_another_are_bounced(serving):
    """T41: a page that comes back to a tab with a new terminal, and one that shows the conversation before."""
    tab = serving.start_tab()
    session_id = talk(serving, tab, "before")
    viewer = serving.terminal(tab)
    terminal = viewer.controls[-1]["attached"]["terminal"]
    viewer.read_until(b": before")
    end = viewer.end
    again = serving.terminal(tab, offset=end, terminal=terminal)
    assert again.begin == end
    lose_everything(serving)
    serving.ask("POST", f"/api/tabs/{tab}/open", {})
    serving.wait_for_tab(tab, is_running)
    with pytest.raises(ConnectionClosed) as closed:
        serving.terminal(tab, offset=end, terminal=terminal, first=b"meant for the other\r")
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 4409
    old = serving.tabs()[tab]["ref"]
    viewer = serving.terminal(tab)
    say(viewer, "/new", b"session ")
    serving.wait_for_tab(tab, lambda one: one["ref"] != old and one["ref"])
    refused = serving.ask("POST", f"/api/tabs/{tab}/end", {"ref": old})
    assert (refused.status, refused.reason) == (409, "session_changed")
    say(viewer, "still here", b": still here")
    assert b"meant for the other" not in viewer.data
    assert "meant for the other" not in context_of(serving, session_id)
    new = serving.tabs()[tab]["ref"]
    assert serving.ask("POST", f"/api/tabs/{tab}/end", {"ref": new}).status == 202
    serving.wait_for_tab(tab, lambda one: one["state"] == "ended")
