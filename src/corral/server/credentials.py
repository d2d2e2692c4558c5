"""Who may speak to the server: pages that proved themselves, by short-lived tokens; this user's tools, by a file.

Each browser that is logged in has a key of its own, good for one name of the server alone.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from typing import NamedTuple

import msgspec
from msgspec import Struct

from corral.errors import CorralError
from corral.server import proofs
from corral.server.server_files import ServerFiles

MOST_LOGINS = 64
UNUSED_SECONDS = 90 * 86_400.0
"""How long an unused login stays."""
_LONGEST_LABEL = 80
_NOTE_SECONDS = 60.0

TOKEN_SECONDS = 300
"""How long a token is good; the page renews it by itself."""
PROOF_SECONDS = 10.0
"""How long the server waits for the page's proof after its own."""
TICKET_SECONDS = 30.0
TICKET_PREFIX = "ticket."
PROTOCOL = "corral"
"""The subprotocol of a page's WebSocket; the ticket is in the same header."""
TOOLS = "token"
"""The name of a caller that shows the token from the file."""
_MOST_CHALLENGES = 64
_MOST_GIVEN = 4096


class Login(Struct, frozen=True, kw_only=True):
    """One browser."""

    login: str
    key: str
    label: str
    created_at: float
    used_at: float


class _LoginFile(Struct, frozen=True, kw_only=True):
    schema: int = 1
    name: str
    logins: tuple[Login, ...] = ()


class Logins:
    """The logins of the server's present name. Safe in several threads; one process writes the file."""

    def __init__(self, files: ServerFiles, name: str) -> None:
        """Logins of another name are void, and are dropped."""
        self.name = name
        self._files = files
        self._lock = threading.Lock()
        found = _read_logins(files)
        kept = found.logins if found is not None and found.name == name else ()
        self._logins = {one.login: one for one in kept if time.time() - one.used_at < UNUSED_SECONDS}
        if found is None or found.name != name:
            self._save()

    def list(self) -> list[Login]:
        with self._lock:
            return sorted(self._logins.values(), key=lambda one: -one.used_at)

    def find_key(self, login: str) -> bytes | None:
        with self._lock:
            found = self._logins.get(login)
        return bytes.fromhex(found.key) if found is not None else None

    def add(self, code_key: bytes, label: str) -> tuple[Login, str]:
        """The new login, and the salt from which the page makes its key. Raises CorralError if it can't be saved."""
        salt, now = secrets.token_hex(16), time.time()
        made = Login(
            login=secrets.token_hex(16),
            key=proofs.login_key(code_key, salt).hex(),
            label="".join(one for one in label if one.isprintable())[:_LONGEST_LABEL] or "a browser",
            created_at=now,
            used_at=now,
        )
        with self._lock:
            before = dict(self._logins)
            self._logins[made.login] = made
            while len(self._logins) > MOST_LOGINS:
                del self._logins[min(self._logins.values(), key=lambda one: one.used_at).login]
            try:
                self._save()
            except CorralError:
                self._logins = before
                raise
        return made, salt

    def note_use(self, login: str) -> None:
        """Written at most once a minute; if it can't be written, the old time stays."""
        with self._lock:
            found, now = self._logins.get(login), time.time()
            if found is None or now - found.used_at < _NOTE_SECONDS:
                return
            self._logins[login] = msgspec.structs.replace(found, used_at=now)
            try:
                self._save()
            except CorralError:
                pass

    def end(self, login: str) -> bool:
        """False if there is none of that name. Raises CorralError if it can't be written; it holds here anyway."""
        with self._lock:
            found = self._logins.pop(login, None)
            if found is not None:
                self._save()
        return found is not None

    def _save(self) -> None:
        content = _LoginFile(name=self.name, logins=tuple(self._logins.values()))
        self._files.write_logins(msgspec.json.encode(content))


def read_logins(files: ServerFiles) -> Logins | None:
    """The logins as the last server left them, for when none runs; None if there are none."""
    found = _read_logins(files)
    return Logins(files, found.name) if found is not None and found.logins else None


def _read_logins(files: ServerFiles) -> _LoginFile | None:
    data = files.read_logins()
    try:
        found = msgspec.json.decode(data, type=_LoginFile) if data else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if found is not None and found.schema == 1 else None


class Caller(NamedTuple):
    """Who was let in: a login, or this user's tools."""

    name: str


class Challenge(NamedTuple):
    """The server gave its proof, and waits for the page's."""

    login: str
    page_nonce: str
    key: bytes
    is_code: bool
    until: float


class Proven(NamedTuple):
    """What a page gets for its proof."""

    token: str
    login: Login | None
    """The new login, if this was a code."""
    salt: str | None


class Ticket(NamedTuple):
    ticket: str
    proof: str


