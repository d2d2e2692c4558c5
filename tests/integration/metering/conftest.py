"""Fixtures of the metering tests."""

from __future__ import annotations

import pytest

from tests.integration.metering.lab import Lab
from tests.integration.terminals.conftest import world

__all__ = ["lab", "world"]


@pytest.fixture
def lab(world):
    found = Lab(world)
    yield found
    found.end()
