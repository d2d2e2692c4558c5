"""How a page gets in: the server proves itself, then the page; tickets for its WebSockets; the list of those inside."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from corral.errors import CorralError
from corral.model.refusal import refuse
from corral.model.restore import Command, Refusal
from corral.server import messages
from corral.server.api import answer, done, read_body, service_of
from corral.server.credentials import TOKEN_SECONDS, Caller, Credentials
from corral.server.guard import Guard


async def greet(request: Request) -> Response:
    wanted = await read_body(request, messages.Hello)
    credentials = _credentials_of(request)
    proven = await service_of(request).run(lambda: credentials.begin(wanted.login, wanted.nonce))
    if proven is None:
        await _guard_of(request).delay_failure()
        message = "this link was used already or is too old, or this login was ended"
        raise refuse(Refusal.LOGIN_UNKNOWN, message, Command("corral url"))
    nonce, proof = proven
    return answer(messages.ServerProof(nonce=nonce, proof=proof))


async def take_proof(request: Request) -> Response:
    shown = await read_body(request, messages.PageProof)
    credentials = _credentials_of(request)
    try:
        proven = await service_of(request).run(lambda: credentials.finish(shown.nonce, shown.proof, shown.label))
    except CorralError as error:
        raise refuse(Refusal.NOT_SAVED, f"this login could not be kept: {error.message}") from error
    if proven is None:
        await _guard_of(request).delay_failure()
        raise refuse(Refusal.WRONG_PROOF, "the proof is wrong or came too late", Command("corral url"))
    login = proven.login.login if proven.login is not None else None
    return answer(messages.PageToken(token=proven.token, seconds=TOKEN_SECONDS, login=login, salt=proven.salt))


async def make_ticket(request: Request) -> Response:
    wanted = await read_body(request, messages.TicketWanted)
    caller: Caller = request.scope["corral.caller"]
    ticket = _credentials_of(request).make_ticket(caller, wanted.nonce)
    if ticket is None:
        raise refuse(Refusal.INVALID, "tickets are for pages that are logged in; programs show the token itself")
    return answer(messages.SocketTicket(ticket=ticket.ticket, proof=ticket.proof))


async def list_logins(request: Request) -> Response:
    found = _credentials_of(request).logins.list()
    reports = (
        messages.LoginReport(login=one.login, label=one.label, created_at=one.created_at, used_at=one.used_at)
        for one in found
    )
    return answer(messages.LoginList(logins=tuple(reports)))


async def end_login(request: Request) -> Response:
    login = request.path_params["login"]
    credentials = _credentials_of(request)
    try:
        known = await service_of(request).run(lambda: credentials.end(login))
    except CorralError as error:
        message = f"it is ended until this server stops, and not for good: {error.message}"
        raise refuse(Refusal.NOT_SAVED, message) from error
    finally:
        _guard_of(request).end(login)
    if not known:
        raise refuse(Refusal.NO_SUCH_LOGIN, "there is no such login (any more)")
    return done()


def _credentials_of(request: Request) -> Credentials:
    return request.app.state.credentials


def _guard_of(request: Request) -> Guard:
    return request.app.state.guard
