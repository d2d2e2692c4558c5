"""A terminal over a WebSocket: frames of the holder to the page and back, byte for byte, with the page's own pace."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec
from msgspec import Struct
from starlette.websockets import WebSocket, WebSocketDisconnect

from corral.server.credentials import PROTOCOL
from corral.server.pace import Pace
from corral.system.json_text import encode_json
from corral.terminals.client import await_answer, connect, name_holder
from corral.terminals.protocol import (
    MAX_INPUT,
    OUTPUT,
    Ask,
    Attach,
    Attached,
    Exit,
    Failed,
    FrameReader,
    Gap,
    Hello,
    Input,
    Modes,
    Picture,
    ProtocolError,
    Resize,
    Size,
    ViewerFrame,
    Visible,
    Welcome,
    decode,
    encode,
)
from corral.terminals.silence import LOOK_SECONDS, NotReachable, Patience, Silent

NO_SUCH_TAB, REPLACED, ENDED, TRY_AGAIN = 4404, 4409, 4410, 1013
MODES = 2
MOST_UNACKNOWLEDGED = 512 << 10
_HEAD = struct.Struct(">BQ")
"""Before the bytes of every message: 0 for output, 1 for output that is a replay, 2 for modes; and the offset."""
_READ = 256 << 10
_FIRST_SECONDS = 10.0
_TYPED_SECONDS = 2.0
"""A terminal that somebody has just typed into does not rest: what Ctrl-C did is seen at once."""
_PACE = Pace()


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
    await websocket.accept(PROTOCOL if PROTOCOL in websocket.scope.get("subprotocols", ()) else None)
    try:
        holder = await asyncio.to_thread(connect, directory, tab)
    except Silent as error:
        await _fail(websocket, "not_answering", f"{error}: {error.remedy}", TRY_AGAIN)
        return
    except NotReachable as error:
        await _fail(websocket, "not_reachable", str(error), NO_SUCH_TAB)
        return
    name = name_holder(holder)
    reader, writer = await asyncio.open_unix_connection(sock=holder, limit=_READ // 2)
    try:
        await _Bridge(websocket, reader, writer, name, lambda: await_answer(holder, tab)).run()
    finally:
        writer.transport.abort()  # what it did not take is of no use to anybody any more


async def _fail(websocket: WebSocket, code: str, message: str, close: int) -> None:
    with suppress(RuntimeError, WebSocketDisconnect):
        await websocket.send_text(_text({"failed": {"code": code, "message": message}}))
        await websocket.close(close)


class _Bridge:
    def __init__(
        self,
        websocket: WebSocket,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        name: str,
        begin_waiting: Callable[[], Patience],
    ) -> None:
        self._websocket = websocket
        self._reader = reader
        self._writer = writer
        self._name = name
        self._begin_waiting = begin_waiting
        self._frames = FrameReader()
        self._loop = asyncio.get_running_loop()
        self._sent = 0
        """The offset after the last byte that went to the page."""
        self._acknowledged = 0
        self._room = asyncio.Event()
        self._room.set()
        self._size: tuple[int, int] | None = None
        self._typed_at = 0.0
        self._due = asyncio.Event()
        """Something was said to the holder, and nothing came from it since."""
        self._reading = False
        """The page has taken all that came: only now the holder's silence is its own."""

    async def run(self) -> None:
        try:
            first = _decode_first(await asyncio.wait_for(self._websocket.receive_text(), _FIRST_SECONDS))
            if first.terminal not in (None, self._name):
                await self._websocket.close(REPLACED, "this tab has another terminal by now")
                return
            attach = Attach(first.attach, _side(first.columns), _side(first.rows), first.visible)
            self._due.set()
            await self._say(Hello(), attach)
        except (TimeoutError, msgspec.DecodeError, KeyError, struct.error):
            await _fail(self._websocket, "frame", "the first message must say where to attach", 1008)
            return
        except (WebSocketDisconnect, OSError):
            return
        hearing = asyncio.create_task(self._hear())
        showing = asyncio.create_task(self._show())
        watching = asyncio.create_task(self._watch())
        done, left = await asyncio.wait({hearing, showing, watching}, return_when=asyncio.FIRST_COMPLETED)
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
                self._typed_at = self._loop.time()
                self._due.set()
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

    async def _say(self, *frames: ViewerFrame) -> None:
        self._writer.write(b"".join(map(encode, frames)))
        await self._writer.drain()

    # --- a holder that does not answer

    async def _watch(self) -> None:
        """Returns when it is silent. What is typed is followed by output as a rule; where it is not, it is asked."""
        while True:
            await self._due.wait()
            patience = None
            while self._due.is_set():
                await asyncio.sleep(LOOK_SECONDS)
                if not self._due.is_set() or not self._reading:
                    patience = None
                elif patience is None:
                    patience = self._begin_waiting()
                    self._writer.write(encode(Ask()))
                else:
                    try:
                        patience.check()
                    except Silent as error:
                        await _fail(self._websocket, "not_answering", f"{error}: {error.remedy}", TRY_AGAIN)
                        return

    # --- holder to page

    async def _show(self) -> None:
        """Reads only what the page has room for: what it does not take waits at the holder, and then the program."""
        while True:
            await self._room.wait()
            self._reading = True
            data = await self._reader.read(_PACE.share_bytes(_READ))
            self._reading = False
            self._due.clear()
            if not data:
                await self._websocket.close(ENDED if self._size is None else 1011)
                return
            try:
                for kind, payload in merge_output(self._frames.split(data)):
                    if not await self._pass_on(kind, payload):
                        return
            except ProtocolError as error:
                await _fail(self._websocket, "frame", str(error), 1011)
                return
            now = self._loop.time()
            rest_seconds = _PACE.rest_seconds(self, len(data), now)
            if rest_seconds and now - self._typed_at > _TYPED_SECONDS:
                await asyncio.sleep(rest_seconds)

    async def _pass_on(self, kind: int, payload: bytes) -> bool:
        """False when it was the last."""
        if kind == OUTPUT:
            # Its fields are those of the message, in the same order: nothing to take apart, nothing to copy.
            await self._websocket.send_bytes(payload)
            self._sent = _end_of(payload)
            if self._sent - self._acknowledged >= MOST_UNACKNOWLEDGED:
                self._room.clear()
            return True
        match frame := decode(kind, payload):
            case Modes() | Picture():
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


def merge_output(frames: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Output that continues other output, as one: each message costs the page more than its bytes."""
    merged: list[tuple[int, bytes]] = []
    run: list[bytes] = []
    end = 0
    for kind, payload in frames:
        if kind == OUTPUT and len(payload) < _HEAD.size:
            raise ProtocolError("output without its offset")
        if kind == OUTPUT and run and payload[0] == run[0][0] and int.from_bytes(payload[1:9]) == end:
            run.append(payload[_HEAD.size :])
            end += len(payload) - _HEAD.size
            continue
        _close_run(merged, run)
        merged.append((kind, payload))
        run = [payload] if kind == OUTPUT else []
        end = _end_of(payload) if run else 0
    _close_run(merged, run)
    return merged


def _close_run(merged: list[tuple[int, bytes]], run: list[bytes]) -> None:
    if len(run) > 1:
        merged[-1] = OUTPUT, b"".join(run)


def _end_of(output: bytes) -> int:
    """The offset after the last byte of an Output's payload."""
    return int.from_bytes(output[1:9]) + len(output) - _HEAD.size


def _side(length: int) -> int:
    return max(0, min(length, 4096))


def _text(body: object) -> str:
    return encode_json(body).decode()