class _Given:
    """Secrets that pages were given, by hash, each with its login and its end. For any thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._given: dict[bytes, tuple[str, float]] = {}

    def put(self, secret: str, name: str) -> None:
        now = time.monotonic()
        with self._lock:
            if len(self._given) >= _MOST_GIVEN:
                self._given = {hashed: one for hashed, one in self._given.items() if one[1] > now}
            while len(self._given) >= _MOST_GIVEN:
                del self._given[next(iter(self._given))]
            self._given[_hash(secret)] = name, now + self._seconds

    def find(self, secret: str, *, once: bool = False) -> str | None:
        """Whose it is. With `once` it is used up."""
        with self._lock:
            found = self._given.pop(_hash(secret), None) if once else self._given.get(_hash(secret))
        return found[0] if found is not None and time.monotonic() < found[1] else None

    def drop(self, name: str) -> None:
        with self._lock:
            self._given = {hashed: one for hashed, one in self._given.items() if one[0] != name}


class Credentials:
    """For any thread; `begin`, `finish` and `end` touch the disk."""

    def __init__(self, files: ServerFiles, logins: Logins, token: bytes, origin: str) -> None:
        self.origin = origin
        self.logins = logins
        self._files = files
        self._token = token
        self._lock = threading.Lock()
        self._challenges: dict[str, Challenge] = {}
        self._tokens = _Given(TOKEN_SECONDS)
        self._tickets = _Given(TICKET_SECONDS)

    # --- both prove themselves

    def begin(self, login: str, page_nonce: str) -> tuple[str, str] | None:
        """A number of ours and our proof, to a page that names a login or a code; None when there is none such."""
        key, is_code = self.logins.find_key(login), False
        if key is None:
            key, is_code = self._files.find_code(login, self.logins.name), True
        if key is None or not proofs.is_nonce(page_nonce):
            return None
        nonce = proofs.new_nonce()
        until = time.monotonic() + PROOF_SECONDS
        with self._lock:
            while len(self._challenges) >= _MOST_CHALLENGES:
                del self._challenges[next(iter(self._challenges))]
            self._challenges[nonce] = Challenge(login, page_nonce, key, is_code, until)
        return nonce, proofs.prove_server(key, self.origin, login, page_nonce, nonce)

    def finish(self, server_nonce: str, proof: str, label: str) -> Proven | None:
        """A token for the page that answered the challenge; None: the proof is wrong or late, or the code is used."""
        with self._lock:
            challenge = self._challenges.pop(server_nonce, None)
        if challenge is None or time.monotonic() > challenge.until:
            return None
        expected = proofs.prove_page(challenge.key, self.origin, challenge.login, challenge.page_nonce, server_nonce)
        if not proofs.is_right(expected, proof):
            return None
        made, salt = None, None
        if challenge.is_code:
            if not self._files.take_code(challenge.login):
                return None
            made, salt = self.logins.add(challenge.key, label)
        elif self.logins.find_key(challenge.login) is None:
            return None  # it was ended meanwhile
        name = made.login if made is not None else challenge.login
        self.logins.note_use(name)
        token = secrets.token_urlsafe(32)
        self._tokens.put(token, name)
        return Proven(token, made, salt)

    def make_ticket(self, caller: Caller, page_nonce: str) -> Ticket | None:
        """Opens one WebSocket, once, soon."""
        key = self.logins.find_key(caller.name)
        if key is None or not proofs.is_nonce(page_nonce):
            return None
        ticket = secrets.token_hex(24)
        self._tickets.put(ticket, caller.name)
        return Ticket(ticket, proofs.prove_ticket(key, self.origin, caller.name, page_nonce, ticket))

    def end(self, login: str) -> bool:
        """What it was given is void at once. False: there is no such login."""
        try:
            return self.logins.end(login)
        finally:
            self._tokens.drop(login)
            self._tickets.drop(login)

    # --- what a request shows

    def find_caller(self, authorization: str | None, subprotocols: str | None) -> Caller | None:
        """By a header, or for a WebSocket by its ticket, which is used up. None when neither is right."""
        if authorization is not None:
            scheme, _, shown = authorization.partition(" ")
            return self._check_header(scheme.casefold(), shown.strip())
        for word in (subprotocols or "").split(","):
            if word.strip().startswith(TICKET_PREFIX):
                name = self._tickets.find(word.strip().removeprefix(TICKET_PREFIX), once=True)
                return Caller(name) if name is not None else None
        return None

    def _check_header(self, scheme: str, shown: str) -> Caller | None:
        if scheme == "bearer":
            right = hmac.compare_digest(shown.encode("utf-8", "surrogatepass"), self._token)
            return Caller(TOOLS) if right else None
        name = self._tokens.find(shown) if scheme == "corral" else None
        return Caller(name) if name is not None else None


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
