"""A fresh kimi-code session in a directory; its id is kimi-code's own, made with the first prompt."""

from __future__ import annotations

from corral.model.key import Home
from corral.model.restore import Program, Refused, Start
from corral.providers.kimi_code.places import HOME_VARIABLE


def plan_start(work_dir: str, session_id: str | None, program: Program, home: Home) -> Start | Refused:
    """kimi 2.1 knows no option for the directory, and refuses an id that it did not make (2026-11)."""
    return Start(
        argv=(program.path,),
        cwd=work_dir,
        env={} if home.is_default else {HOME_VARIABLE: home.path},
        key=None,
    )
