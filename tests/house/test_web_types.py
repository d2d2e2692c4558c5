"""The page's types are what the server says, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_types_of_the_page_are_up_to_date():
    done = subprocess.run([sys.executable, "tools/make_web_types.py", "--check"], cwd=ROOT, timeout=60)
    assert done.returncode == 0, "run tools/make_web_types.py"
