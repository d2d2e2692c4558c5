"""How the server says no: one JSON shape for every error, with the same words as the command line and the log."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import Response

from corral.model.restore import Loss, Remedy, list_commands, say_remedy
from corral.system.json_text import encode_json
from corral.system.text import readable


class GoThere(Struct, frozen=True, kw_only=True):
    """A place outside corral where the session is open."""

    kind: str
    target: str
    command: tuple[str, ...]


class ErrorBody(Struct, frozen=True, kw_only=True):
    """Why not: a machine's word, one plain sentence, what one can do."""

    reason: str
    message: str
    remedy: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """Those of `remedy` that can be typed as they are."""
    go_there: GoThere | None = None
    loss: Loss | None = None
    """What opening it would drop: agreed to by `drop_from`, with its line."""


class ErrorDocument(Struct, frozen=True, kw_only=True):
    """Every answer with a status of 400 and above."""

    error: ErrorBody


class Refusing(Exception):
    """Raised by a handler: becomes the response."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        remedy: tuple[Remedy, ...] = (),
        go_there: GoThere | None = None,
        loss: Loss | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = ErrorBody(
            reason=reason,
            message=readable(message),
            remedy=say_remedy(remedy),
            commands=list_commands(remedy),
            go_there=go_there,
            loss=loss,
        )

    def response(self, headers: dict[str, str] | None = None) -> Response:
        data = encode_json(ErrorDocument(error=self.body))
        return Response(data, self.status, headers, "application/json")
