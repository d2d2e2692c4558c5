"""A report that could not be recorded is known to be missing: its process is doubted, never guessed at."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.hooks.command import program_path
from corral.hooks.journal import read_journals
from corral.hooks.program.journal_file import MARK, directory_of
from corral.model.record import Skipped
from tests.integration.hooks.conftest import Cli, World, patient_program
from tests.integration.terminals.held import wait_until

ALL = pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code", "qwen-code"])


@contextmanager
def stuck(world: World, provider: str, *, hooks_wait: bool = False) -> Iterator[None]:
    """Another hook holds the lock of the journals, for longer than hooks wait for it."""
    program = Path(program_path(str(world.data)))
    if not hooks_wait:
        program.write_bytes(patient_program(lock_tries=1))
    directory = directory_of(str(world.state), provider)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    fd = os.open(directory, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(fd)
        program.write_bytes(patient_program())


def marks(world: World, provider: str) -> list[str]:
    return [name for name in os.listdir(directory_of(str(world.state), provider)) if name.endswith(MARK)]


@ALL
def test_until_the_next_start_a_journal_that_lacks_a_report_says_so(world, provider):
    cli = world.run(provider)
    cli.start("a")
    assert not cli.journal.missed and marks(world, provider) == []
    with stuck(world, provider):
        cli.start("b", source="clear")
    assert cli.journal.missed and cli.current == ["a"]
    cli.start("c", source="clear")
    assert not cli.journal.missed and cli.current == ["c"]
    assert marks(world, provider) == []


@ALL
def test_which_kind_was_lost_is_known_and_a_start_outweighs_an_end(world, provider):
    """A hook is often killed together with the agent that it was to report the end of."""
    cli = world.run(provider)
    cli.start("a")
    with stuck(world, provider):
        cli.end("a")
        assert cli.journal.missed == "end"
        cli.start("b", source="clear")
    assert cli.journal.missed == "start" and cli.current == ["a"]
    cli.kill()
    assert cli.journal.missed == "start"


def test_what_is_lost_later_is_not_made_up_for_by_a_slow_report_from_before(world):
    cli = world.run("kimi-cli")
    cli.start("a")
    with stuck(world, "kimi-cli", hooks_wait=True):
        slow = threading.Thread(target=cli.start, args=("b", "clear"))
        slow.start()
        wait_until(lambda: marks(world, "kimi-cli"), "the slow hook waiting")
        (before,) = marks(world, "kimi-cli")
        parts = before.split(".")
        later = ".".join([*parts[:2], "9999999-1", *parts[3:4], str(int(parts[4]) + 1), parts[5]])
        Path(directory_of(str(world.state), "kimi-cli"), later).touch()
    slow.join()
    assert marks(world, "kimi-cli") == [later] and cli.journal.missed == "start"


@ALL
def test_an_end_does_not_make_up_for_a_start_that_was_lost(world, provider):
    cli = world.run(provider)
    cli.start("a")
    with stuck(world, provider):
        cli.start("b", source="clear")
    cli.end("a")
    assert cli.journal.missed and cli.current == []


def test_who_serves_many_misses_what_was_lost_until_it_ends(world):
    cli = world.run("kimi-code", many=True)
    cli.start("a")
    with stuck(world, "kimi-code"):
        cli.start("b")
    cli.start("c")
    assert cli.journal.missed and cli.current == ["a", "c"]


@ALL
def test_a_first_report_that_was_lost_is_told_while_its_process_runs(world, provider):
    cli = world.run(provider)
    with stuck(world, provider):
        cli.start("a")
    (found,) = read_journals(str(world.state), provider)
    assert isinstance(found, Skipped) and "first report" in found.reason
    assert Path(found.path).name.startswith(f"{cli.pid}-")
    cli.kill()
    assert read_journals(str(world.state), provider) == []


@pytest.mark.parametrize("killed", [False, True])
def test_a_report_on_its_way_is_not_missing_and_one_that_was_killed_is(world, killed):
    cli = world.run("kimi-cli")
    cli.start("a")
    with stuck(world, "kimi-cli", hooks_wait=True):
        sending = threading.Thread(target=cli.start, args=("b", "clear"))
        sending.start()
        wait_until(lambda: marks(world, "kimi-cli"), "the hook waiting")
        assert not cli.journal.missed
        if killed:
            (mark,) = marks(world, "kimi-cli")
            os.kill(int(mark.split(".")[2].partition("-")[0]), signal.SIGKILL)
            sending.join()
    sending.join()
    wait_until(lambda: bool(cli.journal.missed) is killed, "the end of the hook")
    assert cli.current == (["a"] if killed else ["b"])


@pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code"])  # Qwen Code's own registry is asked first, and is right
def test_what_it_may_have_left_is_unknown_in_every_view(world, provider):
    world.install(provider)
    cli = world.run(provider)
    write_session(cli, "a")
    cli.start("a")
    assert states(world, cli) == {"a": "live"}
    with stuck(world, provider):
        cli.start("b", source="clear")
    assert states(world, cli) == {"a": "unknown"}
    shown = ask(world, cli, "explain", "a")
    assert any(one["rule"] == "missed" for one in shown["session"]["evidence"]), shown
    write_session(cli, "b")
    cli.start("b", source="clear")
    assert states(world, cli)["b"] == "live" and states(world, cli).get("a") not in {"live", "unknown"}


def test_a_heartbeat_that_has_stopped_is_noticed_and_the_next_one_heals(world):
    """Kimi Code drops its hooks at /reload when one entry is bad; what it reported before is believed no longer."""
    world.install("kimi-code", versions=("2.1.0",))
    cli = world.run("kimi-code")
    write_session(cli, "a")
    cli.start("a")
    age(cli)
    assert states(world, cli) == {"a": "live"}  # it never had one
    cli.beat("a")
    assert states(world, cli) == {"a": "live"}
    age(cli)
    assert states(world, cli) == {"a": "unknown"}
    (shown,) = (one for one in ask(world, cli, "explain", "a")["session"]["evidence"] if one["kind"] == "journal")
    assert shown["rule"] == "gap" and "heartbeat" in shown["reason"], shown
    cli.beat("a")
    assert states(world, cli) == {"a": "live"}
    age(cli)
    cli.kill()
    assert states(world, cli).get("a") not in {"live", "unknown"}  # a dead one has none, and needs none


def age(cli: Cli) -> None:
    """As if its last report was ten minutes ago."""
    path = Path(cli.journal.path)
    journal = json.loads(path.read_text())
    for stamp in (*journal["events"], *([journal["heard"]] if journal["heard"] else [])):
        stamp["awake"] -= 600
    path.write_text(json.dumps(journal))


def write_session(cli: Cli, session_id: str) -> None:
    directory = cli.session_dir(session_id)
    (directory / "context.jsonl").write_text('{"role": "user", "content": "hello"}\n')
    state = {"id": session_id, "workDir": cli.cwd, "createdAt": "2026-11-16T09:00:00Z"}
    (directory / "state.json").write_text(json.dumps(state))


def ask(world: World, cli: Cli, *words: str) -> Any:
    env = {**cli.env, "CORRAL_STATE_DIR": str(world.state), "CORRAL_CACHE_DIR": str(world.root / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "corral", *words, "--json"], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def states(world: World, cli: Cli) -> dict[str, str]:
    rows = ask(world, cli, "ps", "--all")["sessions"]
    return {row["session_id"]: row["state"] for row in rows if row["home"] == str(cli.home)}
