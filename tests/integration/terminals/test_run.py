"""corral run, typed on real terminals: what it starts, what it asks first, and what it refuses."""

from __future__ import annotations

import json

import pytest

from tests.integration.terminals.held import wait_until


def test_run_shows_the_agent_and_detaching_leaves_it(world):
    window = world.on_terminal("run", "kimi-cli", "--yes", "--no-hooks")
    shown = window.wait_screen("session ")
    assert "live-only" in shown
    window.send("hello there\r")
    window.wait_screen("hello there\n")
    window.send("\x1c")
    assert window.wait_exit() == 0
    assert "detached; corral attach" in window.screen()
    (tab,) = world.json("terminals")["terminals"]
    assert (tab["standing"], tab["provider"], tab["work_dir"]) == ("running", "kimi-cli", str(world.work))
    again = world.on_terminal("attach", tab["session"]["session_id"])
    again.wait_screen("hello there")
    again.send("/quit\r")
    assert again.wait_exit() == 0
    assert world.json("terminals")["terminals"] == []


def test_the_id_is_chosen_up_front_and_the_agent_confirms_it(world):
    tab = world.run_detached()
    binding = json.loads((world.state / "bindings" / f"{tab}.json").read_text())
    found = world.tab(tab)
    assert binding["wanted"]["session_id"] == found["session"]["session_id"]
    assert found["session"]["state"] == "live"
    assert found["pid"] == found["session"]["pid"]
    (launch,) = (world.state / "launches").glob("*.json")
    wait_until(lambda: json.loads(launch.read_text())["confirmed"], "the confirmation")
    wait_until(
        lambda: json.loads((world.state / "bindings" / f"{tab}.json").read_text())["agent"], "the agent's process"
    )


@pytest.mark.parametrize("answer", ["n", "", "y"])
def test_a_directory_that_was_never_opened_is_asked_about(world, answer):
    window = world.on_terminal("run", "kimi-cli", "--no-hooks")
    window.wait_screen("[y/N]")
    window.send(answer + "\r")
    if answer != "y":
        assert window.wait_exit() == 1
        assert "nothing was started" in window.screen()
        assert world.json("terminals")["terminals"] == []
        return
    window.wait_screen("session ")
    window.send("/quit\r")
    assert window.wait_exit() == 0
    again = world.on_terminal("run", "kimi-cli", "--no-hooks")
    again.wait_screen("session ")


def test_a_new_directory_is_refused_when_nobody_can_be_asked(world):
    done = world.corral("run", "kimi-cli", "--detach")
    assert (done.returncode, "--yes" in done.stderr) == (1, True)
    assert not (world.state / "bindings").exists()


def test_run_without_a_terminal_says_how(world):
    done = world.corral("run", "kimi-cli", "--yes")
    assert done.returncode == 1
    assert "--detach" in done.stderr


def test_hooks_are_offered_and_installed_when_agreed_to(world):
    (world.root / ".kimi").mkdir()
    (world.root / ".kimi" / ".reference-agent").touch()
    window = world.on_terminal("run", "kimi-cli", "--yes")
    window.wait_screen("Install them")
    window.send("y\r")
    shown = window.wait_screen(" pid ")
    assert "live-only" not in shown
    assert "SessionStart" in (world.root / ".kimi" / "config.toml").read_text()
    window.send("/quit\r")
    window.wait_exit()
    again = world.on_terminal("run", "kimi-cli", "--yes")
    assert "Install" not in again.wait_screen(" pid ")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("run", "kimi-cli", "--detach", "--yes", "-C", "/no/such/place"), "work_dir_missing"),
        (("run", "qwen-code", "--detach", "--yes"), "provider_missing"),
        (("run", "no-such-cli", "--detach", "--yes"), "no provider"),
    ],
)
def test_what_can_not_be_started_says_why(world, words, reason):
    done = world.corral(*words, PATH="/usr/bin:/bin")
    assert done.returncode in (1, 2)
    assert reason in done.stderr
    assert world.json("terminals")["terminals"] == []


def test_a_program_that_does_not_start_leaves_no_tab(world):
    world.program.write_text("#!/no/such/interpreter\n")
    done = world.corral("run", "kimi-cli", "--detach", "--yes", "--no-hooks")
    assert done.returncode == 1
    assert "spawn_failed" in done.stderr
    assert world.json("terminals")["terminals"] == []


def test_arguments_reach_the_cli_and_are_stored_nowhere(world):
    tab = world.run_detached("--", "--session", "my-own-id")
    assert world.tab(tab)["session"]["session_id"] == "my-own-id"
    binding = json.loads((world.state / "bindings" / f"{tab}.json").read_text())
    assert binding["wanted"] is None
    stored = b"".join(path.read_bytes() for path in world.state.rglob("*") if path.is_file())
    assert b"my-own-id" not in stored


def test_closing_the_window_leaves_the_agent_running(world):
    window = world.on_terminal("run", "kimi-cli", "--yes", "--no-hooks")
    window.wait_screen(" pid ")
    window.close()
    window.wait_exit()
    (tab,) = world.json("terminals")["terminals"]
    assert (tab["standing"], tab["session"]["state"]) == ("running", "live")
    again = world.on_terminal("attach", tab["tab"])
    again.wait_screen(" pid ")
