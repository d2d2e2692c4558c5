"""Hundreds of pages that are open at the same time, each with one terminal, in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from websockets.asyncio.client import ClientConnection, connect

from tests.integration.server.serving import MODES, Serving
from tests.integration.server.visitor import Visitor

SECONDS = 180.0


class Page(NamedTuple):
    """One browser's tab: its login, the tab it shows, and how many bytes of it there are to see."""

    visitor: Visitor
    tab: str
    size: int


def gather_crowd(serving: Serving, pages: Sequence[Page], while_open: Callable[[], None]) -> list[bytes]:
    """All of them come at once, each from its first byte; `while_open` is called when the last has all its bytes.

    Nobody leaves before it has returned. Returns what each has seen.
    """
    return asyncio.run(_gather(serving, pages, while_open))


async def _gather(serving: Serving, pages: Sequence[Page], while_open: Callable[[], None]) -> list[bytes]:
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(SECONDS):
        host, origin = serving.host, serving.origin

        async def come(page: Page) -> bytes:
            socket = connect(
                f"ws://{host}/api/tabs/{page.tab}/terminal",
                origin=origin,  # type: ignore[arg-type]
                host="127.0.0.1",
                port=serving.port,
                subprotocols=await asyncio.to_thread(page.visitor.protocols),  # type: ignore[arg-type]
                compression=None,
                max_size=None,
                open_timeout=None,
                ping_interval=None,
                close_timeout=1.0,
            )
            return await _read(await stack.enter_async_context(socket), page.size)

        seen = await asyncio.gather(*map(come, pages))
        await asyncio.to_thread(while_open)
        return seen


async def _read(socket: ClientConnection, size: int) -> bytes:
    await socket.send(json.dumps({"attach": 0, "columns": 80, "rows": 24, "visible": True}))
    data = b""
    while len(data) < size:
        message = await socket.recv()
        if isinstance(message, bytes) and message[0] != MODES:
            assert int.from_bytes(message[1:9]) == len(data)
            data += message[9:]
            await socket.send(json.dumps({"ack": len(data)}))
    return data
