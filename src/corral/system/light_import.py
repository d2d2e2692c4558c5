"""Importing msgspec without what it would bring along."""

from __future__ import annotations

import importlib
import sys


def import_msgspec() -> None:
    """msgspec prefers typing_extensions, where that is installed, for what typing can do as well since 3.11.

    It would bring `inspect` along and cost a sixth of the time that `corral ps` may take.
    """
    if "msgspec" in sys.modules:
        return
    absent = "typing_extensions" not in sys.modules
    if absent:
        sys.modules["typing_extensions"] = None  # pyright: ignore[reportArgumentType]
    importlib.import_module("msgspec")
    if absent:
        del sys.modules["typing_extensions"]
