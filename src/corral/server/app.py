"""The application: all routes, and the guard around them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from corral.model.refusal import RefusedError
from corral.model.restore import Refusal, Refused
from corral.server import api, page
from corral.server.api import Endpoint
from corral.server.credentials import Credentials
from corral.server.event_stream import EventStream
from corral.server.guard import Guard
from corral.server.messages import answer_refused
from corral.server.openapi import describe_api
from corral.server.service import Service

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable


async def show_openapi(request: Request) -> Response:
    return api.answer(describe_api(ENDPOINTS))


ENDPOINTS = (
    Endpoint("GET", "/", page.show_page, "the page"),
    Endpoint("GET", "/assets/{name:path}", page.show_asset, "a file of the page"),
    Endpoint("GET", "/favicon.svg", page.show_icon, "its icon"),
    *api.ENDPOINTS,
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
