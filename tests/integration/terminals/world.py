"""A HOME of a test's own in which the reference agent is installed as an agent CLI, and corral on real terminals."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corral.demo.place import agent_program
from corral.model.process import ProcessIdentity
from corral.sidecar.processes import read_identity
from corral.terminals.directory import list_terminals
from tests.contract.terminal import Terminal
from tests.integration.terminals.held import kill, wait_until


class World:
    """Where corral runs as a person would run it. At the end nothing of it runs any more."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.work.mkdir()
        self.program = root / "kimi"
        self.program.write_text(agent_program())
        self.program.chmod(0o755)
        config = root / ".config" / "corral" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f'[programs]\nkimi-cli = "{self.program}"\n')
        self.config = config
        self.state = root / ".local" / "state" / "corral"
        self.env = {"HOME": str(root), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.env["TMUX_TMPDIR"] = str(root / "t")
        self._stack = contextlib.ExitStack()

    def corral(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "corral", *words],
            env={**self.env, **env},
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def json(self, *words: str, **env: str) -> Any:
        done = self.corral(*words, "--json", **env)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def on_terminal(self, *words: str, columns: int = 100, lines: int = 30, **env: str) -> Terminal:
        """corral on a terminal of its own, as in a window."""
        return self.program_on_terminal([sys.executable, "-m", "corral", *words], columns, lines, **env)

    def program_on_terminal(self, argv: Sequence[str], columns: int = 100, lines: int = 30, **env: str) -> Terminal:
        terminal = Terminal(argv, cwd=self.work, env={**self.env, **env}, columns=columns, lines=lines)
        return self._stack.enter_context(terminal)

    def run_detached(self, *words: str, **env: str) -> str:
        """The tab of a reference agent that was started in the background and said hello."""
        done = self.corral("run", "kimi-cli", "--detach", "--yes", "--no-hooks", *words, **env)
        assert done.returncode == 0, done
        tab = done.stdout.strip()
        wait_until(lambda: self.tab(tab)["session"], "the agent's first word")
        return tab

    def tab(self, name: str) -> Any:
        return next(one for one in self.json("terminals")["terminals"] if one["tab"] == name)

    def sessions(self) -> dict[str, Any]:
        found = self.json("ps", "--all", "--provider", "kimi-cli")["sessions"]
        return {one["session_id"]: one for one in found if one["home"].startswith(str(self.root))}

    def identity(self, pid: int) -> ProcessIdentity:
        found = read_identity(pid)
        assert found is not None
        return found

    def end(self) -> None:
        self._stack.close()
        keeper = self.state / "server" / "keeper.json"
        if keeper.exists():
            kill(ProcessIdentity(*json.loads(keeper.read_text())["process"]))
        for terminal in list_terminals(str(self.state / "terminals")):
            for identity in (terminal.child, terminal.holder):
                if identity is not None:
                    kill(identity)


def start_agent(world: World, session: str = "in-a-window") -> Terminal:
    """The reference agent in a window of the person's own."""
    words = [str(world.program), "-w", str(world.work), "--session", session]
    window = world.program_on_terminal(words)
    window.wait_screen("session ")
    return window
