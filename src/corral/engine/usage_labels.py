"""Days, weeks, months and hours: the local names of times."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

TIME_KEYS = ("day", "week", "month", "hour")
_SLOT_S = 900
"""Every time zone's offset is a multiple of this: times within a slot have the same local date and hour."""


class Labels:
    """Local names of times, worked out once per quarter of an hour."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._known: dict[tuple[str, int], str] = {}

    def find(self, kind: str, at: float) -> str:
        slot = int(at // _SLOT_S)
        if (kind, slot) not in self._known:
            self._known[kind, slot] = _name(kind, datetime.fromtimestamp(slot * _SLOT_S, self._zone))
        return self._known[kind, slot]


def _name(kind: str, local: datetime) -> str:
    match kind:
        case "day":
            return local.date().isoformat()
        case "week":
            return (local.date() - timedelta(days=local.weekday())).isoformat()
        case "month":
            return local.date().isoformat()[:7]
        case _:
            # When clocks go back an hour comes twice: the second one says so.
            return f"{local.date().isoformat()} {local.hour:02}:00" + (" (again)" if local.fold else "")
