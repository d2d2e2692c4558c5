"""What each route does: ask the service, answer with a message. Nothing about sessions is decided here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
from corral.model.refusal import RefusedError, refuse
from corral.model.restore import Refusal
from corral.model.tab import Agreement
from corral.model.whereabouts import Found, InPane, InTab, InTerminal
from corral.server import messages
from corral.server.directories import list_directories
from corral.server.event_stream import BEAT_SECONDS
from corral.server.service import Service
from corral.server.terminal_socket import serve_terminal
from corral.terminals import terminals_dir
from corral.version import __version__

_T = TypeVar("_T")
_MOST_BODY = 64 << 10
_BODY_SECONDS = 10.0
_TO_OPEN = 24
"""Files that are open at once, at most, while a tab is started."""


def service_of(request: Request | WebSocket) -> Service:
    return request.app.state.service


async def read_body(request: Request, kind: type[_T]) -> _T:
    """Raises RefusedError (400, 408) with what is wrong in it."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > _MOST_BODY:
                    raise refuse(Refusal.TOO_LARGE, f"a request has at most {_MOST_BODY} bytes")
    except TimeoutError:
        raise refuse(Refusal.TOO_SLOW, f"the request did not come within {_BODY_SECONDS:.0f} s") from None
    try:
        return msgspec.json.decode(bytes(body) or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refuse(Refusal.INVALID, f"the request can't be understood: {error}") from error


def answer(body: object, status: int = 200) -> Response:
    return Response(encode_json(body), status, media_type="application/json")


def done(status: int = 204) -> Response:
    return Response(None, status)


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
        service.watcher.ask(known.provider)  # the others are as old
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
        for report in service.tabs.reports():  # those that have no place yet get the one they are shown at
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
        service.watcher.ask(name)  # what helps with the agents that run is another thing now
        return "; ".join(one.message for one in results)

    status = await service.run(run)
    return answer(messages.HooksInstalled(status=status))


async def show_directories(request: Request) -> Response:
    service = service_of(request)
    prefix = request.query_params.get("prefix", "")
    recent = [session.work_dir for session in _newest_first(service) if session.work_dir]
    return await service.run(lambda: answer(list_directories(prefix, recent)))


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
    """Without descriptors files can't be read, and what is there would seem to be missing: that is said first."""

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
