"""Decoding JSON that others write: fast when it is proper, tolerant of what real writers let slip."""

from __future__ import annotations

import re
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

_LARGEST_RETRY = 4 << 20
_MOST_RETRIES = 64
IMPROPER = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
NO_OBJECT = "not a record: no JSON object that can be read"


class ForeignDecoder(Generic[T]):
    """Decodes one shape. Fields that the shape does not name are ignored; `None` means: not that shape.

    Python writes NaN and JavaScript writes lone surrogates, though JSON has neither: those are read too, so
    that one odd value in a field nobody needs does not hide a record.
    """

    def __init__(self, shape: type[T]) -> None:
        self._shape = shape
        self.decode_proper = msgspec.json.Decoder(shape).decode
        """The same of proper JSON alone, faster: it raises one of `IMPROPER` for anything else."""

    def decode(self, data: bytes) -> T | None:
        try:
            return self.decode_proper(data)
        except msgspec.ValidationError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._decode_tolerantly(data)
        except RecursionError:
            return None

    def _decode_tolerantly(self, data: bytes) -> T | None:
        value = load_tolerantly(data)
        return None if value is None else self.convert(value)

    def convert(self, value: object) -> T | None:
        """The same of a value that was decoded without a shape."""
        try:
            return msgspec.convert(value, self._shape)
        except (ValueError, RecursionError, msgspec.ValidationError):
            return None


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def is_object(line: bytes) -> bool:
    """Whether a line is one JSON object, of whatever shape. So is an empty one, which holds nothing."""
    if not line.strip():
        return True
    try:
        _decode_object(line)
        return True
    except IMPROPER:
        return isinstance(load_tolerantly(line), dict)


def is_javascript_json(data: bytes) -> bool:
    """Whether JavaScript's JSON.parse takes this line, after a decoding that replaces bytes which are no UTF-8."""
    try:
        msgspec.json.decode(data)
        return True
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass  # it is stricter than JavaScript in some ways; most lines need no second look
    import json

    try:
        json.loads(data.decode("utf-8", "replace"), parse_constant=_refuse, parse_int=float)
    except RecursionError:
        return True  # JavaScript reads any depth
    except ValueError:
        return False
    return True


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def is_absolute_path(text: str) -> bool:
    """Whether a path that others wrote down can be one of this system, whatever the current directory."""
    return text.startswith("/") and "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def load_tolerantly(data: bytes) -> Any:
    """The value of what is not strictly JSON and can be read all the same; None if it can't."""
    # A torn line is the common failure, and its last byte shows it; the slow way is kept for small odd ones.
    if len(data) > _LARGEST_RETRY or not data.rstrip().endswith(b"}"):
        return None
    import json

    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def split_records(data: bytes, head: re.Pattern[str]) -> tuple[list[bytes], bool]:
    """The records on a line that is not one, and whether anything else is on it.

    Two writers leave `{…}{…}`; a writer that was killed leaves half a record, and the next goes on behind it.
    """
    if len(data) > _LARGEST_RETRY:
        return [], True
    import json

    text = data.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    pieces: list[bytes] = []
    position, damaged = 0, False
    for _ in range(_MOST_RETRIES):
        found = head.search(text, position)
        if found is None:
            break
        damaged = damaged or bool(text[position : found.start()].strip())
        try:
            _value: Any
            _value, position = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            damaged, position = True, found.end()
            continue
        pieces.append(text[found.start() : position].encode("utf-8", "replace"))
    return pieces, damaged or bool(text[position:].strip())
