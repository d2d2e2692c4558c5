"""The table of routes, and the application made of it: what is not in the table does not exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from corral.model.refusal import RefusedError
from corral.model.restore import Refusal, Refused
from corral.server import api, messages, page
from corral.server.credentials import Credentials
from corral.server.event_stream import EventStream
from corral.server.guard import Guard
from corral.server.messages import answer_refused
from corral.server.openapi import describe_api
from corral.server.service import Service

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

Handler = Callable[[Request], Awaitable[Response]]


class Endpoint(NamedTuple):
    """One route: what it takes, what it answers, what it is for."""

    method: str
    path: str
    handler: Handler | Callable[..., Awaitable[None]]
    summary: str
    takes: Any = None
    gives: Any = None
    status: int = 200
    query: tuple[str, ...] = ()


async def show_openapi(request: Request) -> Response:
    return api.answer(describe_api(ENDPOINTS))


ENDPOINTS = (
    Endpoint("GET", "/", page.show_page, "the page"),
    Endpoint("GET", "/assets/{name:path}", page.show_asset, "a file of the page"),
    Endpoint("GET", "/favicon.svg", page.show_icon, "its icon"),
    Endpoint("POST", "/api/hello", api.greet, "the server proves itself", messages.Hello, messages.ServerProof),
    Endpoint("POST", "/api/prove", api.take_proof, "the page does", messages.PageProof, messages.PageToken),
    Endpoint(
        "POST", "/api/tickets", api.make_ticket, "for one WebSocket", messages.TicketWanted, messages.SocketTicket
    ),
    Endpoint("GET", "/api/logins", api.list_logins, "the browsers that are logged in", None, messages.LoginList),
    Endpoint("DELETE", "/api/logins/{login}", api.end_login, "end one of them", None, None, 204),
    Endpoint("GET", "/api/health", api.check_health, "whether it answers", None, messages.Health),
    Endpoint("GET", "/api/sessions", api.list_sessions, "all sessions", None, messages.SessionList),
    Endpoint("GET", "/api/sessions/{ref}", api.show_session, "one session in full", None, messages.OneSession),
    Endpoint(
        "GET",
        "/api/sessions/{ref}/look",
        api.look_at_session,
        "look at it afresh, and where it is or may be open",
        None,
        messages.LookedAt,
    ),
    Endpoint(
        "POST", "/api/sessions/{ref}/dismiss", api.dismiss_session, "put it away, or back", messages.Dismiss, None, 204
    ),
    Endpoint(
        "POST",
        "/api/sessions/{ref}/open",
        api.open_session,
        "attach to it or continue it, in a tab",
        messages.OpenSession,
        messages.OpenedTab,
    ),
    Endpoint(
        "POST", "/api/sessions/{ref}/end", api.end_session, "end its verified process", messages.Nothing, None, 202
    ),
    Endpoint("GET", "/api/tabs", api.list_tabs, "all tabs, in order", None, messages.TabList),
    Endpoint(
        "POST", "/api/tabs", api.start_tab, "a fresh session in a new tab", messages.NewTab, messages.StartedTab, 201
    ),
    Endpoint(
        "POST",
        "/api/tabs/restore",
        api.restore_tabs,
        "bring back every tab whose terminal is gone",
        messages.Nothing,
        messages.Queued,
        202,
    ),
    Endpoint("POST", "/api/tabs/{tab}/open", api.open_tab, "get back into it", messages.OpenTab, messages.OpenedTab),
    Endpoint("POST", "/api/tabs/{tab}/move", api.move_tab, "change its place", messages.Move, None, 204),
    Endpoint("POST", "/api/tabs/{tab}/end", api.end_tab, "end its program", messages.EndTab, None, 202),
    Endpoint("DELETE", "/api/tabs/{tab}", api.close_tab, "close it; what runs in it lives on", None, None, 204),
    Endpoint("WS", "/api/tabs/{tab}/terminal", api.attach_terminal, "its terminal"),
    Endpoint("GET", "/api/providers", api.list_providers, "the agent CLIs", None, tuple[messages.ProviderReport, ...]),
    Endpoint(
        "POST",
        "/api/hooks/{provider}",
        api.install_hooks,
        "install its hooks",
        messages.Nothing,
        messages.HooksInstalled,
    ),
    Endpoint(
        "GET",
        "/api/directories",
        api.show_directories,
        "directories to start in",
        None,
        messages.Directories,
        query=("prefix",),
    ),
    Endpoint(
        "GET",
        "/api/usage",
        api.show_usage,
        "what was spent",
        None,
        messages.UsageDocument,
        query=("by", "since", "until", "tz"),
    ),
    Endpoint("GET", "/api/events", api.follow_events, "what happens, as server-sent events", query=("after",)),
    Endpoint("GET", "/api/openapi.json", show_openapi, "this API, for machines"),
)


def build_app(
    credentials: Credentials,
    page_host: str,
    hosts: Iterable[str],
    events: EventStream,
    on_proven: Callable[[tuple[str, int] | None], None],
) -> Guard:
    """The whole server as one ASGI application; the guard is its outermost layer."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        service = Service(events)
        app.state.service = service
        await service.start()
        try:
            yield
        finally:
            service.stop()

    app = Starlette(
        routes=[_route(endpoint) for endpoint in ENDPOINTS],
        lifespan=lifespan,
        exception_handlers={RefusedError: _answer_refused, HTTPException: _answer_http, Exception: _answer_bug},  # pyright: ignore[reportArgumentType]
    )
    app.state.credentials = credentials
    guard = Guard(app, credentials, page_host, hosts, on_proven)
    app.state.guard = guard
    return guard


def _route(endpoint: Endpoint) -> BaseRoute:
    if endpoint.method == "WS":
        return WebSocketRoute(endpoint.path, endpoint.handler)
    return Route(endpoint.path, endpoint.handler, methods=[endpoint.method])


async def _answer_refused(request: Request, error: RefusedError) -> Response:
    return answer_refused(error.refused)


async def _answer_http(request: Request, error: HTTPException) -> Response:
    reasons = {404: Refusal.NOT_FOUND, 405: Refusal.METHOD_NOT_ALLOWED}
    reason = reasons.get(error.status_code, Refusal.REFUSED)
    return answer_refused(Refused(reason=reason, message=error.detail), error.status_code)


async def _answer_bug(request: Request, error: Exception) -> Response:
    """The details go to the server's own output, never into an answer."""
    message = "something went wrong; the server's output says what"
    return answer_refused(Refused(reason=Refusal.BUG, message=message))
