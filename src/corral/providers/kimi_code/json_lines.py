"""Which lines of a log kimi-code itself can read."""

from __future__ import annotations

import json

import msgspec


def is_json(data: bytes) -> bool:
    """Whether JavaScript's JSON.parse takes this line, after a decoding that replaces bytes which are no UTF-8."""
    try:
        msgspec.json.decode(data)
        return True
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass  # it is stricter than JavaScript in some ways; most lines need no second look
    try:
        json.loads(data.decode("utf-8", "replace"), parse_constant=_refuse, parse_int=float)
    except RecursionError:
        return True  # JavaScript reads any depth
    except ValueError:
        return False
    return True


def _refuse(constant: str) -> float:
    raise ValueError(constant)
