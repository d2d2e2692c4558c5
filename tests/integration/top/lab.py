"""Agents that do as they are told, in a home of a test's own; whatever they left behind is ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corral.model.process import ProcessIdentity
from corral.sidecar.processes import read_identity
from tests.integration.terminals.held import kill
from tests.integration.terminals.world import World

AGENT = Path(__file__).with_name("agent.py")
SUBREAPER = """
import ctypes, subprocess, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
sys.exit(subprocess.run(sys.argv[1:], start_new_session=True).returncode)
"""


class Agent:
    """One of them."""

    def __init__(self, lab: Lab, process: subprocess.Popen[str]) -> None:
        self._lab = lab
        self.process = process
        self.pid = process.pid

    def ask(self, line: str) -> Any:
        """Let it do something; processes that the answer names are ended with the test."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def left(self, line: str) -> int:
        """The same, for what starts a process."""
        pid = self.ask(line)
        self._lab.remember(pid)
        return pid


class Lab:
    """Starts agents and looks at them with corral."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._agents: list[subprocess.Popen[str]] = []
        self._left: list[ProcessIdentity] = []

    def start(self, *sessions: str, around: Sequence[str] = (), **env: str) -> Agent:
        """One agent that leads a kernel session of its own, unless `around` names a program that starts it."""
        words = [word for session in sessions for word in ("--session", session)]
        process = subprocess.Popen(
            [*around, sys.executable, str(AGENT), *words],
            env={**self.world.env, **env},
            cwd=self.world.work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._agents.append(process)
        assert process.stdout is not None and process.stdout.readline() == "null\n"
        agent = Agent(self, process)
        if around:
            agent.pid = self.remember(agent.ask("os.getpid()")).pid
        return agent

    def remember(self, pid: int) -> ProcessIdentity:
        identity = read_identity(pid)
        assert identity is not None
        self._left.append(identity)
        return identity

    def top(self) -> Any:
        """One look; the sessions by their ids, with what they use. Other agents of the machine are left out."""
        look = self.world.json("top")
        look["sessions"] = {one["session_id"]: one["uses"] for one in look["sessions"] if self._is_here(one)}
        look["shared"] = [one for one in look["shared"] if any(map(self._is_here, one["sessions"]))]
        look["unattributed"] = [one for one in look["unattributed"] if any(map(self._is_here, one["maybe"]))]
        return look

    def _is_here(self, key: Any) -> bool:
        return key["home"].startswith(str(self.world.root))

    def pids(self, look: Any) -> dict[str, set[int]]:
        return {session: set(uses["pids"]) for session, uses in look["sessions"].items()}

    def end(self) -> None:
        for identity in self._left:
            kill(identity)
        for process in self._agents:
            for descendant in _descendants(process.pid):
                kill(descendant)
            process.kill()
            process.communicate(timeout=60)


def _descendants(pid: int) -> list[ProcessIdentity]:
    found: list[ProcessIdentity] = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                parent = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid and (identity := read_identity(int(name))) is not None:
                found += [*_descendants(int(name)), identity]
    return found
