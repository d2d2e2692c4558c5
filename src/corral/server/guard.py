"""The one way in: every request and every WebSocket passes here first, and what is not allowed ends here.

It denies by default. Exact Host, exact Origin and Sec-Fetch-Site distinguish our own page from what a foreign page
makes a browser send. A token or a ticket says who it is, never a cookie: cookies know no ports. There is no prefix,
no pattern, no list of addresses.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corral.model.refusal import RefusedError, refuse
from corral.model.restore import Command, Refusal, Refused
from corral.server.credentials import TOOLS, Caller, Credentials
from corral.server.messages import answer_refused, status_of

OPEN_PATHS = frozenset({"/", "/favicon.svg"})
"""Anyone with the right Host gets these: the empty page. Everything else needs a token."""
OPEN_FOLDER = "/assets/"
PROOFS = frozenset({"/api/hello", "/api/prove"})
"""Where a page and the server prove themselves to each other."""
LOGGED_OUT = 4401
"""The close code of a WebSocket whose login was ended."""
MOST_SOCKETS = 160
"""Open WebSockets and event streams per login: a hundred tabs, and then some."""

_SAFE = frozenset({"GET", "HEAD"})
_SAME = (None, "same-origin", "none")
_MANY_FAILURES = 10
_FAILURE_SECONDS = 60.0
_DELAY_SECONDS = 1.0
_MOST_DELAYED = 50
_BURST = 400.0
_PER_SECOND = 100.0
_MOST_CALLERS = 1000

_HEADERS = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        b"require-trusted-types-for 'script'; trusted-types svelte-trusted-html"
    ),
    b"x-frame-options": b"DENY",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}


_ELSEWHERE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>corral</title></head>
<body><h1>corral</h1><p>The page is not at this address, or not any more. On the machine where corral runs:</p>
<p><code>corral url</code></p><p>Open the address that it prints.</p></body></html>
"""
"""For a person who types an old address into a browser."""


_WRONG_HOST = Refused(
    reason=Refusal.WRONG_HOST,
    message="this server does not answer to that name (any more)",
    remedy=(Command("corral url"),),
)
"""The name is not the server's, or not the page's."""


class Allowance(NamedTuple):
    """What one login may still do: its bucket of requests, and how many sockets it has open."""

    requests: float
    at: float
    sockets: int


