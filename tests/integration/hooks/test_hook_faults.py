"""The hook program under bad conditions: many at once, old and damaged journals, full and read-only disks, kills."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from corral.hooks.journal import read_journals
from corral.machine.processes import ProcessTable
from corral.model.journal import Journal
from corral.model.record import Skipped

KIMIS = pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code"])
ALL = pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code", "qwen-code"])


def test_eight_hooks_at_once_lose_no_event(world):
    cli = world.run("kimi-code", many=True)
    for number in range(8):
        cli.session_dir(f"s{number}")
    cli.send(*(cli.payload("SessionStart", f"s{number}", source="startup") for number in range(8)))
    assert sorted(cli.current) == [f"s{number}" for number in range(8)]
    assert sorted(cli.files()) == sorted(cli.current)
    times = [event.boottime for event in cli.journal.events]
    assert times == sorted(times)


def test_a_long_life_stays_small_and_right(world):
    from corral.hooks.program import journal_file

    cli = world.run("kimi-cli")
    cli.start("first")
    path = Path(cli.journal.path)
    fields = json.loads(path.read_text())
    start = fields["events"][0]
    fields["events"] = [
        {**start, "event": kind, "session_id": f"old{n}", "boottime": n / 1000}
        for n in range(400) for kind in ("start", "end")
    ]  # fmt: skip
    path.write_text(json.dumps(fields))
    cli.start("last")
    journal = cli.journal
    assert len(journal.events) <= journal_file.MAX_EVENTS
    assert journal.dropped_events > 300
    assert cli.current == ["last"]


def test_everything_written_is_private(world):
    cli = world.run("kimi-cli")
    cli.start("a")
    for directory, _, files in os.walk(world.state):
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
        for name in files:
            assert stat.S_IMODE(os.stat(os.path.join(directory, name)).st_mode) == 0o600


def test_nothing_of_a_prompt_is_kept(world):
    cli = world.run("kimi-code")
    cli.start("a", prompt="CANARY", session_title="CANARY", profile="CANARY")
    cli.send(cli.payload("UserPromptSubmit", "a", prompt="CANARY"))
    for directory, _, files in os.walk(world.root):
        for name in files:
            assert b"CANARY" not in Path(directory, name).read_bytes()


def test_old_journals_of_the_dead_are_swept_and_young_ones_stay(world):
    directory = world.state / "journal" / "kimi-cli"
    directory.mkdir(parents=True)
    old, young, living, foreign = (directory / n for n in ("9999999-1.json", "9999998-1.json", "x", "notes.txt"))
    cli = world.run("kimi-cli")
    process = ProcessTable().find(os.getpid())
    assert process
    living = directory / f"{process.pid}-{process.start_ticks}.json"
    # A mark of a report that was lost stays as long as the journal that it is about.
    marks = [path.with_name(f".{path.stem}.9999997-1.start.1.report") for path in (old, young, living)]
    for path in (old, young, living, foreign, *marks):
        path.write_text("{}")
    month_ago = time.time() - 31 * 86_400
    for path in (old, living, foreign, marks[0], marks[2]):
        os.utime(path, (month_ago, month_ago))
    cli.start("a")
    assert [path.exists() for path in (old, young, living, foreign)] == [False, True, True, True]
    assert [path.exists() for path in marks] == [False, True, True]


def test_a_reused_pid_gets_a_journal_of_its_own(world):
    cli = world.run("kimi-cli")
    cli.start("a")
    path = Path(cli.journal.path)
    other = path.with_name(f"{cli.pid}-1.json")
    fields = json.loads(path.read_text())
    other.write_text(json.dumps({**fields, "start_ticks": 1}))
    cli.start("b")
    found = [j for j in read_journals(str(world.state), "kimi-cli") if isinstance(j, Journal)]
    assert {len(journal.events) for journal in found} == {1, 3}


def test_a_journal_of_another_boot_is_begun_anew(world):
    cli = world.run("kimi-cli")
    cli.start("a")
    path = Path(cli.journal.path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot_id": "another"}))
    cli.start("b")
    assert [event.session_id for event in cli.journal.events] == ["b"]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", b'{"schema": 1, "events": 7}'])
def test_a_damaged_journal_is_begun_anew(world, damage):
    cli = world.run("kimi-cli")
    cli.start("a")
    Path(cli.journal.path).write_bytes(damage)
    cli.start("b")
    assert cli.current == ["b"]


def test_a_read_only_state_directory_harms_nobody_and_runtime_json_is_still_written(world):
    (world.state).write_text("a file where a directory should be")
    cli = world.run("kimi-cli")
    cli.start("a")
    assert cli.holder("a") == cli.pid


def test_a_read_only_session_directory_harms_nobody(world):
    cli = world.run("kimi-cli")
    (cli.session_dir("a") / "runtime.json").mkdir()
    cli.start("a")
    assert cli.current == ["a"]


def test_a_missing_session_directory_is_not_made(world):
    cli = world.run("kimi-cli")
    cli.send(cli.payload("SessionStart", "ghost", source="startup"))
    assert cli.current == ["ghost"]
    assert not (cli.home / "sessions").exists()


def test_a_linked_session_directory_is_not_followed(world, tmp_path):
    cli = world.run("kimi-cli")
    outside = tmp_path / "outside"
    outside.mkdir()
    bucket = cli.home / "sessions" / "b1"
    bucket.mkdir(parents=True)
    (bucket / "s").symlink_to(outside)
    cli.send(cli.payload("SessionStart", "s", source="startup"))
    assert list(outside.iterdir()) == []


def test_a_full_disk_keeps_the_old_journal_whole(world):
    world.state.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(world.state)], capture_output=True)
    assert mounted.returncode == 0, f"the tests need root and mount(8): {mounted.stderr.decode()}"
    try:
        cli = world.run("kimi-cli")
        cli.start("a")
        with pytest.raises(OSError), open(world.state / "fill", "wb", buffering=0) as file:
            while True:
                if file.write(b"x" * 4096) < 4096:
                    raise OSError("full")
        cli.start("b")
        assert [event.session_id for event in cli.journal.events] == ["a"]
        assert not [name for name in os.listdir(Path(cli.journal.path).parent) if name.endswith(".tmp")]
        (world.state / "fill").unlink()
        cli.start("c")
        assert cli.current == ["c"]
    finally:
        world.close()
        subprocess.run(["umount", "-l", str(world.state)], check=True)


def test_a_hook_killed_at_any_instant_leaves_no_torn_journal(world):
    """A hundred hooks, each killed somewhere in its life: every file is whole, and temps do not pile up."""
    cli = world.run("kimi-cli")
    cli.start("s")
    directory = Path(cli.journal.path).parent
    for number in range(100):
        payload = cli.payload("SessionStart", f"s{number % 5}", source="resume")
        cli.session_dir(f"s{number % 5}")
        cli.send(payload, kill_after=0.004 + 0.0008 * (number % 60))
        found = read_journals(str(world.state), "kimi-cli")
        assert not [one for one in found if isinstance(one, Skipped)], number
        for path in cli.home.glob("sessions/*/*/runtime.json"):
            json.loads(path.read_text())
    cli.start("end")
    assert cli.current == ["end"]
    assert not [name for name in os.listdir(directory) if name.endswith(".tmp")]


def test_a_cli_that_dies_meanwhile_is_not_recorded_as_something_else(world):
    cli = world.run("kimi-cli")
    cli.session_dir("a")
    assert cli.process.stdin
    request = {
        "payloads": [json.dumps(cli.payload("SessionStart", "a", source="startup"))],
        "env": cli.env,
        "cwd": cli.cwd,
    }
    cli.process.stdin.write(json.dumps(request) + "\n")
    cli.process.stdin.flush()
    os.kill(cli.pid, signal.SIGKILL)
    cli.process.wait()
    time.sleep(0.3)
    for journal in read_journals(str(world.state), "kimi-cli"):
        assert isinstance(journal, Journal) and journal.identity.pid == cli.pid
