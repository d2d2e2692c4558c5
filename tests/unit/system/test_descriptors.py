"""Waiting for a descriptor, also for one whose number is beyond what select() knows."""

from __future__ import annotations

import fcntl
import os
import resource

import pytest

from corral.system.descriptors import is_ready

HIGH = 1500


@pytest.fixture
def pipe():
    """Its read end has a number from 1500 on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft <= HIGH:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * HIGH, hard))
    low, write = os.pipe()
    read = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH)
    os.close(low)
    ends = [read, write]
    yield ends
    for end in ends:
        os.close(end)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_there_is_something_to_read_or_not(pipe):
    read, write = pipe
    assert not is_ready(read, 0.0)
    os.write(write, b"x")
    assert is_ready(read, None)


def test_an_end_is_something_to_read(pipe):
    os.close(pipe.pop())
    assert is_ready(pipe[0], None)
