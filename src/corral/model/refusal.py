"""A refusal on its way to a person: raised as an error, or sent as JSON. The value itself is `restore.Refused`."""

from __future__ import annotations

from msgspec import Struct

from corral.errors import CorralError
from corral.model.restore import GoThere, Loss, Refusal, Refused, Remedy, list_commands, say_remedy


class RefusedError(CorralError):
    """Nothing was done. The command line prints it; other views show `refused`."""

    def __init__(self, refused: Refused, what: str | None = None, *, exit_code: int = 1) -> None:
        """`what` says what does not happen: "… is not resumed"."""
        message = refused.message if what is None else f"{what} ({refused.reason}): {refused.message}"
        super().__init__(message, hint=say_remedy(refused.remedy), exit_code=exit_code)
        self.refused = refused


def refuse(reason: Refusal, message: str, *remedy: Remedy) -> RefusedError:
    """To be raised where nothing else is to be said."""
    return RefusedError(Refused(reason=reason, message=message, remedy=remedy))


class RefusalReport(Struct, frozen=True, kw_only=True):
    """Why not: a machine's word, one plain sentence, what one can do. The same words as in the log."""

    reason: Refusal
    message: str
    remedy: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """Those of `remedy` that can be typed as they are."""
    go_there: GoThere | None = None
    loss: Loss | None = None
    """What opening it would drop: agreed to by `drop_from`, with its line."""


def report_refusal(refused: Refused) -> RefusalReport:
    return RefusalReport(
        reason=refused.reason,
        message=refused.message,
        remedy=say_remedy(refused.remedy),
        commands=list_commands(refused.remedy),
        go_there=refused.go_there,
        loss=refused.loss,
    )
