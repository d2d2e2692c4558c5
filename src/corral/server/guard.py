"""The one door: every request and every WebSocket passes here first; what is not allowed ends here, before any state.

Deny by default. What a browser can be made to send by a foreign page is told apart from what our own page sends by
exact Host, exact Origin and Sec-Fetch-Site; who it is, by cookie or token. No prefix, no pattern, no list of addresses.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, MutableMapping
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corral.model.restore import Command
from corral.server.credentials import Caller, Credentials
from corral.server.refusals import Refusing

OPEN_PATHS = frozenset({"/", "/favicon.svg"})
"""What is served to anyone with the right Host: the empty page. Everything else needs a cookie or the token."""
OPEN_FOLDER = "/assets/"
LOGIN = "/api/login"
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


class Allowance(NamedTuple):
    """What one login has left: a bucket of requests, and the sockets it has open."""

    requests: float
    at: float
    sockets: int


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, credentials: Credentials, hosts: Iterable[str]) -> None:
        self._app = app
        self._credentials = credentials
        self._hosts = frozenset(hosts)
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
        except Refusing as refusing:
            await self._refuse(refusing, scope, receive, send)
            return
        scope["corral.caller"] = caller
        held = caller is not None and _stays_open(scope)
        if held and caller is not None:
            self._hold(caller, 1)
        try:
            await self._app(scope, receive, _with_headers(send) if scope["type"] == "http" else send)
        finally:
            if held and caller is not None:
                self._hold(caller, -1)

    def note_failure(self) -> None:
        """A wrong credential was shown."""
        self._failures.append(time.monotonic())

    # --- the decision

    def _judge(self, scope: Scope, headers: MutableMapping[str, str]) -> Caller | None:
        """The caller, None for what anyone may see. Raises Refusing."""
        host = headers.get("host", "")
        if host not in self._hosts:
            raise Refusing(421, "wrong_host", "this server does not answer to that name")
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        is_socket = scope["type"] == "websocket"
        changes = not is_socket and scope["method"] not in _SAFE
        is_open = not is_socket and not changes and _is_open(scope["path"])
        if is_open:
            return None
        if (origin is not None or is_socket or changes) and origin != f"http://{host}":
            raise Refusing(403, "wrong_origin", "the request does not come from this server's own page")
        if site not in _SAME:
            raise Refusing(403, "wrong_origin", "the request does not come from this server's own page")
        if changes:
            _check_form(headers)
        if scope["path"] == LOGIN and changes:
            return None
        cookies = _read_cookies(headers.get("cookie", ""))
        caller = self._credentials.find_caller(cookies.get(self._credentials.cookie_name), headers.get("authorization"))
        if caller is None:
            raise Refusing(401, "not_logged_in", "log in with a link from `corral url`", (Command("corral url"),))
        self._spend(caller, opens=_stays_open(scope))
        return caller

    def _spend(self, caller: Caller, *, opens: bool) -> None:
        now = time.monotonic()
        left = self._allowances.get(caller.name, Allowance(_BURST, now, 0))
        requests = min(_BURST, left.requests + (now - left.at) * _PER_SECOND)
        if requests < 1.0 or (opens and left.sockets >= MOST_SOCKETS):
            raise Refusing(429, "too_many", "too many requests at once from this browser; try again in a moment")
        if len(self._allowances) > _MOST_CALLERS:
            self._allowances = {name: one for name, one in self._allowances.items() if one.sockets}
        self._allowances[caller.name] = Allowance(requests - 1.0, now, left.sockets)

    def _hold(self, caller: Caller, change: int) -> None:
        left = self._allowances.get(caller.name, Allowance(_BURST, time.monotonic(), 0))
        self._allowances[caller.name] = left._replace(sockets=max(0, left.sockets + change))

    # --- the refusal

    async def _refuse(self, refusing: Refusing, scope: Scope, receive: Receive, send: Send) -> None:
        if refusing.status == 401:
            await self.delay_failure()
        if scope["type"] == "http":
            await refusing.response()(scope, receive, _with_headers(send))
        elif "websocket.http.response" in scope.get("extensions", {}):
            await refusing.response()(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": ""})

    async def delay_failure(self) -> None:
        """Guessing gets slow after ten wrong ones in a minute; the number of those who wait is bounded."""
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
    """What a form or a plain script tag of a foreign page can't send."""
    kind = headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/json":
        raise Refusing(403, "wrong_content_type", "a change must be sent as application/json")
    if headers.get("x-corral") != "1":
        raise Refusing(403, "header_missing", "a change must be sent with the header X-Corral: 1")


def _read_headers(scope: Scope) -> dict[str, str]:
    """By lower-case name. One that comes twice where one is decisive is as good as none."""
    found: dict[str, str] = {}
    pairs: list[tuple[bytes, bytes]] = scope["headers"]
    for raw, value in pairs:
        name = raw.decode("latin-1").lower()
        if name == "cookie" and name in found:
            found[name] += "; " + value.decode("latin-1")
        elif name in found and name in ("host", "origin", "authorization", "content-type"):
            found[name] = "\0twice"
        else:
            found[name] = value.decode("latin-1")
    return found


def _read_cookies(header: str) -> dict[str, str]:
    """The first of each name counts."""
    found: dict[str, str] = {}
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        found.setdefault(name, value)
    return found


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
