"""One process, another conversation: the tab follows its own agent, and no other agent that runs inside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.hooks.conftest import Cli
from tests.integration.hooks.conftest import World as HookWorld
from tests.integration.server.test_events import agent, type_line
from tests.integration.server.test_restore import lose_everything, talk
from tests.integration.terminals.held import wait_until

__all__ = ["agent"]

NESTED = """#!{python}
import os, subprocess, sys
if sys.argv[1:] == ["--version"]:
    os.execv({program!r}, [{program!r}, "--version"])
unused, kept = os.pipe()
os.set_inheritable(kept, True)
inner = subprocess.Popen([{program!r}, "-w", {work!r}, "--session", "inner"], stdin=subprocess.PIPE)
inner.stdin.write(b"/ask may I?\\n")
inner.stdin.flush()
os.set_inheritable(inner.stdin.fileno(), True)
os.execv({program!r}, [{program!r}, *sys.argv[1:]])
"""


def test_whatever_is_typed_one_process_has_one_session_and_the_tab_follows(serving):
    """T8: /new, /fork, /undo and going back, each in the same process."""
    tab = serving.start_tab()
    pid = serving.tabs()[tab]["pid"]
    first = talk(serving, tab, "one")
    events = serving.events()
    events.wait_for("hello")
    seen = [first]
    for command in ("/new", "/fork", "/undo", f"/sessions {first}"):
        viewer = serving.terminal(tab)
        viewer.type(command.encode() + b"\r")
        _, switched = events.wait_for("switched")
        viewer.close()
        refs = {one["ref"]: one for one in serving.sessions().values()}
        assert (switched["pid"], refs[switched["from"]]["session_id"]) == (pid, seen[-1])
        seen.append(refs[switched["to"]]["session_id"])
        serving.wait_for_tab(tab, lambda one, ref=switched["to"]: one["ref"] == ref and one["state"] == "running")
        assert [one["session_id"] for one in refs.values() if pid in one["pids"]] == [seen[-1]]
        assert refs[switched["from"]]["state"] != "live"
        if command == "/new":
            talk(serving, tab, "two")
    assert seen[0] == seen[-1] and len(set(seen)) == 4
    lose_everything(serving)
    assert serving.ask("POST", f"/api/tabs/{tab}/open", {}).body["plan"] == "resume"
    serving.wait_for_tab(tab, lambda one: one["state"] == "running" and one["ref"])
    assert talk(serving, tab, "again") == first


def test_headless_agents_inside_a_tab_neither_take_it_over_nor_ring_for_it(serving):
    """T13, T49: one below the tab's own agent, with the tab's whole environment, that waits for an answer."""
    world = serving.world
    outer = world.root / "outer"
    outer.write_text(NESTED.format(python=sys.executable, program=str(world.program), work=str(world.work)))
    outer.chmod(0o755)
    world.config.write_text(f'[programs]\nkimi-cli = "{outer}"\n')
    tab = serving.start_tab()
    wait_until(lambda: serving.sessions().get("inner", {}).get("activity") == "waiting", "the inner one's question")
    own = talk(serving, tab, "mine")
    shown = serving.wait_for_tab(tab, lambda one: one["title"] == "mine" and one["activity"] == "ready")
    inner = serving.sessions()["inner"]
    assert own != "inner" and inner["tab"] is None
    serving.kill()
    serving.start()
    assert serving.tabs()[tab]["ref"] == shown["ref"]
    os.kill(inner["pid"], 9)
    lose_everything(serving)
    assert serving.ask("POST", f"/api/tabs/{tab}/open", {}).body["plan"] == "resume"
    serving.wait_for_tab(tab, lambda one: one["ref"] == shown["ref"])


@pytest.fixture
def hooked(tmp_path: Path):
    made = HookWorld(tmp_path)
    made.install("kimi-cli")  # what is reported counts only where it is
    yield made
    made.close()


def states(cli: Cli) -> dict[str, tuple[str, list[int]]]:
    """What `corral ps` says of the sessions of its home."""
    places = {"CORRAL_STATE_DIR": str(cli.world.state), "CORRAL_DATA_DIR": str(cli.world.data)}
    words = [sys.executable, "-m", "corral", "ps", "--all", "--json", "--provider", cli.provider]
    done = subprocess.run(words, env={**cli.env, **places}, cwd=cli.cwd, capture_output=True, check=True, timeout=60)
    found = json.loads(done.stdout)["sessions"]
    return {one["session_id"]: (one["state"], one["pids"]) for one in found if one["home"] == str(cli.home)}


def session_of_kimi(cli: Cli, session_id: str) -> None:
    path = cli.session_dir(session_id, "0" * 32)
    lines = ({"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello"})
    path.joinpath("context.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_process_that_goes_on_without_its_session_does_not_serve_it(hooked):
    """T10: as Kimi's /web does; the process lives, and said that it left."""
    cli = hooked.run("kimi-cli")
    session_of_kimi(cli, "left")
    cli.send(cli.payload("SessionStart", "left", source="startup"))
    assert states(cli)["left"] == ("live", [cli.pid])
    cli.end("left")
    assert cli.process.poll() is None
    state, pids = states(cli)["left"]
    assert state != "live" and pids == []


def test_the_end_of_one_session_before_the_start_of_the_next_is_no_end_of_the_agent(hooked):
    """T12: between the two words the process is an agent without a session, and afterwards it has the new one."""
    cli = hooked.run("kimi-cli")
    for name in ("old", "new"):
        session_of_kimi(cli, name)
    cli.send(cli.payload("SessionStart", "old", source="startup"))
    cli.end("old", "clear")
    assert [pids for _, pids in states(cli).values()] == [[], []]
    assert cli.journal.identity.pid == cli.pid and cli.current == []
    cli.send(cli.payload("SessionStart", "new", source="clear"))
    assert states(cli)["new"] == ("live", [cli.pid])
    assert states(cli)["old"][1] == []


def test_a_switch_outside_of_any_tab_is_one_event_and_no_death(serving, agent):
    """T12, over the server: also when a look falls between the two words."""
    process, first = agent()
    wait_until(lambda: first in serving.sessions(), "the session")
    events = serving.events()
    events.wait_for("hello")
    second = type_line(process, "/new").split()[-1]
    _, body = events.wait_for("switched")
    refs = {one["session_id"]: one["ref"] for one in serving.sessions().values()}
    assert (body["pid"], body["from"], body["to"]) == (process.pid, refs[first], refs[second])
