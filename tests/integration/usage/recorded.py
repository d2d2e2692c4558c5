"""A HOME with what the real CLIs recorded: a session with a sub-agent, forks, a monthly file, of each provider."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parents[2] / "providers" / "fixtures"
QWEN_SCOPE = "-home-dev-projects-app"


class Recorded:
    """The home, and corral run in it as a process of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(FIXTURES / "kimi-cli-usage", root / ".kimi")
        shutil.copytree(FIXTURES / "kimi-code-usage", root / ".kimi-code")
        shutil.copytree(FIXTURES / "qwen-code" / "home", root / ".qwen")
        self.qwen_chats = root / ".qwen" / "projects" / QWEN_SCOPE / "chats"
        for transcript in (FIXTURES / "qwen-code").glob("usage-*.jsonl"):
            shutil.copy(transcript, self.qwen_chats / transcript.name.removeprefix("usage-"))
        (root / ".qwen" / "usage").mkdir()
        shutil.copy(FIXTURES / "qwen-code" / "token-usage-2026-11.jsonl", root / ".qwen" / "usage")

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Never a failure by itself: the exit code is for the test to judge."""
        env = {"HOME": str(self.root), "PATH": "/usr/bin:/bin", "TZ": "UTC", **variables}
        command = [sys.executable, "-m", "corral", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    def ask(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
