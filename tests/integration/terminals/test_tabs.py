"""corral terminals: which session each tab has, when it switches, is lost, damaged, or forgotten."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.integration.terminals.held import is_gone, kill, wait_until


def test_a_switch_that_nobody_watched_is_followed(world):
    tab = world.run_detached()
    first = world.tab(tab)["session"]["session_id"]
    window = world.on_terminal("attach", tab)
    window.wait_screen("session ")
    window.send("/new\r")
    window.wait_screen(lambda screen: screen.count("session ") == 2)
    window.send("\x1c")
    window.wait_exit()
    second = world.tab(tab)["session"]["session_id"]
    assert second != first
    assert world.sessions()[second]["state"] == "live"
    window = world.on_terminal("attach", second)
    window.wait_screen("session ")


def test_two_tabs_in_one_directory_are_told_apart(world):
    one, two = world.run_detached(), world.run_detached()
    assert world.tab(one)["session"]["session_id"] != world.tab(two)["session"]["session_id"]
    assert world.tab(one)["session"]["pid"] == world.tab(one)["pid"]
    assert world.tab(two)["session"]["pid"] == world.tab(two)["pid"]


def test_an_agent_inside_an_agent_does_not_take_over_the_tab(world):
    inner = [str(world.program), "-w", str(world.work), "--session", "inner-one"]
    outer = world.root / "outer"
    outer.write_text(
        f"#!{sys.executable}\n"
        "import os, subprocess, sys\n"
        "unused, kept = os.pipe()\n"
        "os.set_inheritable(kept, True)\n"
        f"subprocess.Popen({inner!r}, stdin=unused)\n"
        f"os.execv({str(world.program)!r}, [{str(world.program)!r}, *sys.argv[1:]])\n"
    )
    outer.chmod(0o755)
    world.config.write_text(f'[programs]\nkimi-cli = "{outer}"\n')
    tab = world.run_detached()
    wait_until(lambda: world.sessions().get("inner-one", {}).get("state") == "live", "the inner session")
    found = world.tab(tab)
    assert found["session"]["session_id"] != "inner-one"
    assert found["session"]["pid"] == found["pid"]


def test_a_lost_tab_is_listed_as_lost(world):
    tab = world.run_detached()
    pid = world.tab(tab)["pid"]
    identity = world.identity(pid)
    kill(world.identity(world.tab(tab)["holder_pid"]))
    wait_until(lambda: is_gone(identity), "the agent's end by SIGHUP")
    assert world.tab(tab)["standing"] == "lost"
    assert "lost" in world.corral("terminals").stdout
    window = world.on_terminal("attach", tab)
    window.wait_screen("its holder was killed")
    assert window.wait_exit() == 1
    assert world.corral("terminals", "--forget", "").returncode == 4
    assert world.corral("terminals", "--forget", tab).returncode == 0
    assert world.json("terminals")["terminals"] == []


def test_a_damaged_binding_shows_why_and_harms_no_other(world):
    tab = world.run_detached()
    (world.state / "bindings" / f"{'0' * 16}.json").write_text("{")
    found = world.json("terminals")
    assert [one["tab"] for one in found["terminals"]] == [tab]
    assert "not a binding" in found["skipped"][0]["reason"]


def test_a_tab_of_a_provider_that_only_a_newer_corral_knows_is_named_and_kept(world):
    tab = world.run_detached()
    binding = world.state / "bindings" / f"{tab}.json"
    newer = json.loads(binding.read_text()) | {"tab": "00000000000000aa", "provider": "later-agent"}
    kept = binding.with_name("00000000000000aa.json")
    kept.write_text(json.dumps(newer))
    found = world.json("terminals")
    assert [one["tab"] for one in found["terminals"]] == [tab]
    assert "does not know later-agent" in found["skipped"][0]["reason"]
    assert json.loads(kept.read_text()) == newer


def test_a_lost_tab_says_which_session_it_had_and_comes_back_as_itself(world):
    tab = world.run_detached()
    window = world.on_terminal("attach", tab)
    window.wait_screen("session ")
    window.send("/new\r")
    window.wait_screen(lambda screen: screen.count("session ") == 2)
    window.send("remember the heron\r")
    window.wait_screen("remember the heron\n")
    window.send("\x1c")
    window.wait_exit()
    found = world.tab(tab)
    session, agent = found["session"]["session_id"], world.identity(found["pid"])
    wait_until(
        lambda: json.loads((world.state / "bindings" / f"{tab}.json").read_text())["agent"], "the agent's process"
    )
    kill(world.identity(found["holder_pid"]))
    wait_until(lambda: is_gone(agent), "the agent's end")
    lost = world.tab(tab)
    assert (lost["standing"], lost["session"]["session_id"]) == ("lost", session)
    script = (
        "import sys\nfrom corral.model.tab import Agreement\nfrom corral.sessions.naming import find_session\n"
        "from corral.tabs.start import Starting\n"
        "key = find_session(sys.argv[1]).key\n"
        "with Starting(key, 'not resumed', agree=Agreement(trust=True), report=print) as starting:\n"
        "    starting.resume_in_terminal(starting.look(), (80, 24), sys.argv[2])\n"
    )
    words = [sys.executable, "-c", script, session, tab]
    subprocess.run(words, env=world.env, check=True, timeout=60)
    wait_until(lambda: (world.tab(tab)["session"] or {}).get("state") == "live", "the tab's return")
    assert world.tab(tab)["session"]["session_id"] == session
    assert len(world.json("terminals")["terminals"]) == 1
    again = subprocess.run(words, env=world.env, capture_output=True, text=True, timeout=60)
    assert "already_live" in again.stderr


def test_a_tab_that_has_ended_can_be_forgotten_and_one_that_runs_can_not(world):
    tab = world.run_detached()
    assert world.corral("terminals", "--forget", tab).returncode == 1
    kill(world.identity(world.tab(tab)["pid"]))
    wait_until(lambda: world.tab(tab)["standing"] == "ended", "its end")
    assert world.corral("terminals", "--forget", tab).returncode == 0
    assert world.json("terminals")["terminals"] == []
    assert world.corral("terminals", "--forget", tab).returncode == 4
