"""Gives a dead writer's PID to a stranger and asks who holds the file. Run in a PID namespace of its own."""

import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, sys.argv[1])

from corral import sidecar
from corral.sidecar.liveness import judge


def start_as(pid: int) -> subprocess.Popen[bytes] | None:
    """A process with this very PID, or None when somebody else took it."""
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(pid - 1))
    child = subprocess.Popen(["sleep", "60"])
    if child.pid == pid:
        return child
    child.kill()
    child.wait()
    return None


verdicts: dict[str, int] = {}
taken_over = reuses = 0
with tempfile.TemporaryDirectory() as directory:
    while reuses < int(sys.argv[2]):
        writer = subprocess.Popen(["sleep", "60"])
        record = sidecar.write(directory, session_id="s", work_dir="/w", cli="x", version="1", process=writer.pid)
        writer.kill()
        writer.wait()
        time.sleep(0.011)  # one tick: the kernel tells processes apart no finer
        stranger = start_as(writer.pid)
        if stranger is None:
            os.unlink(f"{directory}/runtime.json")
            continue
        reuses += 1
        v1 = record._replace(boot_id=None, start_ticks=None, pid_ns=None, started_at=record.started_at - 2.5)
        for name, said in (("exact", record), ("v1", v1)):
            verdict = judge(said)
            key = f"{name} {verdict.liveness} {verdict.rule}"
            verdicts[key] = verdicts.get(key, 0) + 1
        result = sidecar.write(directory, session_id="t", work_dir="/w", cli="x", version="1", best_effort=True)
        taken_over += isinstance(result, sidecar.RuntimeRecord)
        sidecar.clear(directory)
        stranger.kill()
        stranger.wait()
print(json.dumps({"verdicts": verdicts, "taken_over": taken_over}))
