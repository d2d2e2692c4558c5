"""The few words of `typing` that code needs when it runs: importing the real one takes longer than our hook may.

A module that uses NamedTuple from here needs `from __future__ import annotations`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple, Protocol, cast, overload
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


__all__ = ["NamedTuple", "Protocol", "cast", "overload"]
