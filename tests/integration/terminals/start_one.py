"""Starts one terminal and says so; run by tests that then do something to the one who started it."""

from __future__ import annotations

import sys

from corral.terminals.start import start_terminal
from tests.integration.terminals.held import BASH, ENV

if __name__ == "__main__":
    started = start_terminal(sys.argv[1], BASH, cwd="/", env=ENV, tab="0123456789abcdef")
    print(*started.holder, *started.child, sep="\n", flush=True)
    sys.stdin.read()
