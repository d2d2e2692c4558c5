"""A refusal as the page gets it with a tab: the same words as in the log, and which of them are commands."""

from __future__ import annotations

from msgspec import Struct

from corral.engine.restore import NotOpened
from corral.model.restore import Loss, Refused, list_commands, say_remedy


class RefusalReport(Struct, frozen=True, kw_only=True):
    """Why a tab did not come back; the same words as in the log."""

    reason: str
    message: str
    remedy: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """Those of `remedy` that can be typed as they are."""
    loss: Loss | None = None
    """What opening it would drop; the person may agree to that."""


def report_refusal(refused: Refused | NotOpened) -> RefusalReport:
    return RefusalReport(
        reason=refused.reason,
        message=refused.message,
        remedy=say_remedy(refused.remedy),
        commands=list_commands(refused.remedy),
        loss=refused.loss,
    )
