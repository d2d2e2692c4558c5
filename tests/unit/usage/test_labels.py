"""Days, weeks and hours where clocks change, in a named zone and in the machine's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from corral.machine.local_zone import LocalZone
from corral.usage.groups import Labels

BERLIN = "Europe/Berlin"


@pytest.fixture
def local_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", BERLIN)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.usefixtures("local_berlin")
@pytest.mark.parametrize("zone", [ZoneInfo(BERLIN), LocalZone()], ids=["named", "local"])
@pytest.mark.parametrize(
    ("utc", "day", "hour", "week"),
    [
        ("2026-07-01T22:30:00", "2026-07-02", "2026-07-02 00:00", "2026-06-29"),
        ("2026-12-01T22:30:00", "2026-12-01", "2026-12-01 23:00", "2026-11-30"),
        ("2026-10-24T21:59:00", "2026-10-24", "2026-10-24 23:00", "2026-10-19"),
        ("2026-10-25T00:30:00", "2026-10-25", "2026-10-25 02:00", "2026-10-19"),
        ("2026-10-25T01:30:00", "2026-10-25", "2026-10-25 02:00 (again)", "2026-10-19"),
        ("2026-10-25T02:30:00", "2026-10-25", "2026-10-25 03:00", "2026-10-19"),
        ("2026-03-29T00:59:00", "2026-03-29", "2026-03-29 01:00", "2026-03-23"),
        ("2026-03-29T01:00:00", "2026-03-29", "2026-03-29 03:00", "2026-03-23"),
        ("2026-12-31T23:00:00", "2027-01-01", "2027-01-01 00:00", "2026-12-28"),
    ],
)
def test_a_time_has_the_name_that_clocks_showed_then(zone: tzinfo, utc: str, day: str, hour: str, week: str) -> None:
    labels = Labels(zone)
    assert [labels.find(kind, at(utc)) for kind in ("day", "hour", "week", "month")] == [day, hour, week, day[:7]]


@pytest.mark.usefixtures("local_berlin")
def test_a_local_date_begins_at_the_midnight_of_its_season() -> None:
    zone = LocalZone()
    assert datetime(2026, 7, 1, tzinfo=zone).timestamp() == at("2026-06-30T22:00:00")
    assert datetime(2026, 12, 1, tzinfo=zone).timestamp() == at("2026-11-30T23:00:00")


def test_zones_with_odd_offsets_have_their_own_hours() -> None:
    assert Labels(ZoneInfo("Asia/Kathmandu")).find("hour", at("2026-11-15T18:20:00")) == "2026-11-16 00:00"
    assert Labels(ZoneInfo("Asia/Kathmandu")).find("hour", at("2026-11-15T18:10:00")) == "2026-11-15 23:00"
