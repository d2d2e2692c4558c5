"""A process that serves sessions as the reference agent does, and then does what it is told, line by line.

Each line is Python; the answer is its value as JSON. With --do, one line is carried out before.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

from corral import sidecar
from corral.demo.conversation import Home, Session

IDLE = "import signal; signal.alarm(300); signal.pause()"
"""It ends by itself should a test be killed."""


def serve(*session_ids: str) -> None:
    home = Home(Path(os.environ["HOME"], ".kimi"), os.getcwd())
    home.prepare()
    for session_id in session_ids:
        session = Session(home, session_id).create()
        sidecar.write(
            session.path,
            session_id=session_id,
            work_dir=home.work_dir,
            cli="kimi-cli",
            version="1.51.0",
            provider="kimi-cli",
        )


def start(*words: str) -> int:
    """A child that only waits."""
    return subprocess.Popen(words or (sys.executable, "-c", IDLE), stdin=-3, stdout=-3, stderr=-3).pid


def nest(session_id: str) -> int:
    """Another agent as a child, with a child of its own; returns the PIDs of both."""
    inner = subprocess.Popen(
        [sys.executable, __file__, "--session", session_id, "--do", "start()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert inner.stdout is not None
    return [inner.pid, json.loads(inner.stdout.readline())]


def leave(*, new_session: bool = False) -> int:
    """A grandchild whose parent is gone."""
    told, tell = os.pipe()
    if (child := os.fork()) == 0:
        if new_session:
            os.setsid()
        os.write(tell, str(start()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(told, 20))


def burn(seconds: float) -> dict[str, float]:
    """A child that uses that much CPU, waited for; returns what the kernel then says of us."""
    code = f"import time\nwhile time.process_time() < {seconds}: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    return rusage()


def rusage() -> dict[str, float]:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"own": own.ru_utime + own.ru_stime, "children": children.ru_utime + children.ru_stime}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--session", action="append")
    parser.add_argument("--do")
    args, _ = parser.parse_known_args()
    serve(*args.session)
    print(json.dumps(eval(args.do) if args.do else None), flush=True)
    for line in sys.stdin:
        print(json.dumps(eval(line)), flush=True)


if __name__ == "__main__":
    signal.alarm(300)
    main()
