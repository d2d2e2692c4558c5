"""Which processes are Qwen Code's: real ones, of a stand-in that starts its levels as qwen 0.24.4 does."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.machine.processes import ProcessTable
from corral.model.process import ProcessMode, Recognised
from corral.providers.qwen_code import PROVIDER as qwen_code
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


A, B = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"


def tool_of(session_id: str, mark: str = "QWEN_CODE=1") -> str:
    return f"exec env {mark} QWEN_CODE_SESSION_ID={session_id} sleep 300"


def wait_told(runs: Runs, levels: int, session_id: str | None) -> list[str | None]:
    """What each level of the run told a child, once a sleeping child is there and the last one says so."""
    give_up = time.monotonic() + 60
    while True:
        found = runs.wait(levels)
        tools = [one for run in runs.started for one in ProcessTable().descendants(run.pid) if one.comm == "sleep"]
        told = [seen.told.session_id if seen.told else None for seen in found]
        if (tools and told[-1] == session_id) or time.monotonic() > give_up:
            return told
        time.sleep(0.05)


def test_a_run_for_one_prompt_has_the_session_that_it_tells_its_tools(runs: Runs) -> None:
    runs.start("-p", "x", TOOL=tool_of(A))
    assert wait_told(runs, 2, A) == [None, A]
    serving = runs.wait(2)[-1]
    assert serving.told is not None and serving.told.parent_pid == serving.identity.pid


@pytest.mark.parametrize(
    ("arguments", "levels"),
    [(("-i", "x"), 3), (("--acp",), 3), (("-p", "x", "--input-format", "stream-json"), 2)],
)
def test_one_that_may_go_on_to_another_session_proves_nothing_by_that(
    runs: Runs, arguments: tuple[str, ...], levels: int
) -> None:
    runs.start(*arguments, TOOL=tool_of(A))
    assert set(wait_told(runs, levels, None)) == {None}


@pytest.mark.parametrize(
    "tool",
    [
        tool_of(A),  # what it has itself from the session around it, it may have passed on
        tool_of(B, mark="OTHER=1"),
        tool_of("not-an-id"),
        f"{tool_of(B)} & {tool_of(B)} & wait",  # not its own children
    ],
)
def test_what_is_not_surely_its_own_word_is_not_taken_for_it(runs: Runs, tool: str) -> None:
    runs.start("-p", "x", TOOL=tool, QWEN_CODE_SESSION_ID=A)
    assert set(wait_told(runs, 2, None)) == {None}


def test_inside_another_session_it_has_its_own(runs: Runs) -> None:
    runs.start("-p", "x", TOOL=tool_of(B), QWEN_CODE="1", QWEN_CODE_SESSION_ID=A)
    assert wait_told(runs, 2, B) == [None, B]


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
