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
        self._known: dict[int, dict[str, str]] = {}

    def find(self, kind: str, at: float) -> str:
        slot = int(at // _SLOT_S)
        if slot not in self._known:
            local = datetime.fromtimestamp(slot * _SLOT_S, self._zone)
            monday = local.date() - timedelta(days=local.weekday())
            # When clocks go back an hour comes twice: the second one says so.
            again = " (again)" if local.fold else ""
            self._known[slot] = {
                "day": local.strftime("%Y-%m-%d"),
                "week": monday.isoformat(),
                "month": local.strftime("%Y-%m"),
                "hour": local.strftime("%Y-%m-%d %H:00") + again,
            }
        return self._known[slot][kind]
