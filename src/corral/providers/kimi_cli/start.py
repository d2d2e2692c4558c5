"""A fresh kimi-cli session in a directory, with an id that the caller chose."""

from __future__ import annotations

from corral.model.key import Home, SessionKey
from corral.model.restore import Program, Refusal, Refused, Start
from corral.providers.kimi_cli.places import HOME_VARIABLE, NAME
from corral.providers.kimi_cli.registry import LOCAL, WorkDir, read_registry


def plan_start(work_dir: str, session_id: str | None, program: Program, home: Home) -> Start | Refused:
    """kimi 1.51 makes a session of an id that it does not know, and files it under the directory (2026-11)."""
    registry = read_registry(home.path)
    if registry.problem is not None:
        return Refused(
            reason=Refusal.WORK_DIR_UNREGISTERED,
            message=f"{registry.problem}, and kimi-cli does not start with such a file",
            remedy=(f"repair or move away {home.path}/kimi.json",),
        )
    chosen = () if session_id is None else ("--session", session_id)
    scope = WorkDir(work_dir, LOCAL).bucket
    return Start(
        argv=(program.path, "-w", work_dir, *chosen),
        cwd=work_dir,
        env={} if home.is_default else {HOME_VARIABLE: home.path},
        key=None if session_id is None else SessionKey(NAME, home.path, scope, session_id),
    )
