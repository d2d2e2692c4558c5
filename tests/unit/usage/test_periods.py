"""Times as people type them: what is no time is said, whatever its size."""

from __future__ import annotations

from datetime import UTC

import pytest

from corral.errors import CorralError
from corral.usage.query import parse_time


def test_days_and_hours_are_counted_back_from_now():
    assert parse_time("2d", UTC, 200_000.0) == 200_000.0 - 2 * 86_400
    assert parse_time("12h", UTC, 200_000.0) == 200_000.0 - 12 * 3_600


@pytest.mark.parametrize("text", ["9999999999d", "9" * 30 + "h", "9" * 5000 + "d", "d", ""])
def test_what_is_no_time_is_refused(text: str):
    with pytest.raises(CorralError, match="is not a time"):
        parse_time(text, UTC, 200_000.0)
