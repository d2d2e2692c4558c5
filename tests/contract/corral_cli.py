"""corral itself, run as a person runs it, in the home of the CLI under test."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.contract.homes import Home

Row = dict[str, Any]
COMMAND = (sys.executable, "-m", "corral")
WAIT_SECONDS = 60.0
"""A bound for a busy machine: what holds is seen at once."""


class Corral:
    """Every call is a process of its own: nothing is watched in between."""

    def __init__(self, home: Home, provider: str) -> None:
        self.home = home
        self.provider = provider

    def run(
        self, *words: str, cwd: Path | None = None, timeout: float = WAIT_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words],
            cwd=cwd or self.home.root,
            env=dict(self.home.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def install_hooks(self) -> None:
        done = self.run("hooks", "install", self.provider)
        assert done.returncode == 0, done.stderr

    def ps(self) -> Any:
        """The survey, less what belongs to other homes: the person who runs the tests may have agents open."""
        survey = self.json("ps", "--all", "--provider", self.provider)
        for part in ("sessions", "unattributed", "no_session_yet"):
            survey[part] = [row for row in survey[part] if self._is_mine(row["home"])]
        return survey

    def _is_mine(self, home: str | None) -> bool:
        return home is None or Path(home).is_relative_to(self.home.root)

    def rows(self) -> dict[str, Row]:
        """Every session by its id."""
        listed = self.ps()["sessions"]
        return {row["session_id"]: row for row in listed}

    def states(self) -> dict[str, str]:
        return {session_id: row["state"] for session_id, row in self.rows().items()}

    def live(self) -> dict[str, list[int]]:
        """The live sessions with the processes that serve them."""
        return {session_id: row["pids"] for session_id, row in self.rows().items() if row["state"] == "live"}

    def wait(self, predicate: Callable[[Any], bool], what: str, timeout: float = WAIT_SECONDS) -> Any:
        """Asks again until the survey shows it; the error shows the last one."""
        deadline = time.monotonic() + timeout
        while True:
            survey = self.ps()
            if predicate(survey):
                return survey
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: {json.dumps(survey, indent=1)}")
            time.sleep(0.1)

    def wait_live(self, expected: dict[str, list[int]], timeout: float = WAIT_SECONDS) -> None:
        """Waits until exactly these sessions are live, served by exactly these processes."""
        self.wait(
            lambda survey: (
                {row["session_id"]: row["pids"] for row in survey["sessions"] if row["state"] == "live"} == expected
            ),
            f"live should be {expected}",
            timeout,
        )

    def wait_ready(self, session_id: str, timeout: float = WAIT_SECONDS) -> None:
        """Waits until the end of the turn is on disk: a CLI may show an answer before it has written it down."""
        self.wait(
            lambda survey: (
                [row["activity"] for row in survey["sessions"] if row["session_id"] == session_id] == ["ready"]
            ),
            f"{session_id} should be ready",
            timeout,
        )

    def wait_resting(self, expected: dict[str, str], timeout: float = WAIT_SECONDS) -> None:
        """Not live as soon as the process is dead; settled once its launchers have gone too."""
        served = {name: row for name, row in self.rows().items() if row["state"] == "live"}
        assert served == {}, json.dumps(served, indent=1)
        self.wait(
            lambda survey: {row["session_id"]: row["state"] for row in survey["sessions"]} == expected,
            f"should be {expected}",
            timeout,
        )


def tree(root: Path, leave_out: Sequence[str] = ()) -> dict[str, bytes | str]:
    """Every file and link below a directory with its content, to compare before and after."""
    found: dict[str, bytes | str] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if any(name.startswith(prefix) for prefix in leave_out):
            continue
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
        elif path.is_dir():
            found[name] = "directory"
    return found
