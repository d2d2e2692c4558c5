"""A terminal over a WebSocket: the holder's frames to the page and back, byte for byte, at the page's own pace."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from starlette.websockets import WebSocket, WebSocketDisconnect

from corral.errors import NotReachable, Silent
from corral.machine.json_text import encode_json
from corral.model.frames import (
    MAX_INPUT,
    Ask,
    Attach,
    Attached,
    Exit,
    Failed,
    Frame,
    Gap,
    Hello,
    Input,
    Modes,
    OutputRun,
    Picture,
    ProtocolError,
    Resize,
    Size,
    ViewerFrame,
    Visible,
    Welcome,
)
from corral.server.credentials import PROTOCOL
from corral.terminals import open_line

if TYPE_CHECKING:
    from corral.terminals import Line

NO_SUCH_TAB, REPLACED, ENDED, TRY_AGAIN = 4404, 4409, 4410, 1013
MODES = 2
MOST_UNACKNOWLEDGED = 512 << 10
_HEAD = struct.Struct(">BQ")
"""The head of every binary message: 0 for output, 1 for replayed output, 2 for modes; then the offset."""
_READ = 256 << 10
_FIRST_SECONDS = 10.0
_TYPED_SECONDS = 2.0
"""A terminal gets no pause after somebody typed into it: the effect of Ctrl-C shows at once."""

_MUCH_BYTES = 16 << 10
_FLOOD_BYTES = 512 << 10
"""So much without a pause is a flood; a repaint or a replay is less."""
_RECENT_SECONDS = 0.5
_BYTES_PER_SECOND = 40_000_000
"""What two floods may send together; three send half of it, ten a ninth. Writing to a terminal costs the program and
the kernel more than reading costs us: only programs that wait leave the processor to keys in other tabs."""
_LONGEST_SECONDS = 0.1


class _First(Struct):
    attach: int | None = None
    columns: int = 0
    rows: int = 0
    visible: bool = True
    terminal: str | None = None
    """The terminal that the page was attached to before: its offset and keys are for that one only."""


class _Control(Struct):
    resize: tuple[int, int] | None = None
    visible: bool | None = None
    ack: int | None = None
    ping: int | None = None


_decode_first = msgspec.json.Decoder(_First).decode
_decode_control = msgspec.json.Decoder(_Control).decode


async def serve_terminal(websocket: WebSocket, directory: str, tab: str) -> None:
    """From accept to close. The guard has let the caller in."""
    await websocket.accept(PROTOCOL if PROTOCOL in websocket.scope.get("subprotocols", ()) else None)
    try:
        line = await asyncio.to_thread(open_line, directory, tab)
    except Silent as error:
        await _fail(websocket, "not_answering", f"{error}: {error.remedy}", TRY_AGAIN)
        return
    except NotReachable as error:
        await _fail(websocket, "not_reachable", str(error), NO_SUCH_TAB)
        return
    reader, writer = await asyncio.open_unix_connection(sock=line.socket, limit=_READ // 2)
    try:
        await _Bridge(websocket, reader, writer, line).run()
    finally:
        writer.transport.abort()  # nobody needs the rest any more


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
        line: Line,
    ) -> None:
        self._websocket = websocket
        self._reader = reader
        self._writer = writer
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._sent = 0
        """The offset after the last byte that went to the page."""
        self._acknowledged = 0
        self._room = asyncio.Event()
        self._room.set()
        self._size: tuple[int, int] | None = None
        self._typed_at = 0.0
        self._due = asyncio.Event()
        """Set while the holder owes an answer."""
        self._reading = False
        """The page has taken everything; if nothing comes now, the holder is silent."""

    async def run(self) -> None:
        try:
            first = _decode_first(await asyncio.wait_for(self._websocket.receive_text(), _FIRST_SECONDS))
            if first.terminal not in (None, self._line.holder):
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
                await self._tell({"failed": {"code": "frame", "message": "unknown message"}})
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
        self._writer.write(self._line.encode(*frames))
        await self._writer.drain()

    # --- a holder that does not answer

    async def _watch(self) -> None:
        """Returns when the holder is silent. Output usually follows typing; if none does, the holder is asked."""
        while True:
            await self._due.wait()
            patience = None
            while self._due.is_set():
                await asyncio.sleep(self._line.look_seconds)
                if not self._due.is_set() or not self._reading:
                    patience = None
                elif patience is None:
                    patience = self._line.await_answer()
                    self._writer.write(self._line.encode(Ask()))
                else:
                    try:
                        patience.check()
                    except Silent as error:
                        await _fail(self._websocket, "not_answering", f"{error}: {error.remedy}", TRY_AGAIN)
                        return

    # --- holder to page

    async def _show(self) -> None:
        """Reads only what the page has room for. The rest waits in the holder; when that is full, the program waits."""
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
                for frame in self._line.feed(data):
                    if not await self._pass_on(frame):
                        return
            except ProtocolError as error:
                await _fail(self._websocket, "frame", str(error), 1011)
                return
            now = self._loop.time()
            rest_seconds = _PACE.rest_seconds(self, len(data), now)
            if rest_seconds and now - self._typed_at > _TYPED_SECONDS:
                await asyncio.sleep(rest_seconds)

    async def _pass_on(self, frame: Frame | OutputRun) -> bool:
        """False if this was the last frame."""
        match frame:
            case OutputRun():
                # The frame has the fields of the message in the same order: it is sent as it is.
                await self._websocket.send_bytes(frame.payload)
                self._sent = frame.end
                if self._sent - self._acknowledged >= MOST_UNACKNOWLEDGED:
                    self._room.clear()
            case Modes() | Picture():
                await self._websocket.send_bytes(_HEAD.pack(MODES, 0) + frame.data)
            case Attached():
                self._sent = self._acknowledged = frame.offset
                self._size = frame.columns, frame.rows
                await self._tell({"attached": {**frame._asdict(), "terminal": self._line.holder}})
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


def _side(length: int) -> int:
    return max(0, min(length, 4096))


def _text(body: object) -> str:
    return encode_json(body).decode()


class Pace:
    """Keys first: the more terminals flood at once, the less of the machine they get together.

    There is one for all terminals of a server, used in the event loop's thread. A single flood is not slowed.
    """

    def __init__(self) -> None:
        self._sent: dict[object, tuple[float, int]] = {}
        """When each terminal last sent much, and how much it sent without a pause."""
        self._floods = 0

    def share_bytes(self, most: int) -> int:
        """How much to read from one terminal at once: little while many flood, so that none has to pause for long."""
        return max(_MUCH_BYTES, most // max(1, self._floods))

    def rest_seconds(self, terminal: object, size: int, now: float) -> float:
        """How long to pause this terminal after passing on so many bytes."""
        if size < _MUCH_BYTES:
            return 0.0
        self._sent = {one: found for one, found in self._sent.items() if now - found[0] < _RECENT_SECONDS}
        total = self._sent.get(terminal, (now, 0))[1] + size
        self._sent[terminal] = now, total
        self._floods = sum(sent >= _FLOOD_BYTES for _, sent in self._sent.values())
        if total < _FLOOD_BYTES:
            return 0.0
        return min(_LONGEST_SECONDS, size * self._floods * (self._floods - 1) / _BYTES_PER_SECOND)


_PACE = Pace()
