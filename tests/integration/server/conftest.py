"""Fixtures of the server tests."""

from __future__ import annotations

import pytest

from tests.integration.server.serving import Serving
from tests.integration.terminals.world import World


@pytest.fixture
def world(tmp_path):
    found = World(tmp_path)
    yield found
    found.end()


@pytest.fixture
def serving(world):
    found = Serving(world)
    yield found
    found.kill()


@pytest.fixture(scope="module")
def shared_serving(tmp_path_factory):
    """One server for all the tests of a file, which do not mind each other."""
    world = World(tmp_path_factory.mktemp("shared"))
    found = Serving(world)
    yield found
    found.kill()
    world.end()
