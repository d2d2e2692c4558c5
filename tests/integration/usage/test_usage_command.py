"""`corral usage` as a process of its own on homes with known totals: once, again, grown, rewritten, deleted, killed."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.usage.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_fork_and_an_undo_are_counted_once(world: World) -> None:
    lines = [world.line() for _ in range(5)]
    world.session("original", *lines)
    world.session("a-fork", *lines, world.line())
    world.session("an-undo", *lines[:3])
    assert world.events() == 6


def test_a_file_that_grows_is_read_on(world: World) -> None:
    wire = world.session("s", world.line(), world.line())
    assert world.events() == 2
    torn = world.line()
    with open(wire, "a") as file:
        file.write(torn[:30])
    assert world.events() == 2
    with open(wire, "a") as file:
        file.write(torn[30:] + world.line())
    assert world.events() == 4


def test_totals_stay_when_the_cli_deletes_or_rewrites_its_logs(world: World) -> None:
    wire = world.session("s", world.line(), world.line())
    assert world.events() == 2
    wire.write_text(world.line())
    assert world.events() == 3
    shutil.rmtree(wire.parent)
    assert world.events() == 3


def test_a_later_config_prices_no_history_anew(world: World) -> None:
    world.session("s", world.line())
    before = world.usage("--by", "model")
    assert [row["key"]["model"] for row in before["rows"]] == ["kimi-k2.5"]
    assert before["total"]["cost"]["assumed_events"] == 1
    world.set_model("kimi-k2-thinking")
    world.session("s", world.line())
    models = {row["key"]["model"]: row["events"] for row in world.usage("--by", "model")["rows"]}
    assert models == {"kimi-k2.5": 1, "kimi-k2-thinking": 1}


def test_rows_add_up_to_the_total_by_every_key(world: World) -> None:
    for number in range(5):
        world.session(f"s{number}", *(world.line() for _ in range(number + 1)))
    for keys in (
        "day",
        "week",
        "month",
        "hour",
        "session",
        "project",
        "model",
        "provider",
        "branch",
        "day,model,session",
    ):
        report = world.usage("--by", keys)
        assert sum(row["events"] for row in report["rows"]) == report["total"]["events"] == 15
        assert all(list(row["key"]) == keys.split(",") for row in report["rows"])


def test_a_time_zone_changes_names_and_nothing_stored(world: World) -> None:
    world.session("s", *(world.line() for _ in range(3)))
    utc = world.usage("--by", "hour")["rows"]
    shanghai = world.usage("--by", "hour", "--tz", "Asia/Shanghai")["rows"]
    assert [row["events"] for row in utc] == [row["events"] for row in shanghai]
    assert utc[0]["key"] != shanghai[0]["key"]


def test_scans_at_once_and_killed_scans_end_in_the_same_totals(world: World) -> None:
    random.seed(4)
    for number in range(300):
        world.session(f"s{number}", *(world.line() for _ in range(20)))
    for _ in range(12):
        scans = [subprocess.Popen(world.command(), env=world.env, stdout=subprocess.DEVNULL) for _ in range(2)]
        try:
            scans[0].wait(random.uniform(0.1, 0.6))
        except subprocess.TimeoutExpired:
            scans[0].send_signal(signal.SIGKILL)
        for scan in scans:
            scan.wait(60)
    assert world.events() == 6000


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--by", "colour"), 2), (("--by", "tool,day"), 2), (("--tz", "Mars/Base"), 2), (("--since", "soon"), 2)],
)
def test_a_question_that_makes_no_sense_is_told_so(world: World, words: tuple[str, ...], code: int) -> None:
    done = subprocess.run(world.command(*words), env=world.env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("corral: ")


def test_csv_and_table_say_the_same(world: World) -> None:
    world.session("s", world.line(), world.line())
    for words in (("--csv",), ()):
        done = subprocess.run(
            world.command(*words), env=world.env, capture_output=True, text=True, timeout=60, check=True
        )
        assert "800" in done.stdout and "1200" in done.stdout.replace(",", "")


def test_a_log_that_is_none_is_told_and_read_once_it_is_one(world: World) -> None:
    wire = world.session("s", world.line(), world.line())
    wire.rename(wire.with_name("away"))
    wire.symlink_to(wire.with_name("away"))
    world.session("t", world.line())
    report = world.usage()
    assert report["total"]["events"] == 1
    assert [(row["path"], row["reason"]) for row in report["skipped"]] == [
        (str(wire), "can't be read: not a regular file")
    ]
    wire.unlink()
    wire.with_name("away").rename(wire)
    report = world.usage()
    assert report["total"]["events"] == 3 and report["skipped"] == []


def test_what_stood_in_the_place_of_a_log_is_told_no_longer_once_it_is_gone(world: World) -> None:
    wire = world.session("s", "")
    wire.unlink()
    wire.mkdir()
    torn = world.session("t", world.line(), world.line()[:-9] + "\n")
    told = [
        (str(wire), "can't be read: not a regular file"),
        (str(torn), "not a record that kimi-cli writes, or its numbers are wrong"),
    ]
    assert [(row["path"], row["reason"]) for row in world.usage()["skipped"]] == told
    wire.rmdir()
    shutil.rmtree(torn.parent)  # what its line said is still in no total
    report = world.usage()
    assert report["total"]["events"] == 1
    assert [(row["path"], row["reason"]) for row in report["skipped"]] == told[1:]


def test_a_log_that_is_reached_by_two_names_is_named_once(tmp_path: Path) -> None:
    root = World(tmp_path)
    chats = tmp_path / ".qwen" / "projects" / "-app" / "chats"
    chats.mkdir(parents=True)
    name = "aaaaaaaa-0000-4000-8000-00000000000{}.jsonl"
    (chats / name.format(1)).write_text('{"uuid":"x","type":"system","subtype":"ui_telemetry"\n')
    (chats / name.format(2)).mkdir()
    (chats.parent.parent / "-other").symlink_to("-app")
    skipped = [row["path"] for row in root.usage()["skipped"]]
    assert skipped == [str(chats / name.format(number)) for number in (1, 2)]


def test_a_session_has_the_names_that_are_shown(world: World) -> None:
    world.session("ab-1", world.line())
    world.session("ab-2", world.line(), world.line())
    counts = {name: world.usage("--session", name)["total"]["events"] for name in ("ab-2", "kimi-cli:ab-1", "no")}
    assert counts == {"ab-2": 2, "kimi-cli:ab-1": 1, "no": 0}
    done = _run(world, "--session", "ab")
    assert done.returncode == 3 and "kimi-cli:ab-1" in done.stderr and "kimi-cli:ab-2" in done.stderr


@pytest.mark.parametrize("words", [("--project", ""), ("--provider", ""), ("--by", "tool", "--model", "m")])
def test_a_filter_that_would_not_be_one_is_refused(world: World, words: tuple[str, ...]) -> None:
    world.session("s", world.line())
    done = _run(world, *words)
    assert done.returncode == 2 and done.stderr.startswith("corral: ")


def _run(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(world.command(*words), env=world.env, capture_output=True, text=True, timeout=60, check=False)
