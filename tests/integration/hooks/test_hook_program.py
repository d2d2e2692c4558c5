"""The hook program, run for real below real processes: every order of events that was seen."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from corral.hooks.command import hook_command, program_path
from corral.hooks.journal import read_journals
from corral.model.journal import Journal, JournalEventKind
from corral.model.record import Skipped
from corral.system.processes import ProcessTable

KIMIS = pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code"])
ALL = pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code", "qwen-code"])


@ALL
def test_a_start_names_the_cli_and_never_the_hook_or_its_shell(world, provider):
    cli = world.run(provider)
    cli.start("s1")
    journal = cli.journal
    process = ProcessTable().find(cli.pid)
    assert process and journal.identity == process.identity
    assert journal.home == str(cli.home)
    assert not journal.many
    (event,) = journal.events
    assert (event.event, event.session_id, event.source, event.work_dir) == (
        JournalEventKind.START, "s1", "startup", str(world.work),
    )  # fmt: skip
    assert abs(event.at - time.time()) < 20


@KIMIS
def test_runtime_json_names_the_cli_and_follows_the_protocol(world, provider):
    cli = world.run(provider)
    cli.start("s1")
    record = json.loads((cli.session_dir("s1") / "runtime.json").read_text())
    assert record["schema_version"] == 1
    assert (record["pid"], record["session_id"], record["work_dir"]) == (cli.pid, "s1", str(world.work))
    assert record["start_ticks"] == cli.journal.identity.start_ticks
    assert record["provider"] == provider


def test_qwen_writes_its_own_runtime_json_and_we_none(world):
    cli = world.run("qwen-code")
    cli.start("s1", transcript_path="/h/projects/-work/chats/s1.jsonl", model="qwen3")
    assert cli.files() == {}
    (event,) = cli.journal.events
    assert (event.scope, event.model, event.model_source) == ("-work", "qwen3", "payload")


def test_kimi_cli_new_ends_then_starts(world):
    cli = world.run("kimi-cli")
    cli.start("a")
    cli.end("a", "exit")
    assert (cli.current, cli.files()) == ([], {})
    cli.start("b")
    assert (cli.current, cli.files()) == (["b"], {"b": cli.pid})


def test_kimi_code_new_starts_then_ends(world):
    cli = world.run("kimi-code")
    cli.start("a")
    cli.start("b")
    assert cli.files() == {"b": cli.pid}
    cli.end("a")
    assert (cli.current, cli.files()) == (["b"], {"b": cli.pid})


def test_kimi_code_fork_stays_in_the_source_and_its_file_is_back(world):
    cli = world.run("kimi-code")
    cli.start("source")
    before = (cli.session_dir("source") / "runtime.json").read_text()
    cli.start("fork", "resume")
    cli.end("fork")
    assert (cli.current, cli.files()) == (["source"], {"source": cli.pid})
    after = json.loads((cli.session_dir("source") / "runtime.json").read_text())
    assert {**after, "started_at": 0} == {**json.loads(before), "started_at": 0}


def test_a_kimi_cli_whose_end_got_lost_has_moved_all_the_same(world):
    cli = world.run("kimi-cli")
    cli.start("a")
    cli.start("b")
    cli.end("b")
    assert (cli.current, cli.files()) == ([], {})


def test_qwen_resume_reports_no_end_and_has_moved(world):
    cli = world.run("qwen-code")
    cli.start("a")
    cli.start("b", "resume")
    assert cli.current == ["b"]
    cli.end("b", "prompt_input_exit")
    assert cli.current == []


@KIMIS
def test_a_switch_back_and_forth_under_a_burst_leaves_one_file(world, provider):
    cli = world.run(provider)
    names = [f"s{number % 4}" for number in range(12)]
    last = None
    for name in names:
        if last and provider == "kimi-cli":
            cli.end(last)
        cli.start(name, "resume")
        if last and last != name and provider == "kimi-code":
            cli.end(last)
        last = name
    assert (cli.current, cli.files()) == ([names[-1]], {names[-1]: cli.pid})


@KIMIS
def test_two_openers_the_first_keeps_the_file_and_the_survivor_takes_it(world, provider):
    first, second = world.run(provider), world.run(provider)
    first.start("s")
    second.start("s", "resume")
    assert first.holder("s") == first.pid
    assert first.current == second.current == ["s"]
    second.end("s")
    assert first.holder("s") == first.pid
    second.start("s", "resume")
    first.kill()
    second.beat("s")
    assert second.holder("s") == second.pid


@KIMIS
def test_the_first_openers_end_clears_only_its_own(world, provider):
    first, second = world.run(provider), world.run(provider)
    first.start("s")
    second.start("s", "resume")
    first.end("s")
    assert second.holder("s") is None
    second.beat("s")
    assert second.holder("s") == second.pid
    first.end("s")
    assert second.holder("s") == second.pid


@KIMIS
def test_a_file_of_a_dead_process_is_replaced_and_a_strangers_is_not(world, provider):
    dead, cli = world.run(provider), world.run(provider)
    dead.start("s")
    dead.kill()
    assert cli.holder("s") == dead.pid
    cli.start("s", "resume")
    assert cli.holder("s") == cli.pid
    foreign = cli.session_dir("t") / "runtime.json"
    foreign.write_text('{"schema_version": 7}')
    cli.start("t", "resume")
    assert foreign.read_text() == '{"schema_version": 7}'


def test_a_server_serves_all_that_it_has_not_ended(world):
    cli = world.run("kimi-code", many=True)
    cli.start("a")
    cli.start("b")
    assert cli.journal.many
    assert (cli.current, cli.files()) == (["a", "b"], {"a": cli.pid, "b": cli.pid})
    cli.end("a")
    assert (cli.current, cli.files()) == (["b"], {"b": cli.pid})


def test_a_web_server_with_a_terminal_is_known_by_its_registration(world):
    cli = world.run("kimi-code")
    instances = cli.home / "server" / "instances"
    instances.mkdir(parents=True)
    (instances / "01X.json").write_text(json.dumps({"server_id": "x", "pid": cli.pid, "port": 1}))
    cli.start("a")
    cli.start("b")
    assert cli.current == ["a", "b"]


def test_a_heartbeat_asserts_again_what_was_lost_and_changes_no_journal(world):
    cli = world.run("kimi-code")
    cli.start("a")
    (cli.session_dir("a") / "runtime.json").unlink()
    before = cli.journal
    cli.beat("a")
    assert (cli.holder("a"), cli.journal) == (cli.pid, before)


def test_a_late_heartbeat_of_a_session_that_was_left_brings_nothing_back(world):
    cli = world.run("kimi-code")
    cli.start("a")
    cli.start("b")
    cli.end("a")
    cli.beat("a")
    assert (cli.current, cli.files()) == (["b"], {"b": cli.pid})


def test_a_heartbeat_of_a_process_that_began_before_the_installation_names_its_session(world):
    cli = world.run("kimi-code")
    cli.session_dir("a")
    cli.beat("a")
    assert (cli.current, cli.journal.events[0].source) == (["a"], "heartbeat")


def test_a_hook_that_kimi_migrate_copied_counts_for_kimi_code(world):
    cli = world.run("kimi-code", argument="kimi-cli")
    cli.start("a")
    assert cli.current == ["a"]
    assert read_journals(str(world.state), "kimi-cli") == []


def test_a_hook_of_kimi_cli_in_a_kimi_code_without_a_title_counts_for_kimi_code(world):
    cli = world.run("kimi-code", argument="kimi-cli", comm="node")
    cli.start("a")
    assert (cli.current, cli.files()) == (["a"], {"a": cli.pid})
    assert read_journals(str(world.state), "kimi-cli") == []


def test_a_python_that_the_program_was_not_compiled_for_runs_its_sources(world):
    program = Path(program_path(str(world.data)))
    magic = importlib.util.MAGIC_NUMBER.hex().encode()
    program.write_bytes(program.read_bytes().replace(b"\n# " + magic, b"\n# 00000000"))
    cli = world.run("kimi-cli")
    cli.start("a")
    assert (cli.current, cli.files()) == (["a"], {"a": cli.pid})


@pytest.mark.parametrize("comm", ["bash", "vim", "python3.11"])
def test_a_process_that_is_no_agent_gets_no_journal(world, comm):
    cli = world.run("kimi-cli", comm=comm)
    cli.start("a")
    assert read_journals(str(world.state), "kimi-cli") == []
    assert cli.files() == {}


@KIMIS
def test_a_same_id_in_two_buckets_is_not_guessed(world, provider):
    cli = world.run(provider)
    cli.session_dir("s", "b1")
    cli.session_dir("s", "b2")
    cli.send(cli.payload("SessionStart", "s", source="startup"))
    assert (cli.journal.events[0].scope, cli.files()) == (None, {})


def test_kimi_cli_prefers_the_bucket_of_the_very_directory(world):
    cli = world.run("kimi-cli")
    bucket = hashlib.md5(str(world.work).encode()).hexdigest()
    cli.session_dir("s", "b2")
    cli.session_dir("s", bucket)
    cli.send(cli.payload("SessionStart", "s", source="startup"))
    assert cli.journal.events[0].scope == bucket
    assert (cli.session_dir("s", bucket) / "runtime.json").exists()


def test_a_relative_work_directory_is_resolved_without_following_its_link(world):
    cli = world.run("kimi-cli")
    (world.work / "link").symlink_to(world.root)
    bucket = hashlib.md5(str(world.work / "link").encode()).hexdigest()
    cli.session_dir("s", bucket)
    cli.send({"hook_event_name": "SessionStart", "session_id": "s", "cwd": "link", "source": "startup"})
    event = cli.journal.events[0]
    assert (event.work_dir, event.scope) == (str(world.work / "link"), bucket)


def test_the_model_of_kimi_cli_comes_from_its_variable_else_its_config(world):
    cli = world.run("kimi-cli")
    (cli.home / "config.toml").write_text('default_model = "k2"\n')
    cli.start("a")
    cli.env["KIMI_MODEL_NAME"] = "k3"
    cli.start("b")
    models = [(e.model, e.model_source) for e in cli.journal.events if e.event is JournalEventKind.START]
    assert models == [("k2", "config.toml"), ("k3", "KIMI_MODEL_NAME")]


def test_the_default_home_lies_under_home(world):
    cli = world.run("kimi-cli")
    del cli.env["KIMI_SHARE_DIR"]
    cli.send(cli.payload("SessionStart", "a", source="startup"))
    assert cli.journal.home == str(world.root / ".kimi")


@pytest.mark.parametrize(
    "session_id", ["../x", "", "-rf", ".", "..", "a/b", "a" * 129, "a\n", "ü", 7, None, ["a"], True]
)
def test_an_invalid_id_is_not_recorded(world, session_id):
    cli = world.run("kimi-cli")
    cli.send(cli.payload("SessionStart", session_id, source="startup"))
    assert read_journals(str(world.state), "kimi-cli") == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "7", '"x"', "\udcff", "{}" * 3, "[" * 100_000, '{"a":' * 50_000, "x" * (1 << 20),
     '{"session_id": "a"}', '{"hook_event_name": "SessionStart"}',
     '{"hook_event_name": 1, "session_id": "a"}'],
    ids=range(14),
)  # fmt: skip
def test_garbage_is_not_recorded(world, text):
    cli = world.run("kimi-cli")
    cli.send(text)
    assert read_journals(str(world.state), "kimi-cli") == []


def test_an_input_that_never_ends_is_not_waited_for(world):
    run = subprocess.Popen(
        ["/bin/sh", "-c", hook_command("kimi-cli", str(world.data), str(world.state))],
        stdin=-1,
        stdout=-1,
        stderr=-1,
    )
    assert run.wait(timeout=10) == 0
    assert run.stdout.read() + run.stderr.read() == b""


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
    from corral.hooks import journal_file

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
    for path in (old, young, living, foreign):
        path.write_text("{}")
    month_ago = time.time() - 31 * 86_400
    for path in (old, living, foreign):
        os.utime(path, (month_ago, month_ago))
    cli.start("a")
    assert [path.exists() for path in (old, young, living, foreign)] == [False, True, True, True]


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
