"""What is looked at a second time: waits that ran out, a few of them, and nothing that was wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ONLY_LATE

ROOT = Path(__file__).parents[2]
LATE = "def test_late_{}(): raise TimeoutError\n"
CASES = {
    "late": (LATE.format(1), ONLY_LATE),
    "late beside right": (LATE.format(1) + "def test_right(): pass\n", ONLY_LATE),
    "late beside wrong": (LATE.format(1) + "def test_wrong(): assert False\n", 1),
    "late while cleaning up after wrong": ("def test_wrong():\n try: assert False\n finally: raise TimeoutError\n", 1),
    "late in a fixture, then wrong": (
        "import pytest\n@pytest.fixture\ndef end():\n yield\n raise TimeoutError\ndef test_wrong(end): assert False\n",
        1,
    ),
    "many late": ("".join(LATE.format(number) for number in range(9)), 1),
    "right": ("def test_right(): pass\n", 0),
}


def run_case(directory: Path, case: str, *options: str) -> int:
    path = directory / "test_case.py"
    path.write_text(CASES[case][0])
    words = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", *options]
    return subprocess.run([*words, "--rootdir", directory, path], cwd=ROOT, capture_output=True, timeout=120).returncode


@pytest.mark.parametrize("case", CASES)
def test_only_waits_that_ran_out_are_looked_at_again(tmp_path, case):
    assert run_case(tmp_path, case) == CASES[case][1]


@pytest.mark.parametrize("case", ["late beside right", "late beside wrong"])
def test_workers_tell_what_was_late(tmp_path, case):
    assert run_case(tmp_path, case, "-n", "1") == CASES[case][1]
