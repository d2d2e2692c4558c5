"""`typing` and `json` for code that must start fast: importing the real ones takes longer than our hook may.

A module that uses NamedTuple from here needs `from __future__ import annotations`. The JSON parser and encoder are
those of `json` itself, in C. Where they are missing, and for every error, `json` answers: results and messages are
the same.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NamedTuple, Protocol, cast, overload
else:

    class _Record(tuple):
        """What `collections.namedtuple` gives, without its import and without compiling code for each class."""

        __slots__ = ()
        _fields = ()
        _field_defaults = {}  # noqa: RUF012 - never changed

        def __new__(cls, *values, **named):
            if named or len(values) != len(cls._fields):
                rest = cls._fields[len(values) :]
                given = {**cls._field_defaults, **named}
                missing = [field for field in rest if field not in given]
                unknown = [field for field in named if field not in rest]
                if missing or unknown or len(values) > len(cls._fields):
                    raise TypeError(f"{cls.__name__}: missing {missing}, unexpected {unknown or values}")
                values += tuple(given[field] for field in rest)
            return tuple.__new__(cls, values)

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **named):
            return type(self)(**{**self._asdict(), **named})

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

        def __getnewargs__(self):
            return tuple(self)

    class _RecordMaker(type):
        """Makes `class Point(NamedTuple)` such a record."""

        def __new__(cls, name, bases, members):
            if not bases:
                return super().__new__(cls, name, bases, members)
            fields = tuple(members.get("__annotations__", ()))
            defaults = {field: members[field] for field in fields if field in members}
            own = {"__slots__": (), "__match_args__": fields, "_fields": fields, "_field_defaults": defaults}
            getters = {field: _getter(position) for position, field in enumerate(fields)}
            return type(name, (_Record,), {**members, **own, **getters})

    def _getter(position):
        try:
            from _collections import _tuplegetter
        except ImportError:
            return property(lambda record: record[position])
        return _tuplegetter(position, None)

    class NamedTuple(metaclass=_RecordMaker):
        pass

    class Protocol:
        pass

    def cast(kind, value):
        return value

    def overload(function):
        return function


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


__all__ = ["NamedTuple", "Protocol", "cast", "dumps", "loads", "overload"]
