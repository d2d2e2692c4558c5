"""Who is who: sessions that share a directory, a second, a title or a terminal are never taken for one another."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.integration.server.serving import Serving
from tests.integration.server.test_restore import lose_everything, talk
from tests.integration.terminals.held import wait_until
from tests.integration.terminals.world import World

SILENT = """#!/bin/sh
[ "$1" = --version ] && echo 'kimi, version 1.51.0' && exit
exec cat
"""


def arguments_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


def open_again(serving: Serving, tab: str) -> None:
    assert serving.ask("POST", f"/api/tabs/{tab}/open", {}).body == {"tab": tab, "plan": "resume"}
    serving.wait_for_tab(tab, lambda one: one["state"] == "running" and one["ref"])


def transcript(world: World, session_id: str, *words: str) -> Path:
    """A conversation on disk, as its CLI leaves it, that no process has."""
    (bucket,) = world.root.glob(".kimi/sessions/*")
    path = bucket / session_id
    path.mkdir()
    lines = [{"role": "_system_prompt", "content": "You are an echo."}]
    lines += [{"role": "user", "content": word} for word in words]
    path.joinpath("context.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_two_of_one_directory_and_one_moment_come_back_each_with_its_own_id(serving):
    """T1: started at once, brought back in the other order; the command lines prove it."""
    with ThreadPoolExecutor(2) as pool:
        tabs = list(pool.map(lambda _: serving.start_tab(), range(2)))
    ids = {tab: talk(serving, tab, f"I am {tab}") for tab in tabs}
    lose_everything(serving)
    transcript(serving.world, "the-newest", "mine")
    for tab in reversed(tabs):
        open_again(serving, tab)
        shown = serving.tabs()[tab]
        words = arguments_of(shown["pid"])
        assert words[words.index("--session") + 1] == ids[tab]
        assert serving.sessions()[ids[tab]]["pids"] == [shown["pid"]]
    wait_until(lambda: "the-newest" in serving.sessions(), "the transcript")
    assert serving.sessions()["the-newest"]["pids"] == []


def test_five_of_one_directory_have_each_the_id_that_was_given_to_it(world):
    """T2: none of them takes the newest transcript, and none is ended for it."""
    agents = {}
    for number in range(5):
        name = f"given-{number}"
        agents[name] = world.program_on_terminal([str(world.program), "-w", str(world.work), "--session", name])
        agents[name].wait_screen(f"session {name}")
    transcript(world, "the-newest", "mine")
    found = world.sessions()
    assert {name: found[name]["pids"] for name in agents} == {name: [one.pid] for name, one in agents.items()}
    assert {found[name]["state"] for name in agents} == {"live"}
    assert found["the-newest"]["pids"] == []
    assert all(one.exit_code is None for one in agents.values())


def test_a_tab_whose_id_is_lost_is_not_given_its_neighbours_conversation(serving):
    """T3: the only other transcript of the directory, and the newest, is somebody else's."""
    lost = serving.start_tab()
    own = talk(serving, lost, "mine")
    neighbour = serving.start_tab()
    other = talk(serving, neighbour, "not yours")
    serving.kill()
    for path in serving.world.root.glob(f".kimi/sessions/*/{own}"):
        path.rename(serving.world.root / "moved away")
    lose_everything(serving)
    shown = serving.wait_for_tab(lost, lambda one: one["state"] == "gone")
    assert not shown["restorable"] and shown["ref"] is None
    refused = serving.ask("POST", f"/api/tabs/{lost}/open", {})
    assert (refused.status, refused.reason) == (409, "never_identified")
    assert serving.sessions()[other]["pids"] == []


