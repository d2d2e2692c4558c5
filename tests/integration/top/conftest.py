"""Fixtures of the metering tests."""

from __future__ import annotations

import pytest

from tests.integration.terminals.conftest import world
from tests.integration.top.lab import Lab

__all__ = ["lab", "world"]


@pytest.fixture
def lab(world):
    found = Lab(world)
    yield found
    found.end()
