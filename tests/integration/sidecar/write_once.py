"""A CLI that reports one session at best effort and prints what came of it. Run by the fault tests."""

import os
import sys

sys.path.insert(0, sys.argv[1])

from corral import sidecar
from corral.sidecar import processes  # noqa: F401 - so that no import falls between the marks


def mark(name: str) -> None:
    """A system call that a trace shows by this name."""
    try:
        os.stat(f"/mark-{name}")
    except OSError:
        pass


import fcntl  # noqa: E402, F401

mark("begin")
result = sidecar.write(
    sys.argv[2],
    session_id="new",
    work_dir="/w",
    cli="kimi-cli",
    version="1",
    provider="kimi-cli",
    best_effort=True,
)
mark("end")
print(result.code if isinstance(result, sidecar.Refusal) else "ok")