def test_an_id_that_only_the_disk_knows_stays_a_hint_however_often_it_is_saved_and_read(serving):
    """T4: what was wanted at the start and lies on disk is never taken for what the process serves."""
    serving.start_tab()
    serving.world.program.write_text(SILENT)
    tab = serving.ask(
        "POST",
        "/api/tabs",
        {"provider": "kimi-cli", "work_dir": str(serving.world.work), "trust": True, "live_only": True},
    ).body["tab"]
    binding = json.loads((serving.world.state / "bindings" / f"{tab}.json").read_text())
    wanted = binding["wanted"]["session_id"]
    transcript(serving.world, wanted, "a turn")
    wait_until(lambda: wanted in serving.sessions(), "the transcript")
    for _ in range(2):
        shown = serving.tabs()[tab]
        assert not shown["restorable"] and shown["live_only_reason"]
        assert serving.sessions()[wanted]["state"] != "live"
        serving.kill()
        serving.start()
    lose_everything(serving)
    refused = serving.ask("POST", f"/api/tabs/{tab}/open", {})
    assert (refused.status, refused.reason) == (409, "never_identified")


def test_a_session_resumed_days_later_is_bound_by_its_record_and_not_by_the_nearest_time(world):
    """T5: beside one on disk that began in the very second in which the process did."""
    first = world.program_on_terminal([str(world.program), "-w", str(world.work), "--session", "days-old"])
    first.wait_screen("session days-old")
    first.send("hello\r")
    first.wait_screen("hello\n")
    first.send("/quit\r")
    first.wait_exit()
    (old,) = world.root.glob(".kimi/sessions/*/days-old")
    then = time.time() - 5 * 86_400
    for path in (*old.iterdir(), old):
        os.utime(path, (then, then))
    again = world.program_on_terminal([str(world.program), "-w", str(world.work), "--session", "days-old"])
    again.wait_screen("session days-old")
    transcript(world, "born-now", "hello")
    found = world.sessions()
    assert (found["days-old"]["state"], found["days-old"]["pids"]) == ("live", [again.pid])
    assert found["born-now"]["pids"] == []


def test_a_new_title_changes_nothing_and_no_title_is_a_name(serving):
    """T6: renamed while it runs; the old words and the new ones find nothing."""
    tab = serving.start_tab()
    session_id = talk(serving, tab, "heron")
    (state,) = serving.world.root.glob(f".kimi/sessions/*/{session_id}/state.json")
    renamed = {**json.loads(state.read_text()), "custom_title": "renamed"}
    state.with_suffix(".new").write_text(json.dumps(renamed))
    state.with_suffix(".new").replace(state)
    serving.wait_for_tab(tab, lambda one: one["title"] == "renamed")
    assert serving.sessions()[session_id]["state"] == "live"
    for title in ("heron", "renamed"):
        assert serving.world.corral("show", title).returncode == 4
    lose_everything(serving)
    open_again(serving, tab)
    assert talk(serving, tab, "again") == session_id


def test_a_terminal_and_a_title_used_again_move_no_binding(serving):
    """T7: two agents one after the other on the very same terminal, with the same title."""
    tab = serving.start_tab()
    session_id = talk(serving, tab, "same words")
    script = serving.world.root / "two"
    program = serving.world.program
    script.write_text(f"#!/bin/sh\ntty\n{program} -w . --session one\n{program} -w . --session two\n")
    script.chmod(0o755)
    window = serving.world.program_on_terminal([str(script)])
    for name in ("one", "two"):
        window.wait_screen(f"session {name}")
        window.send("same words\r")
        window.wait_screen(lambda screen, name=name: screen.count("#1: same words") == 1 + (name == "two"))
        if name == "one":
            window.send("/quit\r")

    def both() -> list[tuple[bool, str | None]]:
        found = serving.sessions()
        return [(bool(found[name]["pids"]), found[name]["title"]) for name in ("one", "two") if name in found]

    title = "same words"
    serving.wait_for_tab(tab, lambda one: one["title"] == title)  # before, it bears its agent's name
    wait_until(lambda: both() == [(False, title), (True, title)], "both, titled alike")
    found = serving.sessions()
    assert (found["one"]["tab"], found["two"]["tab"]) == (None, None)
    assert found[session_id]["tab"] == tab
    assert serving.tabs()[tab]["ref"] == found[session_id]["ref"]
