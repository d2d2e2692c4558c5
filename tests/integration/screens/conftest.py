"""Fixtures of the tests that compare screens."""

from __future__ import annotations

import pytest

from tests.integration.screens.xterm import running_xterms
from tests.integration.terminals.held import holding
from tests.integration.terminals.world import World


@pytest.fixture(scope="session")
def xterms():
    yield from running_xterms()


@pytest.fixture
def held(tmp_path):
    yield from holding(tmp_path / "terminals")


@pytest.fixture
def world(tmp_path):
    found = World(tmp_path)
    yield found
    found.end()
