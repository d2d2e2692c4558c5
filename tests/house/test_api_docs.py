"""docs/api.md says what is served, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from corral.server.app import ENDPOINTS
from corral.server.openapi import describe_api

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date():
    done = subprocess.run([sys.executable, "tools/make_api_docs.py", "--check"], cwd=ROOT, timeout=60)
    assert done.returncode == 0, "run tools/make_api_docs.py"


def test_every_route_of_the_api_is_described():
    paths = describe_api(ENDPOINTS)["paths"]
    assert {one.path for one in ENDPOINTS if one.path.startswith("/api/")} == set(paths)
    assert all(one.summary for one in ENDPOINTS)