class Guard:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        credentials: Credentials,
        page_host: str,
        hosts: Iterable[str],
        on_proven: Callable[[tuple[str, int] | None], None],
    ) -> None:
        """`page_host` is the one name under which the page is served and logins are good; `hosts` are for programs.

        `on_proven` is called with the client of each request that is let in.
        """
        self._on_proven = on_proven
        self._app = app
        self._credentials = credentials
        self._page_host = page_host
        self._hosts = frozenset(hosts)
        self._open: dict[str, set[asyncio.Event]] = {}
        """For each login, the events that end its open streams and WebSockets."""
        self._failures: deque[float] = deque(maxlen=_MANY_FAILURES)
        self._delayed = 0
        self._allowances: dict[str, Allowance] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] not in ("http", "websocket"):
            return
        headers = _read_headers(scope)
        try:
            caller = self._judge(scope, headers)
        except RefusedError as error:
            await self._refuse(error.refused, scope, receive, send)
            return
        scope["corral.caller"] = caller
        sending = _with_headers(send) if scope["type"] == "http" else send
        if caller is not None and _stays_open(scope):
            await self._keep_open(caller, scope, receive, sending)
        else:
            await self._app(scope, receive, sending)

    async def _keep_open(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Until either side ends it, or the login is ended."""
        ended = asyncio.Event()
        ending = asyncio.ensure_future(ended.wait())
        self._open.setdefault(caller.name, set()).add(ended)
        self._hold(caller, 1)
        try:
            await self._app(scope, _or_ended(receive, ending, scope["type"]), send)
            if ended.is_set():
                with suppress(Exception):  # the client may have left already
                    await send(_last_word(scope["type"]))
        finally:
            ending.cancel()
            self._hold(caller, -1)
            self._open[caller.name].discard(ended)
            if not self._open[caller.name]:
                del self._open[caller.name]

    def end(self, login: str) -> None:
        """Cut off what that login has open. Its tokens and tickets are void already."""
        for ended in self._open.get(login, ()):
            ended.set()

    # --- the decision

    def _judge(self, scope: Scope, headers: MutableMapping[str, str]) -> Caller | None:
        """The caller; None for what anyone may see. Raises RefusedError."""
        host = headers.get("host", "")
        is_page = host == self._page_host
        if not is_page and host not in self._hosts:
            raise RefusedError(_WRONG_HOST)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        is_socket = scope["type"] == "websocket"
        changes = not is_socket and scope["method"] not in _SAFE
        if not is_socket and not changes and _is_open(scope["path"]):
            if not is_page:
                raise RefusedError(_WRONG_HOST)
            return None
        if (origin is not None or is_socket or changes) and origin != f"http://{host}":
            raise refuse(Refusal.WRONG_ORIGIN, "the request does not come from this server's own page")
        if site not in _SAME:
            raise refuse(Refusal.WRONG_ORIGIN, "the request does not come from this server's own page")
        if changes:
            _check_form(headers)
        if changes and scope["path"] in PROOFS and is_page:
            return None
        tickets = headers.get("sec-websocket-protocol") if is_socket else None
        caller = self._credentials.find_caller(headers.get("authorization"), tickets)
        if caller is None or (not is_page and caller.name != TOOLS):
            raise refuse(Refusal.NOT_LOGGED_IN, "log in with a link from `corral url`", Command("corral url"))
        self._spend(caller, opens=_stays_open(scope))
        self._on_proven(scope.get("client"))
        return caller

    def _spend(self, caller: Caller, *, opens: bool) -> None:
        now = time.monotonic()
        left = self._allowances.get(caller.name, Allowance(_BURST, now, 0))
        requests = min(_BURST, left.requests + (now - left.at) * _PER_SECOND)
        if requests < 1.0 or (opens and left.sockets >= MOST_SOCKETS):
            raise refuse(Refusal.TOO_MANY, "too many requests at once from this browser; try again in a moment")
        if len(self._allowances) > _MOST_CALLERS:
            self._allowances = {name: one for name, one in self._allowances.items() if one.sockets}
        self._allowances[caller.name] = Allowance(requests - 1.0, now, left.sockets)

    def _hold(self, caller: Caller, change: int) -> None:
        left = self._allowances.get(caller.name, Allowance(_BURST, time.monotonic(), 0))
        self._allowances[caller.name] = left._replace(sockets=max(0, left.sockets + change))

    # --- the refusal

    async def _refuse(self, refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
        if status_of(refused) == 401:
            await self.delay_failure()
        if refused is _WRONG_HOST and scope["type"] == "http" and scope["path"] == "/":
            await Response(_ELSEWHERE, 421, media_type="text/html")(scope, receive, _with_headers(send))
        elif scope["type"] == "http":
            await answer_refused(refused)(scope, receive, _with_headers(send))
        elif "websocket.http.response" in scope.get("extensions", {}):
            await answer_refused(refused)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": ""})

    async def delay_failure(self) -> None:
        """After ten failures in a minute each further one waits, so that guessing is slow; few can wait at once."""
        now = time.monotonic()
        many = len(self._failures) == _MANY_FAILURES and now - self._failures[0] < _FAILURE_SECONDS
        self._failures.append(now)
        if many and self._delayed < _MOST_DELAYED:
            self._delayed += 1
            try:
                await asyncio.sleep(_DELAY_SECONDS)
            finally:
                self._delayed -= 1


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or (path.startswith(OPEN_FOLDER) and ".." not in path)


def _stays_open(scope: Scope) -> bool:
    return scope["type"] == "websocket" or scope["path"] == "/api/events"


def _check_form(headers: MutableMapping[str, str]) -> None:
    """Demand what a form or a script tag of a foreign page can't send."""
    kind = headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/json":
        raise refuse(Refusal.WRONG_CONTENT_TYPE, "a change must be sent as application/json")
    if headers.get("x-corral") != "1":
        raise refuse(Refusal.HEADER_MISSING, "a change must be sent with the header X-Corral: 1")


def _read_headers(scope: Scope) -> dict[str, str]:
    """By lower-case name. A decisive header that comes twice counts as none."""
    found: dict[str, str] = {}
    pairs: list[tuple[bytes, bytes]] = scope["headers"]
    for raw, value in pairs:
        name = raw.decode("latin-1").lower()
        if name in found and name in ("host", "origin", "authorization", "content-type", "sec-websocket-protocol"):
            found[name] = "\0twice"
        else:
            found[name] = value.decode("latin-1")
    return found


def _or_ended(receive: Receive, ending: asyncio.Future[Any], kind: str) -> Receive:
    """What the client sends, until the login is ended: then as if the client had left."""

    async def receive_or_end() -> Message:
        coming = asyncio.ensure_future(receive())
        try:
            await asyncio.wait((coming, ending), return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                return coming.result()
        finally:
            coming.cancel()
        if kind == "websocket":
            return {"type": "websocket.disconnect", "code": LOGGED_OUT}
        return {"type": "http.disconnect"}

    return receive_or_end


def _last_word(kind: str) -> Message:
    if kind == "websocket":
        return {"type": "websocket.close", "code": LOGGED_OUT, "reason": "this login was ended"}
    return {"type": "http.response.body", "body": b"", "more_body": False}


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            given: list[tuple[bytes, bytes]] = list(message.get("headers", []))
            names = {name.lower() for name, _ in given}
            message["headers"] = [*given, *(pair for pair in _HEADERS.items() if pair[0] not in names)]
            if b"cache-control" not in names:
                message["headers"].append((b"cache-control", b"no-store"))
        await send(message)

    return send_with_headers
