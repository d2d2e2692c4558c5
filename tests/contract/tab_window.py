"""A tab as its owner sees it: through the server's WebSocket, or by `corral attach` where no server runs."""

from __future__ import annotations

import threading

from websockets.exceptions import ConnectionClosed

from tests.contract.corral_cli import COMMAND
from tests.contract.homes import Home
from tests.contract.terminal import Terminal
from tests.contract.window import COLUMNS, LINES, Window
from tests.integration.server.serving import LIVE, MODES, Serving, Viewer


class TabWindow(Window):
    """What the page is to a tab: it answers what its terminal is asked, and connects again where it was."""

    def __init__(self, serving: Serving, tab: str) -> None:
        super().__init__()
        self._serving = serving
        self.tab = tab
        self._pid: int = serving.tabs()[tab]["pid"]
        self._connect(None)
        self.begin = self._viewer.begin

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def exit_code(self) -> int | None:
        return next((control["exit"] for control in self._viewer.controls if "exit" in control), None)

    @property
    def end_offset(self) -> int:
        """Where the bytes that it has end."""
        return self.begin + len(self.raw)

    def reconnect(self) -> None:
        """After the server was lost: every byte since, and none twice."""
        self._reader.join(20)
        offset = self.end_offset
        self._connect(offset)
        assert self._viewer.begin == offset

    def send(self, text: str) -> None:
        self._viewer.type(text.encode())

    def close(self) -> None:
        self._viewer.close()
        self._reader.join(20)

    def end(self) -> None:
        self.close()

    def _find_end(self) -> str | None:
        return None if self._reader.is_alive() else f"the connection has ended after {self._viewer.controls[-1]}"

    def _connect(self, offset: int | None) -> None:
        # Before it is read from: what is read may have to be answered.
        self._viewer = self._serving.terminal(self.tab, offset, size=(COLUMNS, LINES))
        self._reader = threading.Thread(target=self._read, args=(self._viewer,), daemon=True)
        self._reader.start()

    def _read(self, viewer: Viewer) -> None:
        try:
            while True:
                kind, data = viewer.step(None) or (MODES, b"")
                if kind != MODES:
                    self._feed(data, answering=kind == LIVE)
        except ConnectionClosed:
            with self._changed:
                self._changed.notify_all()


class AttachedTerminal(Terminal):
    """`corral attach` in a window of its own; the program it shows is that of the tab."""

    def __init__(self, home: Home, tab: str, pid: int) -> None:
        self._shown = pid
        super().__init__([*COMMAND, "attach", tab], cwd=home.root, env=home.env)

    @property
    def pid(self) -> int:
        return self._shown
