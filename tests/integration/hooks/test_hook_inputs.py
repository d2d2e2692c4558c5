"""What the hook program makes of its surroundings and its input: whose hook it is, which session is meant, what is garbage."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from pathlib import Path

import pytest

from corral.hooks.command import hook_command, place_program, program_path
from corral.hooks.journal import read_journals
from corral.model.journal import JournalEventKind

KIMIS = pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code"])
ALL = pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code", "qwen-code"])


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
    place_program(str(world.data), str(world.root / "records"))  # with its own patience
    run = subprocess.Popen(
        ["/bin/sh", "-c", hook_command("kimi-cli", str(world.data), str(world.state))],
        stdin=-1,
        stdout=-1,
        stderr=-1,
    )
    assert run.wait(timeout=60) == 0
    assert run.stdout.read() + run.stderr.read() == b""
