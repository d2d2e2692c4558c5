"""What each route does: ask the service, answer with a message. Nothing about sessions is decided here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocket

from corral import hooks, tabs, usage
from corral.errors import CorralError
from corral.machine import places
from corral.machine.descriptors import are_left, most_open
from corral.machine.json_text import encode_json
from corral.machine.text import readable
from corral.model.hook_install import Outcome
from corral.model.opening import Agreement
from corral.model.refusal import RefusedError, refuse
from corral.model.restore import Command, Refusal
from corral.model.whereabouts import Found, InPane, InTab, InTerminal
from corral.server import messages
from corral.server.credentials import TOKEN_SECONDS, Caller, Credentials
from corral.server.event_stream import BEAT_SECONDS
from corral.server.guard import Guard
from corral.server.service import Service
from corral.server.terminal_socket import serve_terminal
from corral.terminals import terminals_dir
from corral.version import __version__

_T = TypeVar("_T")
_MOST_BODY = 64 << 10
_BODY_SECONDS = 10.0
_TO_OPEN = 24
"""How many files a start of a tab opens at once, at most."""
_MOST_DIRECTORIES = 50
_MOST_LOOKED_AT = 5000


def service_of(request: Request | WebSocket) -> Service:
    return request.app.state.service


def credentials_of(request: Request) -> Credentials:
    return request.app.state.credentials


def guard_of(request: Request) -> Guard:
    return request.app.state.guard


async def read_body(request: Request, kind: type[_T]) -> _T:
    """Decode the body. Raises RefusedError (400, 408), which says what is wrong with it."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > _MOST_BODY:
                    raise refuse(Refusal.TOO_LARGE, f"a request has at most {_MOST_BODY} bytes")
    except TimeoutError:
        raise refuse(Refusal.TOO_SLOW, f"the request took longer than {_BODY_SECONDS:.0f} s") from None
    try:
        return msgspec.json.decode(bytes(body) or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refuse(Refusal.INVALID, f"the request can't be understood: {error}") from error


def answer(body: object, status: int = 200) -> Response:
    return Response(encode_json(body), status, media_type="application/json")


def done(status: int = 204) -> Response:
    return Response(None, status)


# --- getting in: the server proves itself, then the page


async def greet(request: Request) -> Response:
    wanted = await read_body(request, messages.Hello)
    credentials = credentials_of(request)
    proven = await service_of(request).run(lambda: credentials.begin(wanted.login, wanted.nonce))
    if proven is None:
        await guard_of(request).delay_failure()
        message = "this link was used already or is too old, or this login was ended"
        raise refuse(Refusal.LOGIN_UNKNOWN, message, Command("corral url"))
    nonce, proof = proven
    return answer(messages.ServerProof(nonce=nonce, proof=proof))


async def take_proof(request: Request) -> Response:
    shown = await read_body(request, messages.PageProof)
    credentials = credentials_of(request)
    try:
        proven = await service_of(request).run(lambda: credentials.finish(shown.nonce, shown.proof, shown.label))
    except CorralError as error:
        raise refuse(Refusal.NOT_SAVED, f"this login could not be saved: {error.message}") from error
    if proven is None:
        await guard_of(request).delay_failure()
        raise refuse(Refusal.WRONG_PROOF, "the proof is wrong or came too late", Command("corral url"))
    login = proven.login.login if proven.login is not None else None
    return answer(messages.PageToken(token=proven.token, seconds=TOKEN_SECONDS, login=login, salt=proven.salt))


async def make_ticket(request: Request) -> Response:
    wanted = await read_body(request, messages.TicketWanted)
    caller: Caller = request.scope["corral.caller"]
    ticket = credentials_of(request).make_ticket(caller, wanted.nonce)
    if ticket is None:
        raise refuse(Refusal.INVALID, "tickets are for pages that are logged in; programs show the token itself")
    return answer(messages.SocketTicket(ticket=ticket.ticket, proof=ticket.proof))


async def list_logins(request: Request) -> Response:
    found = credentials_of(request).logins.list()
    reports = (
        messages.LoginReport(login=one.login, label=one.label, created_at=one.created_at, used_at=one.used_at)
        for one in found
    )
    return answer(messages.LoginList(logins=tuple(reports)))


async def end_login(request: Request) -> Response:
    login = request.path_params["login"]
    credentials = credentials_of(request)
    try:
        known = await service_of(request).run(lambda: credentials.end(login))
    except CorralError as error:
        message = f"it is ended only until this server stops: {error.message}"
        raise refuse(Refusal.NOT_SAVED, message) from error
    finally:
        guard_of(request).end(login)
    if not known:
        raise refuse(Refusal.NO_SUCH_LOGIN, "there is no such login (any more)")
    return done()


# --- sessions


async def list_sessions(request: Request) -> Response:
    service = service_of(request)
    return await service.run(lambda: answer(service.list_sessions()))


async def show_session(request: Request) -> Response:
    service = service_of(request)
    session = service.find(request.path_params["ref"])
    return answer(messages.OneSession(session=service.describe(session)))


async def look_at_session(request: Request) -> Response:
    service = service_of(request)
    known = service.find(request.path_params["ref"])
    try:
        look = await service.run(lambda: tabs.look_at(known.key))
    except RefusedError:
        service.watcher.ask(known.provider)
        raise
    if look.session.verdict.maybe_pids != known.verdict.maybe_pids or look.session.state is not known.state:
        service.watcher.ask(known.provider)  # the other sessions are as old
    processes = tuple(_place(found) for found in look.processes)
    return answer(messages.LookedAt(session=service.describe(look.session), processes=processes))


async def dismiss_session(request: Request) -> Response:
    service = service_of(request)
    wanted = await read_body(request, messages.Dismiss)
    session = service.find(request.path_params["ref"])
    ref = request.path_params["ref"]
    await service.run(_saving(lambda: service.layout.dismiss(ref, dismissed=wanted.dismissed)))
    service.publish("session", {"change": "changed", "session": service.describe(session)})
    return done()


async def open_session(request: Request) -> Response:
    service = service_of(request)
    wanted = await read_body(request, messages.OpenSession)
    session = service.find(request.path_params["ref"])
    size = _size(wanted.columns, wanted.rows)
    opened = await service.run(
        _opening(
            lambda: service.tabs.open_session(
                session,
                anyway=wanted.anyway,
                agree=Agreement(trust=wanted.trust, drop_from=wanted.drop_from),
                size=size,
                attach_only=wanted.attach_only,
            )
        )
    )
    service.watcher.ask(session.provider)
    return answer(messages.OpenedTab(tab=opened.tab, plan=opened.plan))


async def end_session(request: Request) -> Response:
    service = service_of(request)
    await read_body(request, messages.Nothing)
    known = service.find(request.path_params["ref"])
    service.end(await service.run(lambda: tabs.find_to_kill(known.key, agreed=known)))
    return done(202)


# --- tabs


async def list_tabs(request: Request) -> Response:
    return answer(messages.TabList(tabs=tuple(service_of(request).tabs.reports())))


async def start_tab(request: Request) -> Response:
    service = service_of(request)
    wanted = await read_body(request, messages.NewTab)
    size = _size(wanted.columns, wanted.rows)

    def start() -> str:
        agree = Agreement(trust=wanted.trust, live_only=wanted.live_only)
        tab = tabs.start_tab(
            wanted.provider, wanted.work_dir, wanted.args, size=size, agree=agree, report=lambda text: None
        )
        service.tabs.show(tab, size)
        return tab

    tab = await service.run(_opening(start))
    service.watcher.ask(wanted.provider)
    return answer(messages.StartedTab(tab=tab), 201)


async def open_tab(request: Request) -> Response:
    service = service_of(request)
    wanted = await read_body(request, messages.OpenTab)
    tab = _known_tab(request)
    size = _size(wanted.columns, wanted.rows)
    opened = await service.run(
        _opening(
            lambda: service.tabs.open_tab(
                tab, size, anyway=wanted.anyway, agree=Agreement(trust=wanted.trust, drop_from=wanted.drop_from)
            )
        )
    )
    return answer(messages.OpenedTab(tab=opened.tab, plan=opened.plan))


async def restore_tabs(request: Request) -> Response:
    service = service_of(request)
    await read_body(request, messages.Nothing)
    return answer(messages.Queued(queued=await service.run(service.tabs.restore_all)), 202)


async def move_tab(request: Request) -> Response:
    service = service_of(request)
    wanted = await read_body(request, messages.Move)
    tab = _known_tab(request)

    def move() -> None:
        for report in service.tabs.reports():  # a tab without a place yet gets the one where it is shown
            if report.tab not in service.layout.layout.order:
                service.layout.place(report.tab)
        service.layout.place(tab, wanted.order)
        service.tabs.refresh()

    await service.run(_saving(move))
    return done()


async def close_tab(request: Request) -> Response:
    service = service_of(request)
    tab = _known_tab(request)
    await service.run(_saving(lambda: service.tabs.close(tab)))
    return done()


async def end_tab(request: Request) -> Response:
    service = service_of(request)
    wanted = await read_body(request, messages.EndTab)
    tab = _known_tab(request)
    await service.run(lambda: tabs.end_tab(tab, wanted.ref))
    return done(202)


async def attach_terminal(websocket: WebSocket) -> None:
    await serve_terminal(websocket, terminals_dir(), websocket.path_params["tab"])


# --- the rest


async def list_providers(request: Request) -> Response:
    service = service_of(request)
    await service.run(service.refresh_providers)
    return answer(service.providers)


async def install_hooks(request: Request) -> Response:
    service = service_of(request)
    await read_body(request, messages.Nothing)
    name = request.path_params["provider"]
    if name not in hooks.hook_providers():
        raise refuse(Refusal.NO_SUCH_PROVIDER, f"no provider called {name!r} takes hooks")

    def run() -> str:
        results = hooks.install_hooks(name)
        refused = [one.message for one in results if one.outcome is Outcome.REFUSED]
        if refused:
            raise refuse(Refusal.HOOKS_REFUSED, "; ".join(refused))
        service.refresh_providers()
        service.watcher.ask(name)  # the advice about running agents is different now
        return "; ".join(one.message for one in results)

    status = await service.run(run)
    return answer(messages.HooksInstalled(status=status))


async def show_directories(request: Request) -> Response:
    service = service_of(request)
    prefix = request.query_params.get("prefix", "")
    recent = [session.work_dir for session in _newest_first(service) if session.work_dir]
    return await service.run(lambda: answer(_list_directories(prefix, recent)))


async def show_usage(request: Request) -> Response:
    asked = request.query_params

    def run() -> object:
        words = asked.get("by", "day"), asked.get("since"), asked.get("until"), asked.get("tz")
        query = _or_refuse(Refusal.INVALID, lambda: usage.parse_query(*words))
        return usage.to_plain(_or_refuse(Refusal.LEDGER_UNUSABLE, lambda: usage.report_stored(query)))

    return answer(await service_of(request).run(run))


async def follow_events(request: Request) -> Response:
    service = service_of(request)
    told = request.headers.get("last-event-id") or request.query_params.get("after")
    after = int(told) if told and told.isascii() and told.isdecimal() and len(told) < 19 else None
    hello = {"version": __version__, "event": service.events.newest, "beat_s": BEAT_SECONDS}
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(service.events.follow(after, hello), headers=headers, media_type="text/event-stream")


async def check_health(request: Request) -> Response:
    return answer(messages.Health())


# --- small things


def _opening(work: Callable[[], _T]) -> Callable[[], _T]:
    """Check for free descriptors first: without them, files that exist seem to be missing."""

    def run() -> _T:
        if not are_left(_TO_OPEN):
            message = f"too many files are open here (at most {most_open()} may be): nothing was started"
            raise refuse(Refusal.SPAWN_FAILED, message, "close tabs in some browsers, or raise ulimit -n")
        return work()

    return run


def _or_refuse(reason: Refusal, work: Callable[[], _T]) -> _T:
    try:
        return work()
    except CorralError as error:
        message = " ".join((error.message, ", ".join(error.listed))).rstrip()
        raise refuse(reason, message, *error.hints) from error


def _place(found: Found) -> messages.ProcessPlace:
    where, pid, words = found.where, found.identity.pid, readable(found.say_where())
    match where:
        case InTab():
            return messages.ProcessPlace(pid=pid, kind="tab", words=words, tab=where.tab)
        case InPane():
            command = tabs.find_way(where.pane, {}).command or ()
            return messages.ProcessPlace(pid=pid, kind="tmux", words=words, command=command)
        case _:
            kind = "terminal" if isinstance(where, InTerminal) else "none"
            return messages.ProcessPlace(pid=pid, kind=kind, words=words)


def _saving(work: Callable[[], _T]) -> Callable[[], _T]:
    def run() -> _T:
        try:
            return work()
        except OSError as error:
            path = error.filename or places.state_dir()
            raise refuse(Refusal.NOT_SAVED, f"{path}: {error.strerror}", "free some space there") from error

    return run


def _known_tab(request: Request) -> str:
    tab = request.path_params["tab"]
    if service_of(request).tabs.find(tab) is None:
        raise refuse(Refusal.NO_SUCH_TAB, "there is no such tab (any more)")
    return tab


def _newest_first(service: Service):
    sessions = service.watcher.look().sessions
    return sorted(sessions, key=lambda one: one.updated_at or 0.0, reverse=True)


def _size(columns: int, rows: int) -> tuple[int, int]:
    return max(2, min(columns, 4096)), max(2, min(rows, 4096))


def _list_directories(prefix: str, recent: Iterable[str]) -> messages.Directories:
    """Directories to start in: those that `prefix` can become, and those used last. Names only, never content.

    `prefix` is an absolute path or begins with ~; its last part may be incomplete.
    """
    used = list(dict.fromkeys(recent))[: 4 * _MOST_DIRECTORIES]
    return messages.Directories(
        directories=tuple(_list_below(os.path.expanduser(prefix))) if prefix else (),
        recent=tuple(path for path in used if os.path.isdir(path))[:_MOST_DIRECTORIES],
    )


def _list_below(prefix: str) -> list[str]:
    if not os.path.isabs(prefix) or "\0" in prefix:
        return []
    parent, begin = os.path.split(prefix)
    found: list[str] = []
    try:
        with os.scandir(parent) as entries:
            for number, entry in enumerate(entries):
                if number >= _MOST_LOOKED_AT:
                    break
                hidden = entry.name.startswith(".") and not begin.startswith(".")
                if entry.name.startswith(begin) and not hidden and entry.is_dir():
                    found.append(entry.path)
    except OSError:
        return []  # missing or not readable: nothing to offer
    return sorted(found)[:_MOST_DIRECTORIES]
