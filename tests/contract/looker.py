"""What `corral ps` asks, by a process that is ready before the moment comes: a command would start too late for it.

Each line on stdin is a question: the answer is one line, the state of every session below $HOME.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from types import TracebackType

from corral.model.selection import Selection
from corral.providers.registry import find_provider
from corral.sessions.survey import take_survey
from tests.contract.corral_cli import WAIT_SECONDS
from tests.contract.homes import Home

States = dict[str, str]


class Looker:
    """Looks at one CLI's sessions in its home. Use as a context manager."""

    def __init__(self, home: Home, provider: str) -> None:
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.looker", provider],
            env={**home.env, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.look()

    def __enter__(self) -> Looker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=WAIT_SECONDS)

    def look(self) -> States:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the survey failed with code {self._process.wait(WAIT_SECONDS)}"
        return json.loads(answer)

    def wait(self, predicate: Callable[[States], bool], what: str) -> States:
        """Looks again until it is so; the error shows the last look."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not predicate(states := self.look()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: {states}")
            time.sleep(0.05)
        return states


def main() -> None:
    providers = [find_provider(sys.argv[1])]
    place = os.environ["HOME"] + "/"
    for _ in sys.stdin:
        sessions = take_survey(Selection(), providers).sessions
        states = {one.session_id: str(one.state) for one in sessions if one.key.home.startswith(place)}
        print(json.dumps(states), flush=True)


if __name__ == "__main__":
    main()
