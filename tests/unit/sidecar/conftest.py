"""Fixtures of the sidecar tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another living process."""
    child = subprocess.Popen(["sleep", "300"])
    yield child
    child.kill()
    child.wait()
