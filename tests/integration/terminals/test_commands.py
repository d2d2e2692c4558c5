"""corral run, attach, terminals and kill, typed on real terminals, with the reference agent as the CLI."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from corral.engine.killing import kill_process
from corral.errors import CorralError
from corral.sidecar.processes import read_identity
from tests.integration.terminals.held import is_gone, kill, wait_until


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


def test_several_windows_show_the_same_and_take_the_size_of_the_one_last_used(world):
    tab = world.run_detached()
    large = world.on_terminal("attach", tab, columns=120, lines=40)
    large.wait_screen("session ")
    small = world.on_terminal("attach", tab, columns=70, lines=20)
    small.wait_screen("session ")
    small.send("from the small one\r")
    large.wait_screen("from the small one")
    tty = os.readlink(f"/proc/{world.tab(tab)['pid']}/fd/0")

    def size() -> tuple[int, int]:
        fd = os.open(tty, os.O_RDONLY | os.O_NOCTTY)
        try:
            return tuple(os.get_terminal_size(fd))
        finally:
            os.close(fd)

    wait_until(lambda: size() == (70, 20), "the small size")
    large.send("from the large one\r")
    small.wait_screen("from the large one")
    wait_until(lambda: size() == (120, 40), "the large size")


@pytest.mark.parametrize("spelling", ["\x1d", "\x1b[93;5u", "\x1b[93;5:1u", "\x1b[27;5;93~", "\x1b[93;69u"])
def test_the_detach_key_can_be_set_and_is_known_in_every_spelling(world, spelling):
    world.config.write_text(world.config.read_text() + '[terminals]\ndetach_key = "ctrl-]"\n')
    tab = world.run_detached()
    window = world.on_terminal("attach", tab)
    window.wait_screen("session ")
    window.send(spelling)
    assert window.wait_exit() == 0
    assert world.tab(tab)["standing"] == "running"


@pytest.mark.parametrize("end", ["detach", "TERM", "HUP", "killed holder", "quit"])
def test_the_terminal_is_put_back_on_any_way_out(world, end):
    modes = world.root / "modes"
    modes.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && { echo 'kimi, version 1.51.0'; exit; }\n"
        f"printf '\\033[?1049h\\033[?2004h\\033[?25l\\033[?1003h\\033[>1uready'; exec {world.program} \"$@\"\n"
    )
    modes.chmod(0o755)
    world.config.write_text(f'[programs]\nkimi-cli = "{modes}"\n')
    tab = world.run_detached()
    # A shell keeps the terminal open, so that it can be looked at afterwards.
    command = f"{sys.executable} -m corral attach {tab}; echo left; stty -a; read x"
    window = world.program_on_terminal(["/bin/sh", "-c", command], columns=100, lines=40)
    window.wait_screen("ready")
    match end:
        case "detach":
            window.send("\x1c")
        case "quit":
            window.send("/quit\r")
        case "killed holder":
            kill(world.identity(world.tab(tab)["holder_pid"]))
        case _:
            (viewer,) = [
                int(path.name)
                for path in Path("/proc").glob("[0-9]*")
                if (path / "cmdline").exists() and _words(path)[-2:] == [b"attach", tab.encode()]
            ]
            os.kill(viewer, getattr(signal, f"SIG{end}"))
    screen = window.wait_screen("left")
    screen = window.wait_screen(lambda text: " icanon" in text and " echo " in text)
    raw = bytes(window.raw)
    for on, off in ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?1003h", b"\x1b[?1003l"), (b"\x1b[?25l", b"\x1b[?25h")):
        assert raw.rindex(off) > raw.rindex(on)
    assert raw.rindex(b"\x1b[<99u") > raw.rindex(b"\x1b[>1u")
    assert "left" in screen


def test_closing_the_window_leaves_the_agent_running(world):
    window = world.on_terminal("run", "kimi-cli", "--yes", "--no-hooks")
    window.wait_screen(" pid ")
    window.close()
    window.wait_exit()
    (tab,) = world.json("terminals")["terminals"]
    assert (tab["standing"], tab["session"]["state"]) == ("running", "live")
    again = world.on_terminal("attach", tab["tab"])
    again.wait_screen(" pid ")


def test_a_terminal_does_not_show_itself(world):
    tab = world.run_detached()
    window = world.on_terminal("attach", tab, CORRAL_TAB=tab)
    assert window.wait_exit() == 1
    assert "can't show itself" in window.screen()


def _words(path: Path) -> list[bytes]:
    try:
        return (path / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return []


def test_a_session_that_does_not_run_is_not_attached_to(world):
    tab = world.run_detached()
    session = world.tab(tab)["session"]["session_id"]
    window = world.on_terminal("attach", tab)
    window.send("typed ahead\r/quit\r")
    window.wait_exit()
    assert "typed ahead" in Path(world.sessions()[session]["path"], "context.jsonl").read_text()
    done = world.corral("attach", session)
    assert done.returncode == 1
    assert "corral resume" in done.stderr


def test_a_lost_tab_is_listed_as_lost(world):
    tab = world.run_detached()
    pid = world.tab(tab)["pid"]
    identity = world.identity(pid)
    kill(world.identity(world.tab(tab)["holder_pid"]))
    wait_until(lambda: is_gone(identity), "the agent's end by SIGHUP")
    assert world.tab(tab)["standing"] == "lost"
    assert "lost" in world.corral("terminals").stdout
    assert world.corral("attach", tab).returncode != 0


def test_the_exit_status_is_told_until_seen(world):
    tab = world.run_detached()
    kill(world.identity(world.tab(tab)["pid"]))
    wait_until(lambda: world.tab(tab)["standing"] == "ended", "its end")
    assert world.tab(tab)["status"] == -9
    window = world.on_terminal("attach", tab)
    assert window.wait_exit() == 128 + 9
    assert "signal 9" in window.screen()
    assert list((world.state / "terminals").glob(f"{tab}.*")) == []


def test_a_damaged_binding_shows_why_and_harms_no_other(world):
    tab = world.run_detached()
    (world.state / "bindings" / f"{'0' * 16}.json").write_text("{")
    found = world.json("terminals")
    assert [one["tab"] for one in found["terminals"]] == [tab]
    assert "not a binding" in found["skipped"][0]["reason"]


# --- elsewhere: the person's own terminals


def start_agent(world, session: str = "in-a-window"):
    words = [str(world.program), "-w", str(world.work), "--session", session]
    window = world.program_on_terminal(words)
    window.wait_screen("session ")
    return window


def test_an_agent_in_a_foreign_terminal_is_named_and_not_opened_twice(world):
    window = start_agent(world)
    done = world.corral("attach", "in-a-window")
    assert done.returncode == 1
    assert f"pid {window.pid}" in done.stderr
    assert os.readlink(f"/proc/{window.pid}/fd/0") in done.stderr
    assert "never opened a second time" in done.stderr


@pytest.fixture
def tmux(world):
    """A tmux server of the test's own."""
    if shutil.which("tmux") is None:
        pytest.fail("tmux is needed: install the package tmux")
    (world.root / "t").mkdir()
    sockets: list[str] = []

    def call(*words: str, server: str = "default") -> str:
        sockets.append(server)
        return subprocess.run(
            ["tmux", "-L", server, "-f", "/dev/null", *words], env=world.env, check=True, capture_output=True, text=True, timeout=30,
        ).stdout.strip()  # fmt: skip

    yield call
    for server in set(sockets):
        subprocess.run(
            ["tmux", "-L", server, "kill-server"], env=world.env, check=False, capture_output=True, timeout=30
        )


