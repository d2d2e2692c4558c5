"""The log that a process keeps open, read as kimi-cli 1.51 writes it, from real processes that do the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral.machine.processes import Process, ProcessTable
from corral.model.process import OwnLog
from corral.providers.kimi_cli.own_log import find_log, home_of, read_own_log

# Opens the log to append, and writes what it is told. Its stderr leads into a pipe of its own once it has a session.
WRITER = """
import os, sys
log = open(sys.argv[1], "a")
if sys.argv[2] == "session":
    read, write = os.pipe()
    os.dup2(write, 2)
print("ready", flush=True)
for line in sys.stdin:
    log.write(eval(line))
    log.flush()
    print("ready", flush=True)
"""


class Writer:
    """A process that has a log open, as kimi-cli has."""

    def __init__(self, running: list[subprocess.Popen[bytes]], log: Path, state: str = "session") -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(log), state], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        running.append(self.process)
        self._wait()

    def _wait(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(repr(text).encode() + b"\n")
        self.process.stdin.flush()
        self._wait()

    def seen(self) -> Process:
        process = ProcessTable().find(self.process.pid)
        assert process is not None
        return process

    def log(self) -> OwnLog:
        process = self.seen()
        found = find_log(process)
        assert found is not None
        return read_own_log(process, found)


def line(message: str, *, ago: float = 0.0, where: str = "kimi_cli.cli:_run:571") -> str:
    at = time.time() - ago
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    return f"{stamp}.{int(at % 1 * 1000):03d} | INFO     | {where} |  - {message}\n"


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """At six in the morning every process begins a new log."""
    monkeypatch.setenv("TZ", f"NOON{time.gmtime().tm_hour - 12:+d}")
    time.tzset()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "share" / "logs" / "kimi.log"


Running = list[subprocess.Popen[bytes]]


class TestHome:
    def test_it_is_found_after_the_log_was_renamed_or_deleted(self, log: Path, running: Running) -> None:
        writer = Writer(running, log)
        for change in (
            lambda: None,
            lambda: log.rename(log.with_name("kimi.2026-11-16_06-00-00.log")),
            self.unlink(log),
        ):
            change()
            found = find_log(writer.seen())
            assert found is not None and home_of(found) == str(log.parent.parent)

    def unlink(self, log: Path):
        return lambda: [path.unlink() for path in log.parent.iterdir()]

    def test_its_output_in_a_directory_of_that_name_is_no_log(self, tmp_path: Path, running: Running) -> None:
        writer = Writer(running, tmp_path / "logs" / "output.txt")
        assert find_log(writer.seen()) is None
        (tmp_path / "kimi.json").write_text("{}")
        assert find_log(writer.seen()) is not None


class TestWhole:
    @pytest.mark.parametrize(
        "said", ["Created new session: a", "Resuming session: a", "Continuing previous session: a"]
    )
    def test_its_own_line_names_its_session(self, log: Path, running: Running, said: str) -> None:
        writer = Writer(running, log)
        writer.write(line(said))
        writer.write(line("Thinking mode: False", where="kimi_cli.app:create:253"))
        found = writer.log()
        assert (found.session_ids, found.whole, found.reason) == (("a",), True, None)
        assert found.openings[0].is_new == said.startswith("Created")
        assert abs(found.openings[0].at - time.time()) < 60

    def test_what_was_written_before_it_began_or_after_its_last_line_is_not_its_own(
        self, log: Path, running: Running
    ) -> None:
        log.parent.mkdir(parents=True)
        log.write_text(line("Resuming session: before", ago=3600))
        writer, other = Writer(running, log), Writer(running, log)
        writer.write(line("Resuming session: a"))
        other.write(line("Resuming session: after"))
        assert (writer.log().session_ids, writer.log().whole) == (("a",), True)
        assert (other.log().session_ids, other.log().whole) == (("a", "after"), True)

    def test_it_is_read_after_it_was_rotated_away(self, log: Path, running: Running) -> None:
        writer = Writer(running, log)
        writer.write(line("Resuming session: a"))
        log.rename(log.with_name("kimi.2026-11-16_06-00-00_000000.log"))
        log.write_text(line("Resuming session: b"))
        assert (writer.log().session_ids, writer.log().whole) == (("a",), True)
        (log.parent / "kimi.2026-11-16_06-00-00_000000.log").unlink()
        assert (writer.log().session_ids, writer.log().whole) == (("a",), True)

    def test_a_line_on_the_remains_of_another_is_found(self, log: Path, running: Running) -> None:
        writer = Writer(running, log)
        writer.write(line("Loaded config", where="kimi_cli.app:create:204")[:-5] + line("Resuming session: a"))
        assert (writer.log().session_ids, writer.log().whole) == (("a",), True)

    def test_a_forged_line_adds_a_session_and_hides_none(self, log: Path, running: Running) -> None:
        writer = Writer(running, log)
        writer.write(line("Resuming session: a"))
        old = line("Resuming session: b", ago=10**8)
        prompt = f"Running agent with command: see\n{old}{line('Resuming session: b')}{old}"
        writer.write(line(prompt, where="kimi_cli.ui.print:run:89"))
        writer.write(line("LLM step completed", where="kimi_cli.soul.kimisoul:_step:1256"))
        assert writer.log().session_ids == ("a", "b")


class TestGaps:
    def test_without_a_session_the_lines_of_others_are_not_taken_for_its_own(self, log: Path, running: Running) -> None:
        other = Writer(running, log)
        other.write(line("Resuming session: a"))
        waiting = Writer(running, log, "list")
        assert (waiting.log().openings, waiting.log().whole, waiting.log().has_begun) == ((), False, False)

    def gap(self, writer: Writer) -> str:
        found = writer.log()
        assert not found.whole and found.reason
        return found.reason

    def test_a_server(self, log: Path, running: Running) -> None:
        writer = Writer(running, log)
        writer.write(line("Starting ACP server on stdio", where="kimi_cli.acp:acp_main:12"))
        Writer(running, log).write(line("Resuming session: a"))
        writer.write(line("ACP client connected", where="kimi_cli.acp.server:on_connect:39"))
        assert "server" in self.gap(writer)
        assert writer.log().beside_server and writer.log().has_begun

    def test_a_server_that_began_long_after_it_is_another(self, log: Path, running: Running) -> None:
        writer = Writer(running, log)
        writer.write(line("Resuming session: a"))
        writer.write(line("Starting ACP server on stdio", ago=-300, where="kimi_cli.acp:acp_main:12"))
        assert not writer.log().beside_server

    def test_no_line_near_its_start(self, log: Path, running: Running) -> None:
        writer = Writer(running, log)
        writer.write(line("Thinking mode: False", where="kimi_cli.app:create:253"))
        assert "near its start" in self.gap(writer)

    def test_another_time_zone(self, log: Path, running: Running) -> None:
        writer = Writer(running, log)
        writer.write(line("Resuming session: a", ago=-3600))
        assert "time zone" in self.gap(writer)

    def test_an_emptied_log(self, log: Path, running: Running) -> None:
        writer = Writer(running, log)
        writer.write(line("Resuming session: a"))
        os.truncate(log, 0)
        assert "cut off" in self.gap(writer)

    def test_past_six_in_the_morning(self, log: Path, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        writer = Writer(running, log)
        now = time.gmtime(time.time() + 1)
        # It is 06:00:00 here in a moment: the process began before.
        ahead = (6 * 3600 - (now.tm_hour * 3600 + now.tm_min * 60 + now.tm_sec)) % 86400
        monkeypatch.setenv("TZ", f"<SIX>-{ahead // 3600}:{ahead % 3600 // 60:02d}:{ahead % 60:02d}")
        time.tzset()
        time.sleep(1.5)
        writer.write(line("Resuming session: a"))
        assert "new log" in self.gap(writer)

    @pytest.mark.parametrize("session_id", ["a\nb", "../a", "a b", ""])
    def test_an_id_that_is_none(self, log: Path, running: Running, session_id: str) -> None:
        writer = Writer(running, log)
        writer.write(line(f"Resuming session: {session_id}"))
        writer.write(line("Thinking mode: False", where="kimi_cli.app:create:253"))
        assert "can't be read" in self.gap(writer)

    def test_two_lines_in_one(self, log: Path, running: Running) -> None:
        writer = Writer(running, log)
        writer.write(line("Resuming session: a")[:-1] + line("Resuming session: b"))
        writer.write("| kimi_cli.cli:_run:1 | - x | kimi_cli.acp:acp_main:1 | " + line("Resuming session: c"))
        assert not writer.log().whole
