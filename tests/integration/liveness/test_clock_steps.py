"""The wall clock set forward or back between the record and the reader, by a library that lies about time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral.model.claim import Claim
from tests.integration.liveness.machine import (
    Question,
    environment,
    exact,
    identity_of,
    judge_within,
    need,
    record,
    running,
)
from tests.integration.liveness.test_real_processes import compile_c

_SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
static long step(void) { const char *s = getenv("CLOCK_STEP"); return s ? atol(s) : 0; }
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, t);
    if (id == CLOCK_REALTIME) t->tv_sec += step();
    return result;
}
"""
HOUR = 3600
MONTH = 30 * 24 * HOUR


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    library = compile_c(tmp_path_factory.mktemp("shim"), "clock.so", _SHIM, "-shared", "-fPIC")
    shown = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time())"],
        env=environment(LD_PRELOAD=library, CLOCK_STEP=str(MONTH)),
        check=True,
        capture_output=True,
        timeout=60,
    )
    own = subprocess.run(["date", "+%s"], check=True, capture_output=True, timeout=60)
    assert abs(float(shown.stdout) - float(own.stdout) - MONTH) < 60, "the library does not reach this Python"
    return library


def judge_after_step(shim: str, seconds: int, *questions: Question | Claim) -> list[str]:
    return judge_within([], questions, variables={"LD_PRELOAD": shim, "CLOCK_STEP": str(seconds)})


def test_12_a_forward_step_makes_a_stranger_look_reused(shim: str) -> None:
    """The known limit of a v1 record without a pin; boot id and ticks in the record lift it."""
    with running() as child:
        verdicts = judge_after_step(shim, HOUR, record(child.pid), exact(child.pid))
    assert verdicts[0] in ("stale(reused)", "stale(reboot)")
    assert verdicts[1] == "live(exact)"


@pytest.mark.parametrize("step", [HOUR, MONTH])
def test_12_a_process_that_looks_like_the_claims_own_is_not_called_dead(shim: str, step: int, tmp_path: Path) -> None:
    program = tmp_path / "kimi"
    os.symlink(os.path.realpath(need("sleep")), program)
    with running(str(program), "300", cwd=tmp_path) as child:
        claim = record(child.pid, work_dir=str(tmp_path))
        assert judge_after_step(shim, step, claim) == ["unknown(clock-step)"]
        assert judge_after_step(shim, 0, claim) == ["live(began-before)"]


def test_13_a_backward_step_makes_a_record_of_the_future(shim: str) -> None:
    with running() as child:
        verdicts = judge_after_step(shim, -HOUR, record(child.pid), exact(child.pid))
    assert verdicts == ["unknown(future)", "live(exact)"]


@pytest.mark.parametrize("step", [HOUR, -HOUR, MONTH])
def test_14_a_pin_decides_whatever_the_clock_says(shim: str, step: int) -> None:
    with running() as child:
        pin = identity_of(child.pid)
        claim = record(child.pid)
        assert judge_after_step(shim, step, Question(claim, pin)) == ["live(pinned)"]
        other = pin._replace(start_ticks=pin.start_ticks - 1)
        assert judge_after_step(shim, step, Question(claim, other)) == ["stale(reused)"]
    assert judge_after_step(shim, step, Question(claim, pin)) == ["stale(gone)"]
