"""Which processes are Claude Code's: real ones, of a stand-in that is installed as claude 2.1.325 is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral.machine.processes import ProcessTable
from corral.model.process import ProcessMode
from corral.providers.claude_code import PROVIDER as claude_code
from corral.providers.claude_code.processes import CLI
from tests.providers.claude_support import Place, Runs, recognise
from tests.providers.node import find_node

HEADLESS, INTERACTIVE, CLIENT = ProcessMode.HEADLESS, ProcessMode.INTERACTIVE, ProcessMode.CLIENT


def test_a_process_of_its_npm_package_is_claude(claude: Place, claude_runs: Runs) -> None:
    pid = claude_runs.start("hello")
    seen = recognise(pid)
    assert seen is not None
    assert (seen.group, seen.version, seen.home) == (pid, "2.1.325", str(claude.root))
    assert seen.work_dir == str(claude_runs.root)


@pytest.mark.parametrize(
    ("words", "mode"),
    [(("-p", "hello"), HEADLESS), (("hello",), HEADLESS), (("attach", "a1b2"), CLIENT)],
)
def test_how_it_was_started(claude_runs: Runs, words: tuple[str, ...], mode: ProcessMode) -> None:
    """Here nothing has a terminal, so that one which is told nothing prints, too."""
    seen = recognise(claude_runs.start(*words))
    assert seen is not None and seen.mode is mode


def test_on_a_terminal_it_is_interactive(claude_runs: Runs) -> None:
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        (claude_runs.root / "hello").write_text("read line\n")
        os.chdir(claude_runs.root)
        os.execve(claude_runs.command, ["claude", "hello"], claude_runs.env)
    try:
        deadline = time.monotonic() + 60
        while (seen := recognise(pid)) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert seen is not None and seen.mode is INTERACTIVE and seen.terminal
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


@pytest.mark.parametrize("words", [("daemon", "run"), ("mcp", "list"), ("doctor",), ("agents",), ("stop", "a1b2")])
def test_a_command_that_is_no_agent_is_not_recognised(claude_runs: Runs, words: tuple[str, ...]) -> None:
    assert recognise(claude_runs.start(*words)) is None


@pytest.mark.parametrize(
    ("words", "decided"),
    [
        (("--bg", "hello"), None),
        (("--bg-pty-host", "/s", "200", "50", "--", "/claude.exe", "--bg-spare", "/c"), None),
        (("--bg-spare", "/c"), ProcessMode.UNKNOWN),
        (("--model", "doctor", "hello"), ProcessMode.UNKNOWN),
        (("-p", "doctor"), HEADLESS),
        (("--version",), None),
        ((), ProcessMode.UNKNOWN),
    ],
)
def test_the_words_that_tell(words: tuple[str, ...], decided: ProcessMode | None) -> None:
    assert CLI.modes.decide(words) is decided


def test_a_program_of_the_own_installer_says_its_version_by_its_name(tmp_path: Path, claude_runs: Runs) -> None:
    place = tmp_path / "share" / "claude" / "versions"
    place.mkdir(parents=True)
    shutil.copy("/bin/sh", place / "2.1.400")
    (tmp_path / "claude").symlink_to(place / "2.1.400")
    seen = recognise(claude_runs.start("hello", program=tmp_path / "claude"))
    assert seen is not None and (seen.version, seen.mode) == ("2.1.400", HEADLESS)


def test_of_an_older_or_unknown_version_nothing_is_taken_for_granted(tmp_path: Path, claude_runs: Runs) -> None:
    shutil.copy("/bin/sh", tmp_path / "claude")
    seen = recognise(claude_runs.start("hello", program=tmp_path / "claude"))
    assert seen is not None and (seen.version, seen.mode) == (None, ProcessMode.UNKNOWN)


def test_a_search_tool_of_the_same_file_is_none(claude_runs: Runs) -> None:
    assert recognise(claude_runs.start("hello", name="rg")) is None


def test_another_program_of_that_name_is_none(tmp_path: Path) -> None:
    script = "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'claude', 0, 0, 0); print(flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1)
    try:
        assert process.stdout and process.stdout.readline() == b"\n"
        assert recognise(process.pid) is None
    finally:
        process.kill()
        process.communicate()


def test_the_wrapper_and_its_child_are_one_run(claude_runs: Runs) -> None:
    package = Path(os.path.realpath(claude_runs.command)).parents[1]
    start = f"spawn({json.dumps(str(claude_runs.command))}, process.argv.slice(2), {{ stdio: 'inherit' }})"
    (package / "cli-wrapper.cjs").write_text(f"const {{ spawn }} = require('node:child_process');\n{start};\n")
    (claude_runs.root / "hello").write_text("read line\n")
    wrapper = claude_runs.start(str(package / "cli-wrapper.cjs"), "hello", name="node", program=find_node())
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        table = ProcessTable()
        seen = [one for process in table if (one := claude_code.recognise(process, table)) and one.group == wrapper]
        if len(seen) == 2:
            break
        time.sleep(0.05)
    assert {one.identity.pid for one in seen} > {wrapper}
