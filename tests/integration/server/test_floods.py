"""Ten terminals that flood: memory stays bounded, keys in another arrive, Ctrl-C ends each of them."""

from __future__ import annotations

import contextlib
import json
import os
import threading

from websockets.exceptions import ConnectionClosed

from corral.terminals.start import Started
from tests.integration.server.serving import Serving, Viewer
from tests.integration.terminals.held import BASH, Held, pss_bytes, wait_until

FLOODS = 10
MEGABYTE = 1 << 20


class Watching(threading.Thread):
    """Reads a terminal as a page does that keeps up, and keeps only the last words."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(daemon=True)
        self.viewer = viewer
        self.received = 0
        self.tail = b""
        self.start()

    def run(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                message = self.viewer.socket.recv()
                if isinstance(message, bytes) and message[0] < 2:
                    self.received += len(message) - 9
                    self.tail = (self.tail + message[9:])[-4096:]
                    end = int.from_bytes(message[1:9]) + len(message) - 9
                    self.viewer.socket.send(json.dumps({"ack": end}))


def children_of(pid: int) -> str:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read()


def test_ten_floods_stay_bounded_beside_keys_and_end_by_ctrl_c(serving: Serving):
    held = Held(serving.world.state / "terminals")
    watching: list[Watching] = []
    try:
        started: list[Started] = [held.start(BASH) for _ in range(FLOODS + 1)]
        *floods, keys = [serving.terminal(one.tab) for one in started]
        watching = [Watching(viewer) for viewer in floods]
        for viewer in floods:
            viewer.type(b"yes\n")
        wait_until(lambda: all(one.received > MEGABYTE for one in watching), "ten floods", 60)
        for number in range(5):
            keys.type(f"echo he''re {number}\n".encode())
            keys.read_until(f"here {number}".encode(), 60)
        wait_until(lambda: all(one.received > 2 * MEGABYTE for one in watching), "the floods to go on", 60)
        assert serving.process is not None
        assert pss_bytes(serving.process.pid) < 150 * MEGABYTE
        assert max(pss_bytes(one.holder.pid) for one in started) < 12 * MEGABYTE
        for one, viewer in zip(watching, floods, strict=True):
            viewer.type(b"\x03")
            viewer.type(b"echo do''ne\n")
            wait_until(lambda one=one: b"done" in one.tail, "the shell after Ctrl-C", 60)
        assert [children_of(one.child.pid) for one in started] == [""] * len(started)
        assert os.path.exists(f"/proc/{serving.process.pid}")
    finally:
        held.stop()
        for one in watching:
            one.join(30)
