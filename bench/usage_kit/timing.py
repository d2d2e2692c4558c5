"""Running a tool as a whole process: wall time, processor time, peak memory, what it printed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from usage_kit.peers import Tool

_MOST_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Run:
    wall_s: float
    cpu_s: float
    rss_mb: float
    """Of the largest of its processes."""
    output: str
    ok: bool


def run(tool: Tool, home: Path, more: tuple[str, ...] = ()) -> Run:
    """One run in a home of its own, with nothing of the caller's environment but PATH."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **dict(tool.env)}
    with tempfile.TemporaryFile("w+b") as file:
        actions = [(os.POSIX_SPAWN_DUP2, file.fileno(), 1), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        begun = time.perf_counter()
        pid = os.posix_spawn(tool.argv[0], (*tool.argv, *more), env, file_actions=actions)
        status, usage = _wait(pid, begun + _MOST_SECONDS)
        wall = time.perf_counter() - begun
        file.seek(0)
        output = file.read().decode(errors="replace")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output, status == 0)


def _wait(pid: int, deadline: float) -> tuple[int, object]:
    fd = os.pidfd_open(pid)
    import select

    if not select.select([fd], [], [], max(0.0, deadline - time.perf_counter()))[0]:
        os.kill(pid, 9)
    os.close(fd)
    _, status, usage = os.wait4(pid, 0)
    return status, usage


def forget(tool: Tool, home: Path) -> None:
    """What the tool kept of earlier runs; the page cache stays as it is, for all alike."""
    for kept in tool.keeps:
        shutil.rmtree(home / kept, ignore_errors=True)