def agent_in_tmux(world, tmux, session: str = "in-tmux", server: str = "default") -> None:
    # Several panes, and the agent below a shell: only its ancestry tells which one it is in.
    tmux("new-session", "-d", "-s", "work", "-x", "90", "-y", "25", "sh", server=server)
    tmux("new-window", "-t", "work", "sh", server=server)
    pane = tmux("split-window", "-t", "work", "-P", "-F", "#{pane_id}", "sh", server=server)
    tmux("send-keys", "-t", pane, f"{world.program} -w {world.work} --session {session}", "Enter", server=server)
    tmux("select-window", "-t", "work:0", server=server)
    wait_until(lambda: world.sessions().get(session, {}).get("state") == "live", "the agent in tmux")


def test_an_agent_in_tmux_is_attached_there(world, tmux):
    agent_in_tmux(world, tmux)
    window = world.on_terminal("attach", "in-tmux")
    window.wait_screen("session in-tmux")
    window.send("hello from outside\r")
    window.wait_screen("hello from outside")
    assert tmux("display-message", "-p", "#{window_index}.#{pane_index}") == "1.1"
    window.send("\x02d")
    window.wait_exit()


def test_inside_tmux_the_client_is_switched_there(world, tmux):
    agent_in_tmux(world, tmux)
    tmux("new-session", "-d", "-s", "other", "-x", "90", "-y", "25", "sh")
    window = world.program_on_terminal(["tmux", "attach-session", "-t", "other"], columns=90, lines=25)
    window.wait_screen("other")
    window.send(f"cd {world.work}; {sys.executable} -m corral attach in-tmux\r")
    window.wait_screen("session in-tmux")
    assert tmux("list-clients", "-F", "#{session_name}") == "work"


