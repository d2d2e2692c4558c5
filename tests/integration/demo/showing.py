"""A running `corral demo` of a person whose home is watched, and everything that belongs to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from corral.demo.place import Place
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import read_identity
from corral.terminals.directory import list_terminals
from tests.integration.terminals.held import kill, wait_until

SECONDS = 90.0


class Person:
    """A home of their own with something in it, and a directory for what is temporary."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.temporary = root / "tmp"
        self.temporary.mkdir()
        self.home = root / "person"
        config = self.home / ".config" / "corral" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text('currency = "nonsense"\n')  # a fault of the person's own is none of the demo's
        self.env = {
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "KIMI_SHARE_DIR": str(self.home / "elsewhere"),
            "CORRAL_STATE_DIR": str(self.home / "state"),
        }

    def files(self) -> dict[str, tuple[int, bytes]]:
        """All that is in the home."""
        return {
            str(path.relative_to(self.home)): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in sorted(self.home.rglob("*"))
        }

    def command(self, *words: str, program: str | None = None) -> list[str]:
        return [*([program] if program else [sys.executable, "-m", "corral"]), "demo", *words]

    def places(self) -> list[Place]:
        return [Place(str(path)) for path in self.temporary.iterdir()]


class Showing:
    """One demo, from its start to its end."""

    def __init__(self, person: Person, *words: str, program: str | None = None) -> None:
        self.person = person
        self.errors = person.root / "demo.err"
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                person.command(*words, program=program),
                env=person.env,
                cwd=person.home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def await_ready(self) -> Showing:
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().strip()
        assert self.link.startswith("http://corral-"), self.errors.read_text()
        self.origin = "http://127.0.0.1:" + self.link.partition("/#")[0].rpartition(":")[2]
        (self.place,) = self.person.places()
        return self

    def api(self, path: str, body: object = None) -> Any:
        token = Path(self.place.state, "server", "token").read_text()
        headers = {"Authorization": f"Bearer {token}", "Origin": self.origin, "X-Corral": "1"}
        data = None if body is None else json.dumps(body).encode()
        headers |= {} if body is None else {"Content-Type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(f"{self.origin}/api/{path}", data, headers), timeout=60
        ) as answer:
            return json.loads(answer.read())

    def corral(self, *words: str) -> str:
        """What the program that the tour names says, called from the person's own environment."""
        done = subprocess.run(
            [self.place.corral, *words], env=self.person.env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done
        return done.stdout

    def sessions(self) -> dict[str, Any]:
        return {one["title"]: one for one in self.api("sessions")["sessions"]}

    def tab(self, title: str) -> Any:
        return next(one for one in self.api("tabs")["tabs"] if one["title"] == title)

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def end(self) -> None:
        """After a test, whatever became of it."""
        left = [identity for place in self.person.places() for identity in running_in(place)]
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        for identity in left:
            kill(identity)


def caretaker_of(place: Place) -> ProcessIdentity:
    (found,) = running_with(place, b"corral.demo.place")
    return found


def running_with(place: Place, word: bytes) -> list[ProcessIdentity]:
    """Those of them whose command has this word."""
    return [one for one in running_in(place) if word in _read(one.pid, "cmdline").split(b"\0")]


def running_in(place: Place) -> list[ProcessIdentity]:
    """Found without the demo's own means: who names the directory in any way, and who holds its terminals."""
    found = [one for terminal in list_terminals(place.terminals) for one in (terminal.holder, terminal.child) if one]
    for name in filter(str.isdecimal, os.listdir("/proc")):
        if int(name) != os.getpid() and _names(int(name), os.fsencode(place.root)):
            found.append(read_identity(int(name)))
    return list({one for one in found if one is not None and read_identity(one.pid) == one})


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has ended meanwhile, as many do while the scenes are set
        return b""


def _names(pid: int, root: bytes) -> bool:
    try:
        said = b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline"))
        return root in said or os.fsencode(os.readlink(f"/proc/{pid}/cwd")).startswith(root)
    except OSError:
        return False


def assert_all_gone(showing: Showing, identities: list[ProcessIdentity]) -> None:
    assert [one for one in identities if read_identity(one.pid) == one] == []
    assert list(showing.person.temporary.iterdir()) == []


def wait_for_place(person: Person) -> Place:
    """As soon as its first agent runs: in the middle of setting the scenes."""
    wait_until(lambda: any(list_terminals(place.terminals) for place in person.places()), "a first terminal", SECONDS)
    return person.places()[0]
