"""The machine's own time zone, with its summer times: what the C library says of any moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo


class LocalZone(tzinfo):
    """Local time by the offset at that moment, not by today's."""

    def fromutc(self, dt: datetime) -> datetime:
        return datetime.fromtimestamp(dt.replace(tzinfo=UTC).timestamp()).replace(tzinfo=self)

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        return dt.replace(tzinfo=None).astimezone().utcoffset() if dt is not None else None

    def dst(self, dt: datetime | None) -> timedelta | None:
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        return dt.replace(tzinfo=None).astimezone().tzname() if dt is not None else None
