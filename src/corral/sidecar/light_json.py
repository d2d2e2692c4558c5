"""JSON without the import of `json`, which brings `re` along and takes longer than our hook may.

The parser and the encoder are those of `json` itself, in C. Where they are missing, and for every error, it is
`json` that answers: results and messages are the same.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BLANKS = " \t\n\r"


def loads(
    text: str,
    *,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], object] | None = None,
    parse_constant: Callable[[str], object] | None = None,
) -> Any:
    """As json.loads. Raises ValueError, which is a json.JSONDecodeError for malformed text, or RecursionError."""
    try:
        from _json import make_scanner  # type: ignore

        scan: Any = make_scanner(_Settings(object_pairs_hook, parse_constant))  # type: ignore
        value, end = scan(text, len(text) - len(text.lstrip(_BLANKS)))
        if not text[end:].strip(_BLANKS):
            return value
    except (ImportError, AttributeError, TypeError, StopIteration, SystemError):
        pass  # SystemError: Python 3.11 wants to raise json's own error, and json is not there
    import json

    return json.loads(text, object_pairs_hook=object_pairs_hook, parse_constant=parse_constant)


def dumps(value: object, *, ascii_only: bool = True) -> str:
    """As json.dumps, without blanks."""
    try:
        from _json import encode_basestring, encode_basestring_ascii, make_encoder  # type: ignore

        text: Any = encode_basestring_ascii if ascii_only else encode_basestring
        encode: Any = make_encoder({}, _refuse, text, None, ":", ",", False, False, True)
        return "".join(encode(value, 0))
    except (ImportError, AttributeError):
        import json

        return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))


class _Settings:
    """What the parser in C asks of its JSONDecoder."""

    strict = True
    object_hook = None
    parse_float = float
    parse_int = int

    def __init__(
        self,
        object_pairs_hook: Callable[[list[tuple[str, Any]]], object] | None,
        parse_constant: Callable[[str], object] | None,
    ) -> None:
        self.object_pairs_hook = object_pairs_hook
        self.parse_constant = parse_constant or float  # "NaN", "Infinity" and "-Infinity"


def _refuse(value: object) -> object:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
