"""The hook program, run for real below real processes: every order of events that was seen."""

from __future__ import annotations

import json
import time

import pytest

from corral.machine.processes import ProcessTable
from corral.model.journal import JournalEventKind

KIMIS = pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code"])
ALL = pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code", "qwen-code"])


@ALL
def test_a_start_names_the_cli_and_never_the_hook_or_its_shell(world, provider):
    cli = world.run(provider)
    before = time.time()
    cli.start("s1")
    after = time.time()
    journal = cli.journal
    process = ProcessTable().find(cli.pid)
    assert process and journal.identity == process.identity
    assert journal.home == str(cli.home)
    assert not journal.many
    (event,) = journal.events
    assert (event.event, event.session_id, event.source, event.work_dir) == (
        JournalEventKind.START, "s1", "startup", str(world.work),
    )  # fmt: skip
    assert before <= event.at <= after


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


def test_a_heartbeat_asserts_again_what_was_lost_and_adds_nothing_to_the_journal(world):
    cli = world.run("kimi-code")
    cli.start("a")
    (cli.session_dir("a") / "runtime.json").unlink()
    before = cli.journal
    cli.beat("a")
    assert (cli.holder("a"), cli.journal.events) == (cli.pid, before.events)
    assert before.heard_at is None and cli.journal.reported_at > before.reported_at


def test_a_heartbeat_of_another_session_says_that_its_start_was_not_reported(world):
    cli = world.run("kimi-code")
    cli.start("a")
    cli.session_dir("b")
    cli.beat("b")
    assert (cli.current, cli.files()) == (["b"], {"b": cli.pid})
    assert [event.reason for event in cli.journal.events if event.event == "end"] == ["replaced"]


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
