"""JSON as it leaves the program: equal in value to what was found, and harmless on any screen."""

from __future__ import annotations

import re

import msgspec

# In UTF-8: DEL, the C1 controls, what turns the direction of text, the separators of lines and paragraphs. JSON itself
# escapes all that is below a blank.
_UNSAFE = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")


def encode_json(body: object, *, indent: int | None = None) -> bytes:
    """On one line, or indented. Bytes of a path that are not UTF-8 appear as \\udcXX, as Python names them."""
    try:
        data = msgspec.json.encode(body)
    except UnicodeEncodeError:
        import json

        return json.dumps(msgspec.to_builtins(body), indent=indent).encode()
    return _UNSAFE.sub(_escape, data if indent is None else msgspec.json.format(data, indent=indent))


def _escape(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found[0].decode())
