"""How long the proofs run: a few rounds in every `make test`, hundreds and thousands with `LONG=1`."""

from __future__ import annotations

import os
import secrets
import time

IS_LONG = bool(os.environ.get("CORRAL_LONG"))
"""Set by `make unit LONG=1` and `make contract LONG=1`."""
SEED_VARIABLE = "CORRAL_SEED"
"""What chance decides in a run; each run has another one and names it. Set it to repeat a run."""

KILLS = 100 if IS_LONG else 5
"""Per CLI."""
KILLS_PER_HOME = 5
REUSES = 20_000 if IS_LONG else 200
"""Judged in one process."""
COMMAND_REUSES = 500 if IS_LONG else 5
"""Judged by the command, each look by a process of its own."""

SERVER_KILLS = 200 if IS_LONG else 20
"""Of one server with many tabs."""
START_STEPS = range(0, 26, 1 if IS_LONG else 9)
"""After so many of its steps a server that starts is killed."""
UNSEEN_REUSES = 10_000 if IS_LONG else 1_000
"""Of the number of a process that no CLI has, in a namespace where numbers come round quickly."""
SCREENS = int(os.environ.get("CORRAL_SCREENS") or (60 if IS_LONG else 20))
"""Generated sessions of a terminal, times two or by some, as a test needs them."""

WORLDS = 80 if IS_LONG else 20
"""Generated homes whose logs are read in any order."""

MINUTES_VARIABLE = "CORRAL_MINUTES"
"""How long a run may take, if that matters: then it ends early, and its figures say how much of it was run."""
UNTIL_VARIABLE = "CORRAL_UNTIL"


def begin() -> None:
    """Once per run, before its workers start: they inherit both."""
    os.environ.setdefault(SEED_VARIABLE, str(secrets.randbelow(10**9)))
    if minutes := os.environ.get(MINUTES_VARIABLE):
        os.environ.setdefault(UNTIL_VARIABLE, str(time.time() + 60 * float(minutes)))


def is_time_over() -> bool:
    return time.time() > float(os.environ.get(UNTIL_VARIABLE) or "inf")


def seed_of(*parts: object) -> str:
    """The seed of one part of this run."""
    return "-".join(map(str, (os.environ[SEED_VARIABLE], *parts)))
