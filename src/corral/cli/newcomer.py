"""What `corral ps` says on a machine without any session: what it looked for, and commands to try that work here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from corral.cli.screen import tilde
from corral.engine.catalogue import all_providers
from corral.model.session import Survey

_ROOT = Path(__file__).resolve().parents[3]
_AGENT = _ROOT / "examples" / "reference_agent.py"


def say_nothing_found(survey: Survey) -> list[str]:
    looked = ", ".join(provider.capabilities.title for provider in all_providers())
    homes = ", ".join(tilde(home.path) for home in survey.homes)
    corral = _own_command()
    tries = [(f"{corral} doctor", "what is installed, and where corral looks")]
    if survey.homes:
        tries.append((f"{corral} hooks install", "so that running agents tell which session they serve"))
    width = max(len(command) for command, _ in tries)
    return [
        "No agent sessions on this machine.",
        f"  looked for: {looked}",
        f"  in:         {homes or 'their homes: none of them exists yet'}",
        "Try:",
        *(f"  {command:<{width}}  {why}" for command, why in tries),
        *(_say_example(corral) if _AGENT.is_file() else ()),
    ]


def _say_example(corral: str) -> list[str]:
    return [
        "Or start an agent that is made for trying, and look at it from another terminal:",
        f"  {_near(sys.executable)} {_near(str(_AGENT))} --home /tmp/try-corral",
        f"  KIMI_SHARE_DIR=/tmp/try-corral {corral} ps",
    ]


def _own_command() -> str:
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
