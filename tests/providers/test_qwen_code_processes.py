"""Which processes are Qwen Code's: real ones, of a stand-in that starts its levels as qwen 0.24.4 does."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.model.process import ProcessMode, Recognised
from corral.providers import qwen_code
from corral.system.processes import ProcessTable
from tests.providers.node import find_node
from tests.providers.qwen_support import install

ENTRY = """
const { spawn, spawnSync } = require('node:child_process');
const args = process.argv.slice(2), cli = __dirname + '/cli.js', env = { ...process.env };
if (args[0] === 'serve') {
  spawn(process.execPath, ['--expose-gc', cli, '--acp'], { env: { ...env, QWEN_CODE_NO_RELAUNCH: 'true' } });
  setInterval(() => {}, 1e6);
} else if (args[0] === 'mcp') { setInterval(() => {}, 1e6);
} else { spawnSync(process.execPath, ['--expose-gc', cli, ...args], { stdio: 'inherit', env }); }
"""
CLI = """
const { spawn } = require('node:child_process');
const args = process.argv.slice(2), env = { ...process.env };
if (!env.QWEN_CODE_NO_RELAUNCH && !args.includes('-p')) {
  spawn(process.execPath, [...process.execArgv, process.argv[1], ...args],
        { stdio: 'inherit', env: { ...env, QWEN_CODE_NO_RELAUNCH: 'true' } });
} else if (env.TOOL) { spawn('bash', ['-c', env.TOOL], { stdio: 'inherit', env: { ...env, TOOL: '' } }); }
setInterval(() => {}, 1e6);
"""


class Runs:
    """Starts stand-ins in one process group each, and ends them by it."""

    def __init__(self, root: Path, node: Path) -> None:
        self.root = root
        command = install(root)
        package = Path(os.path.realpath(command)).parent
        (package / "cli-entry.js").write_text("#!/usr/bin/env node\n" + ENTRY)
        (package / "cli.js").write_text(CLI)
        (root / "bin" / "node").symlink_to(node)
        self.env = {"HOME": str(root), "PATH": f"{root / 'bin'}:/usr/bin:/bin"}
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *args: str, **env: str) -> int:
        process = subprocess.Popen(
            ["qwen", *args], executable=self.root / "bin" / "qwen", env=self.env | env, cwd=self.root,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        return process.pid

    def wait(self, count: int) -> list[Recognised]:
        """Every recognised process below what was started, once there are so many."""
        tops = {process.pid for process in self.started}
        deadline = time.monotonic() + 60
        while True:
            table = ProcessTable()
            found = [
                seen
                for process in table
                if (process.pid in tops or any(above.pid in tops for above in table.ancestors(process)))
                and (seen := qwen_code.recognise(process, table))
            ]
            if len(found) >= count or time.monotonic() > deadline:
                return sorted(found, key=lambda seen: seen.identity.start_ticks)
            time.sleep(0.05)

    def stop(self) -> None:
        for process in self.started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait(60)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(Path(os.path.realpath(tmp_path)), find_node())
    try:
        yield runs
    finally:
        runs.stop()


def test_the_three_levels_of_one_run_share_its_top_and_the_youngest_serves(runs: Runs) -> None:
    top = runs.start("--model", "m")
    levels = runs.wait(3)
    assert [level.group for level in levels] == [top] * 3
    assert levels[0].identity.pid == top
    assert {level.home for level in levels} == {str(runs.root / ".qwen")}
    assert {level.version for level in levels} == {"0.24.4"}
    assert {level.work_dir for level in levels} == {str(runs.root)}
    serving = Path(f"/proc/{levels[-1].identity.pid}/environ")
    give_up = time.monotonic() + 60
    while not (told := b"QWEN_CODE_NO_RELAUNCH=true" in serving.read_bytes()) and time.monotonic() < give_up:
        time.sleep(0.01)  # between fork and exec it looks as the one that started it
    assert told


@pytest.mark.parametrize("tool", ["qwen -p inner", "true; qwen -p inner; true"])
def test_a_qwen_that_a_tool_runs_is_a_run_of_its_own(runs: Runs, tool: str) -> None:
    top = runs.start(TOOL=tool)
    found = runs.wait(5)
    outer = [seen for seen in found if seen.group == top]
    inner = [seen for seen in found if seen.group != top]
    assert (len(outer), len(inner)) == (3, 2)
    assert {seen.mode for seen in inner} == {ProcessMode.HEADLESS}
    assert {seen.group for seen in inner} == {inner[0].identity.pid}


@pytest.mark.parametrize(
    ("arguments", "levels", "mode"),
    [
        (("-p", "hello"), 2, ProcessMode.HEADLESS),
        (("--prompt=hello",), 3, ProcessMode.HEADLESS),
        (("--acp",), 3, ProcessMode.SERVER),
        (("serve", "--port", "0"), 2, ProcessMode.SERVER),
    ],
)
def test_how_a_run_was_started(runs: Runs, arguments: tuple[str, ...], levels: int, mode: ProcessMode) -> None:
    top = runs.start(*arguments)
    found = runs.wait(levels)
    assert [seen.group for seen in found] == [top] * levels
    assert {seen.mode for seen in found} == {mode}


@pytest.mark.parametrize(
    "arguments", [("mcp", "list"), ("sessions", "ps"), ("-m", "x", "extensions", "list"), ("--version",)]
)
def test_a_command_that_is_no_agent_is_not_recognised(runs: Runs, arguments: tuple[str, ...]) -> None:
    runs.start(*arguments)
    time.sleep(0.5)
    assert runs.wait(0) == []


def test_the_home_is_that_of_the_process(runs: Runs) -> None:
    runs.start("-p", "x", QWEN_HOME="~/other")
    assert {seen.home for seen in runs.wait(2)} == {str(runs.root / "other")}


def test_a_run_whose_wrapper_was_killed_is_still_one_run(runs: Runs) -> None:
    top = runs.start("-i", "x")
    levels = runs.wait(3)
    os.kill(top, signal.SIGKILL)
    runs.started[0].wait(60)
    table = ProcessTable()
    left = [
        seen
        for level in levels[1:]
        if (process := table.find(level.identity.pid)) and (seen := qwen_code.recognise(process, table))
    ]
    assert [seen.group for seen in left] == [levels[1].identity.pid] * 2


def test_another_program_called_qwen_is_not_recognised(runs: Runs) -> None:
    manifest = next(runs.root.rglob("package.json"))
    manifest.write_text('{"name": "something-else", "version": "1.0.0"}')
    runs.start("-p", "x")
    time.sleep(0.5)
    assert runs.wait(0) == []


def test_a_run_whose_package_was_removed_by_an_update_is_still_recognised(runs: Runs) -> None:
    top = runs.start("-p", "x")
    assert len(runs.wait(2)) == 2
    next(runs.root.rglob("package.json")).unlink()
    left = runs.wait(2)
    assert [(seen.group, seen.version) for seen in left] == [(top, None)] * 2


def test_this_very_process_is_not_qwen() -> None:
    table = ProcessTable()
    own = table.find(os.getpid())
    assert own is not None
    assert qwen_code.recognise(own, table) is None


def test_every_process_of_the_machine_can_be_asked() -> None:
    table = ProcessTable()
    for process in table:
        qwen_code.recognise(process, table)
