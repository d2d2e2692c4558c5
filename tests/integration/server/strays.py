"""An agent CLI that reports to nobody: a program that corral takes for kimi-cli, and that writes nothing at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.server.serving import Place

_PROGRAM = f"""#!{sys.executable}
import os, sys
if "--version" in sys.argv:
    print("kimi, version 1.51.0")
else:
    logs = os.path.join(os.environ.get("KIMI_SHARE_DIR") or os.path.expanduser("~/.kimi"), "logs")
    os.makedirs(logs, exist_ok=True)
    log = open(os.path.join(logs, "kimi.log"), "ab")  # without it, it could have no session yet
    print("here", flush=True)
    sys.stdin.read()
"""

_terminals: dict[int, int] = {}
"""Our ends of the terminals that strays read from, by PID."""


def write_stray(path: Path) -> Path:
    """The program. It ends when nobody holds its input any more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_PROGRAM)
    path.chmod(0o755)
    return path


def start_stray(world: Place, **more: Any) -> subprocess.Popen[str]:
    """One in a home of this world, started by nobody that corral knows; it runs when this returns.

    It reads from a terminal, as one that a person has started does: kimi-cli without one may be a server.
    """
    program = write_stray(world.root / "elsewhere" / "kimi")
    ours, its = os.openpty()
    pipes = {"stdin": its, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([str(program)], env=world.env, cwd=world.work, **pipes, **more)
    os.close(its)
    _terminals[process.pid] = ours
    assert process.stdout is not None and process.stdout.readline() == "here\n"
    return process


def end_stray(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    if (ours := _terminals.pop(process.pid, None)) is not None:
        os.close(ours)
