"""How this very program can be called where the person stands, for advice that works when it is typed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from corral.cli.screen import tilde

_ROOT = Path(__file__).resolve().parents[3]


def own_command() -> str:
    """`corral` where PATH leads to this program, else the way that it was called."""
    called = sys.argv[0]
    for folder in os.get_exec_path():
        if os.path.realpath(os.path.join(folder, "corral")) == os.path.realpath(called):
            return "corral"
    return _near(called) if os.path.basename(called) == "corral" else "corral"


def _near(path: str) -> str:
    """Relative where the person stands in the checkout, else as it can be typed anywhere."""
    here = Path.cwd()
    in_checkout = here == _ROOT or _ROOT in here.parents
    return os.path.relpath(path) if in_checkout else tilde(os.path.abspath(path))
