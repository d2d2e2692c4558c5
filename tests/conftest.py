"""For all tests: a slow or busy machine is no defect, a wrong answer is one at once."""

from __future__ import annotations

import subprocess
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "corral", deadline=None, database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("corral")

ONLY_LATE = 10
"""The exit code when nothing was wrong, but something awaited did not come in time: that is looked at again, alone."""
_MOST_LATE = 3
_LATE = "late"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo is not None and _is_late(call.excinfo.value):
        report.user_properties.append((_LATE, True))
    return report


def _is_late(error: BaseException) -> bool:
    """Whether a wait ran out, and not while cleaning up after something wrong."""
    before = error.__context__
    while before is not None:
        if isinstance(before, AssertionError):
            return False
        before = before.__context__
    return isinstance(error, TimeoutError | subprocess.TimeoutExpired)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Failures(), "failures")


class _Failures:
    """How many tests failed, and how many of them only because a wait ran out."""

    def __init__(self) -> None:
        self.late = self.wrong = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and (_LATE, True) in map(tuple, report.user_properties):
            self.late += 1
        elif report.failed:
            self.wrong += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.TESTS_FAILED and not self.wrong and 0 < self.late <= _MOST_LATE:
            session.exitstatus = ONLY_LATE
