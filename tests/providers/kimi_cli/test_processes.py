"""Which running processes are kimi-cli."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from corral.machine.processes import ProcessTable
from corral.model.process import ProcessMode
from corral.providers.kimi_cli import PROVIDER as kimi_cli


class TestProcesses:
    """Real processes that look like kimi-cli from outside; the real one is met in the contract tests."""

    def start(self, running: list[subprocess.Popen[bytes]], *argv: str, **env: str) -> int:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | env)
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    def recognise(self, pid: int):
        table = ProcessTable()
        process = table.find(pid)
        assert process is not None
        return kimi_cli.recognise(process, table)

    def script(self, path: Path, body: str = "") -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import sys\n{body}\nprint('ready', flush=True)\nsys.stdin.read()\n")
        return str(path)

    def test_python_that_runs_the_kimi_script(self, tmp_path: Path, running: list[subprocess.Popen[bytes]]) -> None:
        log = tmp_path / "share" / "logs" / "kimi.log"
        log.parent.mkdir(parents=True)
        script = self.script(tmp_path / "bin" / "kimi", f"log = open({str(log)!r}, 'a')")
        pid = self.start(running, sys.executable, script, "--print")
        found = self.recognise(pid)
        assert found is not None
        assert (found.identity.pid, found.home, found.group) == (pid, str(tmp_path / "share"), pid)
        assert found.mode is ProcessMode.HEADLESS

    def test_one_without_a_terminal_may_be_a_server_unless_its_log_tells(
        self, tmp_path: Path, running: list[subprocess.Popen[bytes]]
    ) -> None:
        log = tmp_path / "share" / "logs" / "kimi.log"
        log.parent.mkdir(parents=True)
        serving = self.script(tmp_path / "bin" / "kimi", f"log = open({str(log)!r}, 'a')")
        found = self.recognise(self.start(running, sys.executable, serving))
        assert found is not None and found.never_reports and not found.without_session
        starting = self.script(tmp_path / "other" / "kimi")
        found = self.recognise(self.start(running, sys.executable, starting))
        assert found is not None and not found.never_reports and found.without_session

    def test_the_home_of_one_that_is_starting(self, tmp_path: Path, running: list[subprocess.Popen[bytes]]) -> None:
        script = self.script(tmp_path / "bin" / "kimi")
        pid = self.start(running, sys.executable, script, KIMI_SHARE_DIR="/somewhere/share")
        found = self.recognise(pid)
        assert found is not None
        assert found.home == "/somewhere/share"

    def test_what_merely_has_the_name_is_not_recognised(
        self, tmp_path: Path, running: list[subprocess.Popen[bytes]]
    ) -> None:
        other = self.script(tmp_path / "kimi-cli" / "other.py")
        assert self.recognise(self.start(running, sys.executable, other, "/usr/bin/kimi")) is None
        worker = self.script(tmp_path / "bin" / "kimi")
        assert self.recognise(self.start(running, sys.executable, worker, "__background-task-worker")) is None
        shell = shutil.which("sh")
        assert shell is not None
        titled = tmp_path / "Kimi Code"
        titled.write_text("#!/bin/sh\necho ready\nread line\n")
        titled.chmod(0o755)
        assert self.recognise(self.start(running, str(titled))) is None

    def test_no_process_of_this_machine_breaks_it(self) -> None:
        table = ProcessTable()
        for process in table:
            kimi_cli.recognise(process, table)
