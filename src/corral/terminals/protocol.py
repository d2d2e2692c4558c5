"""The wire between a holder and its viewers: frames to bytes and back, no I/O. Standard library only.

A frame is a length (4 bytes, big-endian, of what follows), a kind (1 byte) and its fields. Kinds that a reader
does not know and fields after those it knows are passed over, so that either side may be newer.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from typing import Any

from corral.model import frames

MAX_FRAME = 1 << 20
MAGIC = b"corral-terminal\0"
OUTPUT = 67

_LENGTH = Struct(">I")
_HEAD = Struct(">IB")
_OUTPUT = Struct(">IBBQ")
_ATTACH = Struct(">?QHH?")
_ATTACH_PICTURE = _ATTACH.size

_KINDS: dict[int, type[Any]] = {
    1: frames.Hello, 2: frames.Attach, 3: frames.Input, 4: frames.Resize,
    5: frames.Visible, 6: frames.Ask, 7: frames.End, 8: frames.Leave,
    65: frames.Welcome, 66: frames.Attached, OUTPUT: frames.Output, 68: frames.Gap, 69: frames.Modes,
    70: frames.Size, 71: frames.Exit, 72: frames.Info, 73: frames.Failed, 74: frames.Picture,
}  # fmt: skip
_NUMBERS = {frame: kind for kind, frame in _KINDS.items()}
_EMPTY, _TWO = Struct(">"), Struct(">HH")
_FIELDS: dict[type[Any], Struct] = {
    frames.Ask: _EMPTY, frames.End: _EMPTY, frames.Leave: _EMPTY, frames.Resize: _TWO, frames.Size: _TWO,
    frames.Visible: Struct(">?"), frames.Attached: Struct(">QQQHH"), frames.Gap: Struct(">QQ"),
    frames.Exit: Struct(">i"),
}  # fmt: skip
"""Of frames that are numbers alone."""


def encode(frame: frames.Frame) -> bytes:
    """The bytes of one frame."""
    if isinstance(frame, frames.Output):
        return _OUTPUT.pack(len(frame.data) + 10, OUTPUT, frame.replay, frame.offset) + frame.data
    payload = _encode_payload(frame)
    return _HEAD.pack(len(payload) + 1, _NUMBERS[type(frame)]) + payload


def _encode_payload(frame: frames.Frame) -> bytes:
    match frame:
        case frames.Hello():
            return MAGIC + _TWO.pack(*frame)
        case frames.Attach(offset, columns, rows, visible, picture):
            return _ATTACH.pack(offset is None, offset or 0, columns, rows, visible) + bytes((picture,))
        case frames.Input(data, flag) | frames.Picture(data, flag):
            return bytes((flag,)) + data
        case frames.Welcome():
            return frame.version.to_bytes(2) + frame.tab.encode()
        case frames.Modes():
            return frame.data
        case frames.Info():
            return pack_texts(word for pair in frame.fields.items() for word in pair)
        case frames.Failed():
            return pack_texts(frame)
        case _:
            return _FIELDS[type(frame)].pack(*frame)


class FrameReader:
    """Bytes in, whole frames out, however the bytes were cut."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> list[frames.Frame]:
        """The frames that are complete now. Raises ProtocolError; then the connection is of no more use."""
        return [decode(kind, payload) for kind, payload in self.split(data)]

    def split(self, data: bytes) -> list[tuple[int, bytes]]:
        """The same, not taken apart: kind and payload, for one that passes most of them on as they are."""
        buffer = self._buffer
        buffer += data
        found: list[tuple[int, bytes]] = []
        position = 0
        while len(buffer) - position >= 5:
            (length,) = _LENGTH.unpack_from(buffer, position)
            if not 1 <= length <= self._limit:
                raise frames.ProtocolError(f"a frame of {length} bytes")
            end = position + 4 + length
            if len(buffer) < end:
                break
            found.append((buffer[position + 4], bytes(memoryview(buffer)[position + 5 : end])))
            position = end
        if position:
            del buffer[:position]
        return found


def decode(kind: int, payload: bytes) -> frames.Frame:
    """One frame of its kind and payload. Raises ProtocolError."""
    try:
        return _decode_payload(kind, payload)
    except (ValueError, IndexError, StructError) as error:
        raise frames.ProtocolError(f"a malformed frame of kind {kind}: {error}") from None


def _decode_payload(kind: int, payload: bytes) -> frames.Frame:
    frame = _KINDS.get(kind)
    if frame is frames.Output:  # by far the most
        return frames.Output(int.from_bytes(payload[1:9]), payload[9:], bool(payload[0]))
    if frame is None:
        return frames.Unknown(kind)
    if (fields := _FIELDS.get(frame)) is not None:
        return frame(*fields.unpack_from(payload))
    if frame in (frames.Input, frames.Picture):
        return frame(payload[1:], bool(payload[0]))
    if frame is frames.Hello:
        if payload[: len(MAGIC)] != MAGIC:
            raise frames.ProtocolError("it does not begin with the protocol's name")
        return frames.Hello(*_TWO.unpack_from(payload, len(MAGIC)))
    if frame is frames.Attach:
        repaint, offset, columns, rows, visible = _ATTACH.unpack_from(payload)
        picture = payload[_ATTACH_PICTURE : _ATTACH_PICTURE + 1] == b"\x01"  # not said by version 1
        return frames.Attach(None if repaint else offset, columns, rows, visible, picture)
    if frame is frames.Welcome:
        return frames.Welcome(int.from_bytes(payload[:2]), payload[2:].decode())
    if frame is frames.Modes:
        return frames.Modes(payload)
    words = unpack_texts(payload)
    if frame is frames.Info:
        return frames.Info(dict(zip(words[::2], words[1::2], strict=True)))
    code, message = words[:2]
    return frames.Failed(code, message)


def choose_version(hello: frames.Hello) -> int | None:
    """The highest version that both sides speak, or None."""
    version = min(hello.highest, frames.VERSIONS[1])
    return version if version >= max(hello.lowest, frames.VERSIONS[0]) else None


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
