"""A fresh Qwen session in a directory, with an id that the caller chose."""

from __future__ import annotations

import os

from corral.model.key import Home, SessionKey
from corral.model.restore import Program, Refused, Start
from corral.providers.qwen_code.places import encode_project
from corral.providers.qwen_code.restore import home_environment


def plan_start(work_dir: str, session_id: str | None, program: Program, home: Home) -> Start | Refused:
    """qwen 0.24.4 takes a UUID that it does not know, and files it under the directory's real path (2026-11)."""
    chosen = () if session_id is None else ("--session-id", session_id)
    scope = encode_project(os.path.realpath(work_dir))
    return Start(
        argv=(program.path, *chosen),
        cwd=work_dir,
        env=home_environment(home),
        key=None if session_id is None else SessionKey(home.provider, home.path, scope, session_id),
    )
