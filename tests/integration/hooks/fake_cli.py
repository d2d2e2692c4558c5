"""A stand-in for an agent CLI: takes its name, then runs each hook command it is told to, as the CLIs do."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time

PR_SET_NAME = 15


def main() -> None:
    name, command, many = sys.argv[1], sys.argv[2], sys.argv[3] == "many"
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    requests = os.fdopen(os.dup(0), "r")
    null = os.open(os.devnull, os.O_RDONLY) if many else os.posix_openpt(os.O_RDWR | os.O_NOCTTY)
    os.dup2(null if many else os.open(os.ptsname(null), os.O_RDWR | os.O_NOCTTY), 0)
    for line in requests:
        request = json.loads(line)
        os.chdir(request["cwd"])
        runs = [
            subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=-1,
                stdout=-1,
                stderr=-1,
                env=request["env"],
                start_new_session=True,
            )
            for _ in request["payloads"]
        ]
        for run, payload in zip(runs, request["payloads"], strict=True):
            run.stdin.write(payload.encode("utf-8", "surrogateescape"))
            run.stdin.close()
            if request.get("kill_after"):
                time.sleep(request["kill_after"])
                os.killpg(run.pid, signal.SIGKILL)
        results = [[run.wait(), (run.stdout.read() + run.stderr.read()).decode()] for run in runs]
        print(json.dumps(results), flush=True)


if not hasattr(os, "ptsname"):  # Python < 3.13

    def _ptsname(fd: int) -> str:
        libc = ctypes.CDLL(None)
        libc.ptsname.restype = ctypes.c_char_p
        libc.grantpt(fd)
        libc.unlockpt(fd)
        return libc.ptsname(fd).decode()

    os.posix_openpt = lambda flags: os.open("/dev/ptmx", flags)
    os.ptsname = _ptsname


main()
