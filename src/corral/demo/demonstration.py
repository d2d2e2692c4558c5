"""One demonstration from its first file to its last process: a place, a server in it, the scenes, and the end."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable

from corral.demo.caretaker import Caretaker
from corral.demo.ending import end_place
from corral.demo.place import Place, furnish, make_place
from corral.demo.stage import play, write_past
from corral.demo.visitor import Visitor
from corral.errors import CorralError

_SERVER_SECONDS = 60.0
_STOP_SECONDS = 10.0
_MOST_SAID = 2000


class Demonstration:
    """`begin` it, `wait`, and `end` it whatever happened in between."""

    def __init__(self, *, keep: bool = False) -> None:
        """`keep` leaves its files behind."""
        self.place: Place | None = None
        self.link = ""
        """Logs one browser in, once."""
        self._keep = keep
        self._caretaker: Caretaker | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def begin(self, port: int | None, tell: Callable[[str], None]) -> None:
        """Until every scene is set. Raises CorralError."""
        self.place = place = make_place()
        self._caretaker = Caretaker(place.root, keep=self._keep)  # before there is anything to clear up
        furnish(place)
        scenes = write_past(place, time.time())
        _install_hooks(place)
        self.link = self._start_server(place, port)
        play(place, Visitor(place, int(self.link.partition("/#")[0].rpartition(":")[2])), scenes, tell)

    def wait(self) -> None:
        """Until the server ends, which it should not do by itself. Raises CorralError."""
        assert self._server is not None and self.place is not None
        code = self._server.wait()
        raise CorralError(f"the demo's server ended (exit code {code})", hint=self._said(self.place) or None)

    def end(self) -> None:
        """Nothing of it runs any more, and nothing is left of it, unless it is to be kept. Raises CorralError."""
        if self._server is not None:
            self._server.terminate()  # our own child, not waited for yet: it can be nobody else
            try:
                self._server.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            if self._server.stdout is not None:
                self._server.stdout.close()
        try:
            if self.place is not None:
                end_place(self.place, keep=self._keep)
        finally:
            if self._caretaker is not None:
                self._caretaker.dismiss()

    def _start_server(self, place: Place, port: int | None) -> str:
        """Its link. On a port that nobody uses, so that no login of the person's own server is replaced."""
        with open(os.path.join(place.root, "server.log"), "wb") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", "corral", "serve", "--port", str(port or 0)],
                env=place.environment(),
                cwd=place.home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self._server.stdout is not None
        ready, _, _ = select.select([self._server.stdout], [], [], _SERVER_SECONDS)
        link = self._server.stdout.readline().decode(errors="replace").strip() if ready else ""
        if not link.startswith("http://"):
            raise CorralError("the demo's server did not start", hint=self._said(place) or None)
        return link

    def _said(self, place: Place) -> str:
        with open(os.path.join(place.root, "server.log"), "rb") as log:
            return log.read()[-_MOST_SAID:].decode(errors="replace").strip()


def _install_hooks(place: Place) -> None:
    """In the one home that there is. The agent needs none; but the page asks for them before it starts its like."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "corral", "hooks", "install"],
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise CorralError("hooks could not be installed", hint=done.stderr.decode(errors="replace").strip() or None)