def test_an_agent_in_another_tmux_server_is_named_from_within_tmux(world, tmux):
    agent_in_tmux(world, tmux, server="second")
    done = world.corral("attach", "in-tmux", TMUX=str(world.root / "t" / f"tmux-{os.getuid()}" / "default") + ",1,0")
    assert done.returncode == 1
    assert "another tmux server" in done.stderr


# --- kill


def test_kill_ends_the_agent_and_says_how(world):
    tab = world.run_detached()
    found = world.tab(tab)
    identity = world.identity(found["pid"])
    done = world.corral("kill", found["session"]["session_id"], "--yes")
    assert done.returncode == 0, done
    assert "ended after SIGHUP" in done.stdout
    assert is_gone(identity)
    wait_until(lambda: world.tab(tab)["status"] == -signal.SIGHUP, "its status")


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_kill_asks(world, answer, code):
    agent = start_agent(world)
    window = world.on_terminal("kill", "in-a-window")
    window.wait_screen("[y/N]")
    assert str(agent.pid) in window.screen()
    window.send(answer + "\r")
    assert window.wait_exit() == code
    assert (agent.exit_code is None) == (answer == "n")


def test_kill_goes_on_to_the_next_signal(world):
    stubborn = world.root / "stubborn"
    stubborn.write_text(f"#!/bin/sh\ntrap '' HUP TERM\nexec {world.program} \"$@\"\n")
    stubborn.chmod(0o755)
    window = world.program_on_terminal([str(stubborn), "-w", str(world.work), "--session", "stubborn-one"])
    window.wait_screen("session ")
    done = world.corral("kill", "stubborn-one", "--yes")
    assert "ended after SIGKILL" in done.stdout, done
    assert window.wait_exit() == -9


def test_kill_refuses_what_is_not_verified_live(world):
    agent = start_agent(world)
    agent.send("hello\r")
    agent.wait_screen("hello\n")
    agent.kill()
    agent.wait_exit()
    done = world.corral("kill", "in-a-window", "--yes")
    assert done.returncode == 1
    assert "nothing is signalled" in done.stderr


def test_a_dry_run_says_what_would_be_ended_and_why_and_ends_nothing(world):
    agent = start_agent(world)
    done = world.corral("kill", "in-a-window", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"pid {agent.pid}" in done.stdout and "very process" in done.stdout
    assert agent.exit_code is None
    assert world.corral("kill", "no-such-one", "--dry-run").returncode == 4


def test_kill_refuses_when_the_number_is_another_process_now(world):
    agent = start_agent(world)
    identity = read_identity(agent.pid)
    assert identity is not None
    told: list[str] = []
    other = identity._replace(start_ticks=identity.start_ticks - 1)
    with pytest.raises(CorralError, match="another process now"):
        kill_process(other, told.append)
    assert told == []
    assert agent.exit_code is None


# --- when the terminal is gone, too


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
        "import sys\nfrom corral.engine.opening import open_resumed\n"
        "open_resumed(sys.argv[1], anyway=False, size=(80, 24), tell=print, tab=sys.argv[2])\n"
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
