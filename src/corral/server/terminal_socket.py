"""A terminal over a WebSocket: frames of the holder to the page and back, byte for byte, with the page's own pace."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

import msgspec
from msgspec import Struct
from starlette.websockets import WebSocket, WebSocketDisconnect

from corral.terminals.client import NotReachable, connect, name_holder
from corral.terminals.protocol import (
    MAX_INPUT,
    Attach,
    Attached,
    Exit,
    Failed,
    Frame,
    FrameReader,
    Gap,
    Hello,
    Input,
    Modes,
    Output,
    ProtocolError,
    Resize,
    Size,
    ViewerFrame,
    Visible,
    Welcome,
    encode,
)

NO_SUCH_TAB, REPLACED, ENDED = 4404, 4409, 4410
LIVE, REPLAY, MODES = 0, 1, 2
MOST_UNACKNOWLEDGED = 512 << 10
_HEAD = struct.Struct(">BQ")
_READ = 256 << 10
_MERGE = 256 << 10
_FIRST_SECONDS = 10.0


class _First(Struct):
    attach: int | None = None
    columns: int = 0
    rows: int = 0
    visible: bool = True
    terminal: str | None = None
    """Which one the page was attached to before: its offset and its keys are meant for no other."""


class _Control(Struct):
    resize: tuple[int, int] | None = None
    visible: bool | None = None
    ack: int | None = None
    ping: int | None = None


_decode_first = msgspec.json.Decoder(_First).decode
_decode_control = msgspec.json.Decoder(_Control).decode


async def serve_terminal(websocket: WebSocket, directory: str, tab: str) -> None:
    """From accept to close. The caller was let in by the guard."""
    await websocket.accept()
    try:
        holder = await asyncio.to_thread(connect, directory, tab)
    except NotReachable as error:
        await _fail(websocket, "not_reachable", str(error), NO_SUCH_TAB)
        return
    holder.setblocking(False)
    bridge = _Bridge(websocket, holder, name_holder(holder))
    try:
        await bridge.run()
    finally:
        holder.close()


async def _fail(websocket: WebSocket, code: str, message: str, close: int) -> None:
    with suppress(RuntimeError, WebSocketDisconnect):
        await websocket.send_text(_text({"failed": {"code": code, "message": message}}))
        await websocket.close(close)


class _Bridge:
    def __init__(self, websocket: WebSocket, holder: socket.socket, name: str) -> None:
        self._websocket = websocket
        self._holder = holder
        self._name = name
        self._reader = FrameReader()
        self._loop = asyncio.get_running_loop()
        self._sent = 0
        """The offset after the last byte that went to the page."""
        self._acknowledged = 0
        self._room = asyncio.Event()
        self._room.set()
        self._size: tuple[int, int] | None = None

    async def run(self) -> None:
        try:
            first = _decode_first(await asyncio.wait_for(self._websocket.receive_text(), _FIRST_SECONDS))
            if first.terminal not in (None, self._name):
                await self._websocket.close(REPLACED, "this tab has another terminal by now")
                return
            await self._say(Hello())
            await self._say(Attach(first.attach, _side(first.columns), _side(first.rows), first.visible))
        except (TimeoutError, msgspec.DecodeError, KeyError, struct.error):
            await _fail(self._websocket, "frame", "the first message must say where to attach", 1008)
            return
        except (WebSocketDisconnect, OSError):
            return
        hearing = asyncio.create_task(self._hear())
        showing = asyncio.create_task(self._show())
        done, left = await asyncio.wait({hearing, showing}, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for task in done:
            error = task.exception()
            if error is not None and not isinstance(error, WebSocketDisconnect | OSError | RuntimeError):
                raise error

    # --- page to holder

    async def _hear(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes")
            if data is not None:
                if len(data) > MAX_INPUT + 1 or not data:
                    await self._tell({"failed": {"code": "frame", "message": "more input than fits into one frame"}})
                    continue
                await self._say(Input(data[1:], bool(data[0])))
                continue
            try:
                control = _decode_control(message.get("text") or "")
            except msgspec.DecodeError:
                await self._tell({"failed": {"code": "frame", "message": "not a message that is known here"}})
                continue
            await self._obey(control)

    async def _obey(self, control: _Control) -> None:
        if control.resize is not None:
            await self._say(Resize(*map(_side, control.resize)))
        if control.visible is not None:
            await self._say(Visible(control.visible))
        if control.ack is not None:
            self._acknowledge(control.ack)
        if control.ping is not None:
            await self._tell({"pong": control.ping})

    def _acknowledge(self, offset: int) -> None:
        self._acknowledged = max(self._acknowledged, min(offset, self._sent))
        if self._sent - self._acknowledged < MOST_UNACKNOWLEDGED:
            self._room.set()

    async def _say(self, frame: ViewerFrame) -> None:
        await self._loop.sock_sendall(self._holder, encode(frame))

    # --- holder to page

    async def _show(self) -> None:
        """Reads only what the page has room for: what it does not take waits at the holder, and then the program."""
        while True:
            await self._room.wait()
            data = await self._loop.sock_recv(self._holder, _READ)
            if not data:
                await self._websocket.close(ENDED if self._size is None else 1011)
                return
            try:
                frames = self._reader.feed(data)
            except ProtocolError as error:
                await _fail(self._websocket, "frame", str(error), 1011)
                return
            for frame in _merge(frames):
                if not await self._pass_on(frame):
                    return

    async def _pass_on(self, frame: Frame) -> bool:
        """False when it was the last."""
        match frame:
            case Output():
                kind = REPLAY if frame.replay else LIVE
                await self._websocket.send_bytes(_HEAD.pack(kind, frame.offset) + frame.data)
                self._sent = frame.offset + len(frame.data)
                if self._sent - self._acknowledged >= MOST_UNACKNOWLEDGED:
                    self._room.clear()
            case Modes():
                await self._websocket.send_bytes(_HEAD.pack(MODES, 0) + frame.data)
            case Attached():
                self._sent = self._acknowledged = frame.offset
                self._size = frame.columns, frame.rows
                await self._tell({"attached": {**frame._asdict(), "terminal": self._name}})
            case Gap():
                self._sent = self._acknowledged = frame.end
                await self._tell({"gap": frame._asdict()})
            case Size():
                await self._tell({"size": frame._asdict()})
            case Exit():
                await self._tell({"exit": frame.status})
                await self._websocket.close(ENDED)
                return False
            case Failed():
                await self._tell({"failed": frame._asdict()})
            case Welcome():
                pass
            case _:
                pass  # a newer holder's
        return True

    async def _tell(self, body: object) -> None:
        await self._websocket.send_text(_text(body))


def _merge(frames: list[Frame]) -> list[Frame]:
    """Output that continues other output, as one: each message costs the page more than its bytes."""
    merged: list[Frame] = []
    parts: list[bytes] = []
    size = 0
    for frame in frames:
        last = merged[-1] if merged else None
        if (
            isinstance(frame, Output)
            and isinstance(last, Output)
            and frame.replay == last.replay
            and frame.offset == last.offset + size
            and size + len(frame.data) <= _MERGE
        ):
            parts.append(frame.data)
            size += len(frame.data)
            continue
        _close_merge(merged, parts)
        merged.append(frame)
        parts = [frame.data] if isinstance(frame, Output) else []
        size = len(frame.data) if isinstance(frame, Output) else 0
    _close_merge(merged, parts)
    return merged


def _close_merge(merged: list[Frame], parts: list[bytes]) -> None:
    if len(parts) > 1 and isinstance(last := merged[-1], Output):
        merged[-1] = Output(last.offset, b"".join(parts), last.replay)


def _side(length: int) -> int:
    return max(0, min(length, 4096))


def _text(body: object) -> str:
    return msgspec.json.encode(body).decode()
