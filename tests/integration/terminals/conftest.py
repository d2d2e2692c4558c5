"""Fixtures of the terminal tests."""

from __future__ import annotations

import pytest

from tests.integration.terminals.held import holding
from tests.integration.terminals.world import World


@pytest.fixture
def held(tmp_path):
    yield from holding(tmp_path / "terminals")


@pytest.fixture
def world(tmp_path):
    found = World(tmp_path)
    yield found
    found.end()
