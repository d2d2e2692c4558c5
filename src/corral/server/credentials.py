"""Who may speak to the server: cookies made from a secret that never leaves it, one token for this user's tools."""

from __future__ import annotations

import hmac
import secrets
import time
from typing import NamedTuple

COOKIE_SECONDS = 90 * 86_400
_MOST_DIGITS = 12


class Caller(NamedTuple):
    """Who was let in: the name of a login, the same for all requests with one cookie."""

    name: str


class Credentials:
    """Checks what a request carries. All comparisons take the same time whatever they find."""

    def __init__(self, secret: bytes, token: bytes, port: int) -> None:
        self._secret = secret
        self._token = token
        self.cookie_name = f"corral_{port}"
        """Cookies do not tell ports apart: another server on this host must not get ours by name."""

    def make_cookie(self) -> str:
        """For one browser; valid over restarts of the server."""
        body = f"{int(time.time())}.{secrets.token_hex(16)}"
        return f"{body}.{self._sign(body)}"

    def find_caller(self, cookie: str | None, authorization: str | None) -> Caller | None:
        """None when neither is right."""
        if authorization is not None:
            scheme, _, token = authorization.partition(" ")
            right = hmac.compare_digest(token.strip().encode("utf-8", "surrogatepass"), self._token)
            return Caller("token") if right and scheme.casefold() == "bearer" else None
        return self._check_cookie(cookie) if cookie is not None else None

    def _check_cookie(self, cookie: str) -> Caller | None:
        body, _, signature = cookie.rpartition(".")
        expected = self._sign(body).encode()
        if not hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), expected):
            return None
        issued, _, name = body.partition(".")
        if not (issued.isascii() and issued.isdecimal() and len(issued) <= _MOST_DIGITS):
            return None
        return Caller(name) if time.time() - int(issued) < COOKIE_SECONDS else None

    def _sign(self, body: str) -> str:
        return hmac.new(self._secret, body.encode("utf-8", "surrogatepass"), "sha256").hexdigest()
