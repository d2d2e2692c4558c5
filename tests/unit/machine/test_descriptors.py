"""A raised limit stays with the process that raised it; waiting, also for a descriptor that select() does not know."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys

import pytest

from corral.machine.descriptors import is_ready

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


RAISING = """\
import resource, subprocess, sys
from corral.machine.descriptors import raise_limit, with_given_limit
code = "import resource, sys; print(*resource.getrlimit(resource.RLIMIT_NOFILE), *sys.argv[1:])"
say = [sys.executable, "-I", "-S", "-c", code, "a b", "$x"]
resource.setrlimit(resource.RLIMIT_NOFILE, (200, int(sys.argv[1])))
def tell(words): print(subprocess.check_output(words, text=True).strip(), flush=True)
tell(with_given_limit(say))
raise_limit()
tell(say)
tell(with_given_limit(say))
tell(say)
"""


@pytest.mark.parametrize(("hard", "raised"), [(900, 900), (70_000, 65_536), (200, 200)])
def test_a_raised_limit_is_kept_from_what_is_started(hard, raised):
    if hard > resource.getrlimit(resource.RLIMIT_NOFILE)[1]:
        hard = raised = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    done = subprocess.run([sys.executable, "-c", RAISING, str(hard)], capture_output=True, text=True, check=True)
    softs = (200, raised, 200, raised)
    assert done.stdout.splitlines() == [f"{soft} {hard} a b $x" for soft in softs]
