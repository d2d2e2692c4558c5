"""How the server says no: one JSON shape for every error, with the same words as the command line and the log."""

from __future__ import annotations

from msgspec import Struct, structs
from starlette.responses import Response

from corral.machine.json_text import encode_json
from corral.machine.text import readable
from corral.model.refusal import RefusalReport, report_refusal
from corral.model.restore import Refusal, Refused

_CONFLICT = 409
_STATUS = {
    Refusal.INVALID: 400,
    Refusal.TOO_LARGE: 400,
    Refusal.NOT_LOGGED_IN: 401,
    Refusal.LOGIN_UNKNOWN: 401,
    Refusal.WRONG_PROOF: 401,
    Refusal.WRONG_ORIGIN: 403,
    Refusal.WRONG_CONTENT_TYPE: 403,
    Refusal.HEADER_MISSING: 403,
    Refusal.NOT_FOUND: 404,
    Refusal.NO_SUCH_SESSION: 404,
    Refusal.NO_SUCH_TAB: 404,
    Refusal.NO_SUCH_PROVIDER: 404,
    Refusal.NO_SUCH_LOGIN: 404,
    Refusal.METHOD_NOT_ALLOWED: 405,
    Refusal.TOO_SLOW: 408,
    Refusal.WRONG_HOST: 421,
    Refusal.TOO_MANY: 429,
    Refusal.BUG: 500,
}
"""All others are conflicts: the request was understood, and as things are it can't be done."""


class ErrorDocument(Struct, frozen=True, kw_only=True):
    """Every answer with a status of 400 and above."""

    error: RefusalReport


def status_of(refused: Refused) -> int:
    return _STATUS.get(refused.reason, _CONFLICT)


def answer_refused(refused: Refused, status: int | None = None) -> Response:
    report = structs.replace(report_refusal(refused), message=readable(refused.message))
    data = encode_json(ErrorDocument(error=report))
    return Response(data, status or status_of(refused), media_type="application/json")
