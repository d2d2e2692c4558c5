"""What a person arranged: the order of tabs, those closed, sessions put away. One small file, kept over restarts."""

from __future__ import annotations

import os
import threading

import msgspec
from msgspec import Struct, structs

from corral.sidecar.atomic import Directory, replace
from corral.sidecar.files import Unreadable, read_regular
from corral.sidecar.processes import own_identity

_LIMIT = 4 << 20
_MOST = 20_000


class Layout(Struct, frozen=True, kw_only=True):
    """Tabs by their ids, sessions by their references."""

    schema: int = 1
    order: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    """Tabs that are not shown although their terminal is there."""
    dismissed: tuple[str, ...] = ()


class LayoutFile:
    """Read once, written at every change. Safe to use from several threads of one process."""

    def __init__(self, state_dir: str) -> None:
        self._directory = os.path.join(state_dir, "server")
        self._lock = threading.Lock()
        self.problem: str | None = None
        """Why what was kept could not be read."""
        self._layout = self._read()

    @property
    def layout(self) -> Layout:
        return self._layout

    def place(self, tab: str, position: int | None = None) -> None:
        """Put a tab where it belongs: last if nothing is said. It is no longer closed. Raises OSError."""
        with self._lock:
            order = [one for one in self._layout.order if one != tab]
            order.insert(len(order) if position is None else max(0, position), tab)
            closed = tuple(one for one in self._layout.closed if one != tab)
            self._keep(structs.replace(self._layout, order=tuple(order), closed=closed))

    def close(self, tab: str) -> None:
        with self._lock:
            closed = (*(one for one in self._layout.closed if one != tab), tab)
            self._keep(structs.replace(self._layout, closed=closed[-_MOST:]))

    def forget(self, tab: str) -> None:
        with self._lock:
            order = tuple(one for one in self._layout.order if one != tab)
            closed = tuple(one for one in self._layout.closed if one != tab)
            self._keep(structs.replace(self._layout, order=order, closed=closed))

    def dismiss(self, reference: str, *, dismissed: bool) -> None:
        with self._lock:
            kept = [one for one in self._layout.dismissed if one != reference]
            kept += [reference] if dismissed else []
            self._keep(structs.replace(self._layout, dismissed=tuple(kept[-_MOST:])))

    def _keep(self, layout: Layout) -> None:
        if layout == self._layout:
            return
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        with Directory(self._directory) as directory:
            replace(directory, "layout.json", msgspec.json.encode(layout), own_identity())
        self._layout = layout

    def _read(self) -> Layout:
        content = read_regular(os.path.join(self._directory, "layout.json"), _LIMIT)
        if isinstance(content, Unreadable):
            self.problem = None if content.code == "io:ENOENT" else content.reason
            return Layout()
        try:
            layout = msgspec.json.decode(content.data, type=Layout)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.problem = f"layout.json: {error}"
            return Layout()
        return layout if layout.schema == 1 else Layout()
