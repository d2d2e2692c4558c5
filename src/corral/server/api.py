"""Every route of the API, and what it does: ask the service, answer with a message. It decides nothing about sessions.

What is not registered here does not exist.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, TypeVar

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
from corral.model.refusal import RefusedError, refuse
from corral.model.restore import Command, Refusal
from corral.model.tab import Agreement
from corral.model.whereabouts import Found, InPane, InTab, InTerminal
from corral.server import messages
from corral.server.credentials import TOKEN_SECONDS, Credentials
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


class Endpoint(NamedTuple):
    """One route: what it takes, what it answers, what it is for."""

    method: str
    path: str
    handler: Callable[[Any], Awaitable[Any]]
    summary: str
    takes: Any = None
    gives: Any = None
    status: int = 200
    query: tuple[str, ...] = ()


class Call(NamedTuple):
    """One request."""

    request: Request
    body: Any
    """What was sent, decoded as what the route takes."""

    @property
    def service(self) -> Service:
        return self.request.app.state.service

    @property
    def credentials(self) -> Credentials:
        return self.request.app.state.credentials

    @property
    def guard(self) -> Guard:
        return self.request.app.state.guard

    def named(self, part: str) -> str:
        """That part of the path."""
        return self.request.path_params[part]


ENDPOINTS: list[Endpoint] = []
_Work = Callable[[Call], Awaitable[object]]


def route(
    method: str,
    path: str,
    summary: str,
    *,
    takes: Any = None,
    gives: Any = None,
    status: int = 200,
    query: tuple[str, ...] = (),
) -> Callable[[_Work], _Work]:
    """Register what answers this route: a message, nothing (an empty answer), or a response of its own."""

    def register(work: _Work) -> _Work:
        async def handle(request: Request) -> Response:
            body = await _read_body(request, takes) if takes is not None else None
            found = await work(Call(request, body))
            if isinstance(found, Response):
                return found
            return Response(None, status) if found is None else answer(found, status)

        ENDPOINTS.append(Endpoint(method, path, handle, summary, takes, gives, status, query))
        return work

    return register


async def _read_body(request: Request, kind: type[_T]) -> _T:
    """Raises RefusedError (400, 408), which says what is wrong with it."""
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


# --- getting in: the server proves itself, then the page


@route("POST", "/api/hello", "the server proves itself", takes=messages.Hello, gives=messages.ServerProof)
async def greet(call: Call) -> messages.ServerProof:
    proven = await call.service.run(lambda: call.credentials.begin(call.body.login, call.body.nonce))
    if proven is None:
        await call.guard.delay_failure()
        message = "this link was used already or is too old, or this login was ended"
        raise refuse(Refusal.LOGIN_UNKNOWN, message, Command("corral url"))
    nonce, proof = proven
    return messages.ServerProof(nonce=nonce, proof=proof)


@route("POST", "/api/prove", "the page does", takes=messages.PageProof, gives=messages.PageToken)
async def take_proof(call: Call) -> messages.PageToken:
    shown: messages.PageProof = call.body
    try:
        proven = await call.service.run(lambda: call.credentials.finish(shown.nonce, shown.proof, shown.label))
    except CorralError as error:
        raise refuse(Refusal.NOT_SAVED, f"this login could not be saved: {error.message}") from error
    if proven is None:
        await call.guard.delay_failure()
        raise refuse(Refusal.WRONG_PROOF, "the proof is wrong or came too late", Command("corral url"))
    login = proven.login.login if proven.login is not None else None
    return messages.PageToken(token=proven.token, seconds=TOKEN_SECONDS, login=login, salt=proven.salt)


@route("POST", "/api/tickets", "for one WebSocket", takes=messages.TicketWanted, gives=messages.SocketTicket)
async def make_ticket(call: Call) -> messages.SocketTicket:
    ticket = call.credentials.make_ticket(call.request.scope["corral.caller"], call.body.nonce)
    if ticket is None:
        raise refuse(Refusal.INVALID, "tickets are for pages that are logged in; programs show the token itself")
    return messages.SocketTicket(ticket=ticket.ticket, proof=ticket.proof)


@route("GET", "/api/logins", "the browsers that are logged in", gives=messages.LoginList)
async def list_logins(call: Call) -> messages.LoginList:
    reports = (
        messages.LoginReport(login=one.login, label=one.label, created_at=one.created_at, used_at=one.used_at)
        for one in call.credentials.logins.list()
    )
    return messages.LoginList(logins=tuple(reports))


@route("DELETE", "/api/logins/{login}", "end one of them", status=204)
async def end_login(call: Call) -> None:
    login = call.named("login")
    try:
        known = await call.service.run(lambda: call.credentials.end(login))
    except CorralError as error:
        raise refuse(Refusal.NOT_SAVED, f"it is ended only until this server stops: {error.message}") from error
    finally:
        call.guard.end(login)
    if not known:
        raise refuse(Refusal.NO_SUCH_LOGIN, "there is no such login (any more)")


@route("GET", "/api/health", "whether it answers", gives=messages.Health)
async def check_health(call: Call) -> messages.Health:
    return messages.Health()


# --- sessions


@route("GET", "/api/sessions", "all sessions", gives=messages.SessionList)
async def list_sessions(call: Call) -> Response:
    return await call.service.run(lambda: answer(call.service.list_sessions()))


@route("GET", "/api/sessions/{ref}", "one session in full", gives=messages.OneSession)
async def show_session(call: Call) -> messages.OneSession:
    return messages.OneSession(session=call.service.describe(call.service.find(call.named("ref"))))


@route("GET", "/api/sessions/{ref}/look", "look at it now, and where it is or may be open", gives=messages.LookedAt)
async def look_at_session(call: Call) -> messages.LookedAt:
    service = call.service
    known = service.find(call.named("ref"))
    try:
        look = await service.run(lambda: tabs.look_at(known.key))
    except RefusedError:
        service.watcher.ask(known.provider)
        raise
    if look.session.verdict.maybe_pids != known.verdict.maybe_pids or look.session.state is not known.state:
        service.watcher.ask(known.provider)  # the other sessions are as old
    processes = tuple(_place(found) for found in look.processes)
    return messages.LookedAt(session=service.describe(look.session), processes=processes)


@route("POST", "/api/sessions/{ref}/dismiss", "put it away, or back", takes=messages.Dismiss, status=204)
async def dismiss_session(call: Call) -> None:
    service, ref = call.service, call.named("ref")
    session = service.find(ref)
    await service.run(_saving(lambda: service.layout.dismiss(ref, dismissed=call.body.dismissed)))
    service.publish("session", {"change": "changed", "session": service.describe(session)})


@route(
    "POST",
    "/api/sessions/{ref}/open",
    "attach to it or continue it, in a tab",
    takes=messages.OpenSession,
    gives=messages.OpenedTab,
)
async def open_session(call: Call) -> messages.OpenedTab:
    service, wanted = call.service, call.body
    session = service.find(call.named("ref"))
    agree = Agreement(trust=wanted.trust, drop_from=wanted.drop_from)
    opened = await service.run(
        _opening(
            lambda: service.tabs.open_session(
                session, anyway=wanted.anyway, agree=agree, size=_size(wanted), attach_only=wanted.attach_only
            )
        )
    )
    service.watcher.ask(session.provider)
    return messages.OpenedTab(tab=opened.tab, plan=opened.plan)


@route("POST", "/api/sessions/{ref}/end", "end its verified process", takes=messages.Nothing, status=202)
async def end_session(call: Call) -> None:
    known = call.service.find(call.named("ref"))
    call.service.end(await call.service.run(lambda: tabs.find_to_kill(known.key, agreed=known)))


# --- tabs


@route("GET", "/api/tabs", "all tabs, in order", gives=messages.TabList)
async def list_tabs(call: Call) -> messages.TabList:
    return messages.TabList(tabs=tuple(call.service.tabs.reports()))


@route("POST", "/api/tabs", "a new session in a new tab", takes=messages.NewTab, gives=messages.StartedTab, status=201)
async def start_tab(call: Call) -> messages.StartedTab:
    service = call.service
    wanted: messages.NewTab = call.body
    agree = Agreement(trust=wanted.trust, live_only=wanted.live_only)

    def start() -> str:
        tab = tabs.start_tab(
            wanted.provider, wanted.work_dir, wanted.args, size=_size(wanted), agree=agree, report=lambda text: None
        )
        service.tabs.show(tab, _size(wanted))
        return tab

    tab = await service.run(_opening(start))
    service.watcher.ask(wanted.provider)
    return messages.StartedTab(tab=tab)


@route(
    "POST",
    "/api/tabs/restore",
    "bring back every tab whose terminal is gone",
    takes=messages.Nothing,
    gives=messages.Queued,
    status=202,
)
async def restore_tabs(call: Call) -> messages.Queued:
    return messages.Queued(queued=await call.service.run(call.service.tabs.restore_all))


@route("POST", "/api/tabs/{tab}/open", "get back into it", takes=messages.OpenTab, gives=messages.OpenedTab)
async def open_tab(call: Call) -> messages.OpenedTab:
    tab, wanted = _known_tab(call), call.body
    agree = Agreement(trust=wanted.trust, drop_from=wanted.drop_from)
    opened = await call.service.run(
        _opening(lambda: call.service.tabs.open_tab(tab, _size(wanted), anyway=wanted.anyway, agree=agree))
    )
    return messages.OpenedTab(tab=opened.tab, plan=opened.plan)


@route("POST", "/api/tabs/{tab}/move", "change its place", takes=messages.Move, status=204)
async def move_tab(call: Call) -> None:
    service, tab = call.service, _known_tab(call)

    def move() -> None:
        for report in service.tabs.reports():  # a tab without a place yet gets the one where it is shown
            if report.tab not in service.layout.layout.order:
                service.layout.place(report.tab)
        service.layout.place(tab, call.body.order)
        service.tabs.refresh()

    await service.run(_saving(move))


@route("POST", "/api/tabs/{tab}/end", "end its program", takes=messages.EndTab, status=202)
async def end_tab(call: Call) -> None:
    tab = _known_tab(call)
    await call.service.run(lambda: tabs.end_tab(tab, call.body.ref))


@route("DELETE", "/api/tabs/{tab}", "close it; what runs in it goes on", status=204)
async def close_tab(call: Call) -> None:
    tab = _known_tab(call)
    await call.service.run(_saving(lambda: call.service.tabs.close(tab)))


async def attach_terminal(websocket: WebSocket) -> None:
    await serve_terminal(websocket, terminals_dir(), websocket.path_params["tab"])


ENDPOINTS.append(Endpoint("WS", "/api/tabs/{tab}/terminal", attach_terminal, "its terminal"))


# --- the rest


@route("GET", "/api/providers", "the agent CLIs", gives=tuple[messages.ProviderReport, ...])
async def list_providers(call: Call) -> tuple[messages.ProviderReport, ...]:
    await call.service.run(call.service.refresh_providers)
    return call.service.providers


@route("POST", "/api/hooks/{provider}", "install its hooks", takes=messages.Nothing, gives=messages.HooksInstalled)
async def install_hooks(call: Call) -> messages.HooksInstalled:
    service, name = call.service, call.named("provider")
    if name not in hooks.hook_providers():
        raise refuse(Refusal.NO_SUCH_PROVIDER, f"no provider called {name!r} takes hooks")

    def install() -> str:
        results = hooks.install_hooks(name)
        refused = [one.message for one in results if one.outcome is Outcome.REFUSED]
        if refused:
            raise refuse(Refusal.HOOKS_REFUSED, "; ".join(refused))
        service.refresh_providers()
        service.watcher.ask(name)  # the advice about running agents is different now
        return "; ".join(one.message for one in results)

    return messages.HooksInstalled(status=await service.run(install))


@route("GET", "/api/directories", "directories to start in", gives=messages.Directories, query=("prefix",))
async def show_directories(call: Call) -> messages.Directories:
    prefix = call.request.query_params.get("prefix", "")
    newest_first = sorted(call.service.watcher.look().sessions, key=lambda one: -(one.updated_at or 0.0))
    recent = [session.work_dir for session in newest_first if session.work_dir]
    return await call.service.run(lambda: _list_directories(prefix, recent))


@route("GET", "/api/usage", "what was spent", gives=messages.UsageDocument, query=("by", "since", "until", "tz"))
async def show_usage(call: Call) -> object:
    asked = call.request.query_params

    def report() -> object:
        words = asked.get("by", "day"), asked.get("since"), asked.get("until"), asked.get("tz")
        query = _or_refuse(Refusal.INVALID, lambda: usage.parse_query(*words))
        return _or_refuse(Refusal.LEDGER_UNUSABLE, lambda: usage.report_stored(query))

    return await call.service.run(report)


@route("GET", "/api/events", "what happens, as server-sent events", query=("after",))
async def follow_events(call: Call) -> Response:
    request, events = call.request, call.service.events
    told = request.headers.get("last-event-id") or request.query_params.get("after")
    after = int(told) if told and told.isascii() and told.isdecimal() and len(told) < 19 else None
    hello = {"version": __version__, "event": events.newest, "beat_s": BEAT_SECONDS}
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events.follow(after, hello), headers=headers, media_type="text/event-stream")


# --- what several of them need


def _known_tab(call: Call) -> str:
    tab = call.named("tab")
    if call.service.tabs.find(tab) is None:
        raise refuse(Refusal.NO_SUCH_TAB, "there is no such tab (any more)")
    return tab


def _size(wanted: messages.OpenSession | messages.OpenTab | messages.NewTab) -> tuple[int, int]:
    return max(2, min(wanted.columns, 4096)), max(2, min(wanted.rows, 4096))


def _opening(work: Callable[[], _T]) -> Callable[[], _T]:
    """Check for free descriptors first: without them, files that exist seem to be missing."""

    def run() -> _T:
        if not are_left(_TO_OPEN):
            message = f"too many files are open here (at most {most_open()} may be): nothing was started"
            raise refuse(Refusal.SPAWN_FAILED, message, "close tabs in some browsers, or raise ulimit -n")
        return work()

    return run


def _saving(work: Callable[[], _T]) -> Callable[[], _T]:
    def run() -> _T:
        try:
            return work()
        except OSError as error:
            path = error.filename or places.state_dir()
            raise refuse(Refusal.NOT_SAVED, f"{path}: {error.strerror}", "free some space there") from error

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
