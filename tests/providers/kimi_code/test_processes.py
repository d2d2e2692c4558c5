"""Which running processes are kimi-code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from corral.machine.processes import ProcessTable
from corral.providers.kimi_code import PROVIDER as kimi_code
from tests.providers.kimi_support import install_npm
from tests.providers.node import find_node


class TestProcesses:
    """Real node processes that look like kimi-code; the real one is met in the contract tests."""

    def start(self, running: list[subprocess.Popen[bytes]], script: Path, body: str, *words: str) -> int:
        node = str(find_node())
        script.write_text(f"{body}\nconsole.log('ready'); setInterval(() => {{}}, 1000)\n")
        env = {"PATH": os.environ["PATH"], "HOME": "/somewhere", "KIMI_CODE_HOME": "/somewhere/else"}
        process = subprocess.Popen([node, str(script), *words], stdout=subprocess.PIPE, env=env)
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    def recognise(self, pid: int):
        table = ProcessTable()
        process = table.find(pid)
        assert process is not None
        return kimi_code.recognise(process, table)

    def test_before_and_after_the_title(self, tmp_path: Path, running: list[subprocess.Popen[bytes]]) -> None:
        link = install_npm(tmp_path, "@moonshot-ai/kimi-code", "2.1.0")
        pid = self.start(running, link, "", "-p", "hello")
        found = self.recognise(pid)
        assert found is not None
        assert (found.home, found.version, found.mode) == ("/somewhere/else", "2.1.0", "headless")
        pid = self.start(running, link, "process.title = 'kimi-code'")
        found = self.recognise(pid)
        assert found is not None
        assert (found.home, found.group, found.identity.pid) == ("/somewhere/else", pid, pid)

    def test_other_node_programs_are_not_it(self, tmp_path: Path, running: list[subprocess.Popen[bytes]]) -> None:
        link = install_npm(tmp_path, "@someone/kimi", "2.1.0")
        assert self.recognise(self.start(running, link, "")) is None
        assert self.recognise(self.start(running, link, "process.title = 'kimi-code-worker'")) is None
        real = install_npm(tmp_path / "b", "@moonshot-ai/kimi-code", "2.1.0").resolve()
        assert self.recognise(self.start(running, real.with_name("search-worker.mjs"), "")) is None
