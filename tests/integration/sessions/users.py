"""Several users on one machine, with a home that they may share: corral and look-alikes of an agent as any of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.integration.sessions.test_survey import FIXTURES, LOOK_ALIKE, TITLE

REPOSITORY = Path(__file__).resolve().parents[3]
OWNER, COLLEAGUE, STRANGER, GROUP = 64001, 64002, 64003, 64010


class Users:
    """Namespaces of their own, where nobody else's agents are, and this Python and corral can be read by everybody."""

    def __init__(self) -> None:
        self.root = Path(os.path.realpath(tempfile.mkdtemp(prefix="corral-")))
        self.root.chmod(0o755)
        self._running: list[subprocess.Popen[bytes]] = []
        site = next(path for path in sys.path if path.endswith("site-packages"))
        places = {"py": sys.base_prefix, "src": str(REPOSITORY / "src"), "site": site}
        for name in places:
            (self.root / name).mkdir()
        mounts = "; ".join(f"mount --bind '{path}' '{self.root}/{name}'" for name, path in places.items())
        apart = ["unshare", "-m", "-p", "-f", "--mount-proc", "--kill-child"]
        self._keeper = subprocess.Popen(
            [*apart, "sh", "-ec", f"{mounts}; echo up; exec sleep 3600"], stdout=subprocess.PIPE
        )
        assert self._keeper.stdout is not None and self._keeper.stdout.readline() == b"up\n"
        (self._init,) = _children(self._keeper.pid)
        program = self.root / "look-alike.c"
        program.write_text(LOOK_ALIKE)
        subprocess.run(["cc", "-o", self.root / "look-alike", program], check=True)
        self.home = self.root / "home"
        self.work = self.root / "work"
        self.work.mkdir()
        self.data = self.home / ".kimi-code"
        shutil.copytree(FIXTURES, self.data)
        self.give(self.home, OWNER, GROUP)

    def give(self, path: Path, uid: int, gid: int, mode: int = 0) -> None:
        """Hands a whole tree over, with more rights for its group if asked for."""
        for one in (path, *path.rglob("*")):
            os.chown(one, uid, gid, follow_symlinks=False)
            if mode and not one.is_symlink():
                one.chmod(one.stat().st_mode | mode)

    def _as(self, uid: int, words: Sequence[str], unshared: Sequence[str] = ()) -> list[str]:
        entered = ["nsenter", "-t", str(self._init), "-m", "-p", *unshared]
        who = ["setpriv", f"--reuid={uid}", f"--regid={GROUP}", "--clear-groups"] if uid else []
        return [*entered, *who, *words]

    def start(self, uid: int, *unshared: str, home: Path | None = None) -> int:
        """A process with exactly the name and command line that kimi-code gives itself; its PID as corral sees it."""
        ready = self.root / f"ready-{len(self._running)}"
        inner = f'echo $$ > "{ready}"; exec -a {TITLE} "{self.root}/look-alike" > /dev/null'
        self.root.chmod(0o1777)
        process = subprocess.Popen(
            self._as(uid, ["bash", "-c", inner], unshared),
            env={"HOME": str(home or self.home), "PATH": "/usr/bin:/bin"},
            cwd=self.work,
        )
        self._running.append(process)
        deadline = time.monotonic() + 60
        while not (found := self._find(process.pid)):
            if time.monotonic() > deadline:
                raise TimeoutError("the look-alike did not start")
            time.sleep(0.02)
        lines = Path(f"/proc/{found}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("NSpid:")).split()[2])

    def _find(self, pid: int) -> int | None:
        """The look-alike below a process of ours."""
        waiting = [pid]
        while waiting:
            one = waiting.pop()
            try:
                if Path(f"/proc/{one}/comm").read_text() == f"{TITLE}\n":
                    return one
                waiting += _children(one)
            except OSError:
                continue
        return None

    def corral(self, uid: int, *words: str) -> subprocess.CompletedProcess[str]:
        python = self.root / "py" / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        return subprocess.run(
            self._as(uid, [str(python), "-m", "corral", *words]),
            env={
                "HOME": str(self.home),
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": f"{self.root}/src:{self.root}/site",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def ps(self, uid: int = OWNER) -> Any:
        done = self.corral(uid, "ps", "--all", "--json", "--provider", "kimi-code")
        assert done.returncode == 0, done.stderr
        survey = json.loads(done.stdout)
        survey["sessions"] = [row for row in survey["sessions"] if row["home"] == str(self.data)]
        return survey

    def states(self, uid: int = OWNER) -> set[str]:
        return {row["state"] for row in self.ps(uid)["sessions"]}

    def end(self) -> None:
        for process in self._running:
            found = self._find(process.pid)
            if found is not None:
                os.kill(found, 9)
            process.kill()
            process.wait()
        self._keeper.kill()
        self._keeper.wait()
        shutil.rmtree(self.root, ignore_errors=True)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
