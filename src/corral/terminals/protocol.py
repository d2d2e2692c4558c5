"""The wire between a holder and its viewers: frames to bytes and back, no I/O. Standard library only.

A frame is a length (4 bytes, big-endian, of what follows), a kind (1 byte) and its fields. Kinds that a reader
does not know and fields after those it knows are passed over, so that either side may be newer.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from corral.model.frames import (
    VERSIONS,
    Ask,
    Attach,
    Attached,
    End,
    Exit,
    Failed,
    Frame,
    Gap,
    Hello,
    Info,
    Input,
    Leave,
    Modes,
    Output,
    Picture,
    ProtocolError,
    Resize,
    Size,
    Unknown,
    Visible,
    Welcome,
)

MAX_FRAME = 1 << 20
MAGIC = b"corral-terminal\0"

_LENGTH = Struct(">I")
_HEAD = Struct(">IB")
_OUTPUT = Struct(">IBBQ")
_TWO = Struct(">HH")
_ATTACH = Struct(">BQHHB")
_ATTACH_PICTURE = 14
_ATTACHED = Struct(">QQQHH")
_GAP = Struct(">QQ")
_WELCOME = Struct(">H")
_STATUS = Struct(">i")

OUTPUT = 67
_KINDS: dict[type, int] = {
    Hello: 1,
    Attach: 2,
    Input: 3,
    Resize: 4,
    Visible: 5,
    Ask: 6,
    End: 7,
    Leave: 8,
    Welcome: 65,
    Attached: 66,
    Output: OUTPUT,
    Gap: 68,
    Modes: 69,
    Size: 70,
    Exit: 71,
    Info: 72,
    Failed: 73,
    Picture: 74,
}


def encode(frame: Frame) -> bytes:
    """The bytes of one frame."""
    if isinstance(frame, Output):
        return _OUTPUT.pack(len(frame.data) + 10, _KINDS[Output], frame.replay, frame.offset) + frame.data
    payload = _encode_payload(frame)
    return _HEAD.pack(len(payload) + 1, _KINDS[type(frame)]) + payload


def _encode_payload(frame: Frame) -> bytes:
    match frame:
        case Hello():
            return MAGIC + _TWO.pack(*frame)
        case Attach():
            repaint = frame.offset is None
            fields = _ATTACH.pack(repaint, frame.offset or 0, frame.columns, frame.rows, frame.visible)
            return fields + bytes((frame.picture,))
        case Input():
            return bytes((frame.in_replay,)) + frame.data
        case Resize() | Size():
            return _TWO.pack(*frame)
        case Visible():
            return bytes((frame.visible,))
        case Welcome():
            return _WELCOME.pack(frame.version) + frame.tab.encode()
        case Attached():
            return _ATTACHED.pack(*frame)
        case Gap():
            return _GAP.pack(*frame)
        case Modes():
            return frame.data
        case Picture():
            return bytes((frame.first,)) + frame.data
        case Exit():
            return _STATUS.pack(frame.status)
        case Info():
            return pack_texts(word for pair in frame.fields.items() for word in pair)
        case Failed():
            return pack_texts(frame)
        case _:
            return b""


class FrameReader:
    """Bytes in, whole frames out, however the bytes were cut."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now. Raises ProtocolError; then the connection is of no more use."""
        return [decode(kind, payload) for kind, payload in self.split(data)]

    def split(self, data: bytes) -> list[tuple[int, bytes]]:
        """The same, not taken apart: kind and payload, for one that passes most of them on as they are."""
        buffer = self._buffer
        buffer += data
        frames: list[tuple[int, bytes]] = []
        position = 0
        while len(buffer) - position >= 5:
            (length,) = _LENGTH.unpack_from(buffer, position)
            if not 1 <= length <= self._limit:
                raise ProtocolError(f"a frame of {length} bytes")
            end = position + 4 + length
            if len(buffer) < end:
                break
            frames.append((buffer[position + 4], bytes(memoryview(buffer)[position + 5 : end])))
            position = end
        if position:
            del buffer[:position]
        return frames


def decode(kind: int, payload: bytes) -> Frame:
    """One frame of its kind and payload. Raises ProtocolError."""
    try:
        return _decode_payload(kind, payload)
    except (ValueError, IndexError, OverflowError) as error:
        raise ProtocolError(f"a malformed frame of kind {kind}: {error}") from None
    except Exception as error:  # noqa: BLE001 - struct.error can't be named without importing struct's whole module
        raise ProtocolError(f"a malformed frame of kind {kind}: {error}") from None


def _decode_payload(kind: int, payload: bytes) -> Frame:
    match kind:
        case 67:  # OUTPUT, the most frequent first
            return Output(int.from_bytes(payload[1:9]), payload[9:], bool(payload[0]))
        case 1:
            if payload[: len(MAGIC)] != MAGIC:
                raise ProtocolError("it does not begin with the protocol's name")
            return Hello(*_TWO.unpack_from(payload, len(MAGIC)))
        case 2:
            repaint, offset, columns, rows, visible = _ATTACH.unpack_from(payload)
            picture = payload[_ATTACH_PICTURE : _ATTACH_PICTURE + 1] == b"\x01"  # not said by version 1
            return Attach(None if repaint else offset, columns, rows, bool(visible), picture)
        case 3:
            return Input(payload[1:], bool(payload[0]))
        case 4:
            return Resize(*_TWO.unpack_from(payload))
        case 5:
            return Visible(bool(payload[0]))
        case 6:
            return Ask()
        case 7:
            return End()
        case 8:
            return Leave()
        case 65:
            return Welcome(int.from_bytes(payload[:2]), payload[2:].decode())
        case 66:
            return Attached(*_ATTACHED.unpack_from(payload))
        case 68:
            return Gap(*_GAP.unpack_from(payload))
        case 69:
            return Modes(payload)
        case 70:
            return Size(*_TWO.unpack_from(payload))
        case 71:
            return Exit(*_STATUS.unpack_from(payload))
        case 72:
            words = unpack_texts(payload)
            return Info(dict(zip(words[::2], words[1::2], strict=True)))
        case 73:
            code, message = unpack_texts(payload)[:2]
            return Failed(code, message)
        case 74:
            return Picture(payload[1:], bool(payload[0]))
        case _:
            return Unknown(kind)


def choose_version(hello: Hello) -> int | None:
    """The highest version that both sides speak, or None."""
    version = min(hello.highest, VERSIONS[1])
    return version if version >= max(hello.lowest, VERSIONS[0]) else None


def pack_texts(texts: Iterable[str]) -> bytes:
    """Texts of any content, one after the other; paths with odd bytes survive."""
    raw = [text.encode("utf-8", "surrogateescape") for text in texts]
    return b"".join(_LENGTH.pack(len(one)) + one for one in raw)


def unpack_texts(data: bytes) -> list[str]:
    """Raises ValueError for what is not such a row."""
    texts: list[str] = []
    position = 0
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4])
        if end > len(data):
            raise ValueError("a text is cut off")
        texts.append(data[position + 4 : end].decode("utf-8", "surrogateescape"))
        position = end
    return texts
