"""Doing in a demonstration what a person would do in the page: opening sessions, closing tabs, typing."""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from corral.demo.place import Place
from corral.errors import CorralError
from corral.terminals import open_client

_SECONDS = 60.0
_STEP_SECONDS = 0.05
_SIZE = (120, 40)
_T = TypeVar("_T")


class SeenSession(Struct):
    """What is needed of a session that the server lists."""

    ref: str
    session_id: str
    state: str
    activity: str | None = None


class _Sessions(Struct):
    sessions: list[SeenSession]


class _Opened(Struct):
    tab: str


class Visitor:
    """Speaks to the server of one demonstration, as its owner."""

    def __init__(self, place: Place, port: int) -> None:
        self._place = place
        self._origin = f"http://127.0.0.1:{port}"

    def sessions(self) -> dict[str, SeenSession]:
        """By id."""
        found = self._ask("GET", "sessions", _Sessions).sessions
        return {one.session_id: one for one in found}

    def open_session(self, session_id: str) -> str:
        """In a tab, once the server knows it; returns the tab."""
        session = wait_for(lambda: self.sessions().get(session_id), f"session {session_id}")
        return self._ask("POST", f"sessions/{session.ref}/open", _Opened, {"trust": True}).tab

    def wait_until(self, session_id: str, state: str, activity: str | None = None) -> None:
        def seen() -> bool:
            one = self.sessions().get(session_id)
            return one is not None and (one.state, activity) == (state, one.activity if activity else None)

        wait_for(seen, f"session {session_id} to be {activity or state}")

    def type(self, tab: str, line: str) -> None:
        with open_client(self._place.terminals, tab) as client:
            client.attach(None, *_SIZE)
            client.type(f"{line}\r".encode())
            client.ask()  # it has been taken when the holder answers

    def _ask(self, method: str, path: str, kind: type[_T], body: object = None) -> _T:
        with open(os.path.join(self._place.state, "server", "token")) as file:
            headers = {"Authorization": f"Bearer {file.read().strip()}"}
        if method != "GET":
            headers |= {"Content-Type": "application/json", "X-Corral": "1", "Origin": self._origin}
        data = None if body is None else msgspec.json.encode(body)
        request = urllib.request.Request(f"{self._origin}/api/{path}", data, headers, method=method)
        # Loopback: a proxy that the person has set has no part in it.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=_SECONDS) as answer:
                return msgspec.json.decode(answer.read(), type=kind)
        except urllib.error.HTTPError as error:
            said = error.read(1000).decode(errors="replace")
            raise CorralError(f"the demo's server refused {path}: {said}") from error
        except OSError as error:
            raise CorralError(f"the demo's server did not answer: {error}") from error


def wait_for(condition: Callable[[], _T | None], what: str) -> _T:
    """Until it gives something. Raises CorralError when that takes too long."""
    deadline = time.monotonic() + _SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise CorralError(f"waited {_SECONDS:.0f} s for {what}", hint="is the machine very busy? try again")
        time.sleep(_STEP_SECONDS)
    return found
