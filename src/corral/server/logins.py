"""The browsers that are logged in: each has a key of its own, good for one name of the server alone."""

from __future__ import annotations

import secrets
import threading
import time

import msgspec
from msgspec import Struct

from corral.errors import CorralError
from corral.server import proofs
from corral.server.server_files import ServerFiles

MOST_LOGINS = 64
UNUSED_SECONDS = 90 * 86_400.0
"""How long a login stays that nobody uses."""
_LONGEST_LABEL = 80
_NOTE_SECONDS = 60.0


class Login(Struct, frozen=True, kw_only=True):
    """One browser."""

    login: str
    key: str
    label: str
    created_at: float
    used_at: float


class _File(Struct, frozen=True, kw_only=True):
    schema: int = 1
    name: str
    logins: tuple[Login, ...] = ()


class Logins:
    """Those of the server's present name. Safe to use from several threads; one process writes the file."""

    def __init__(self, files: ServerFiles, name: str) -> None:
        """What was made under another name is void, and forgotten."""
        self.name = name
        self._files = files
        self._lock = threading.Lock()
        found = _read(files)
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
        """The new login, and the salt from which the page makes its key. Raises CorralError when it can't be kept."""
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
        """On disk once a minute at most; where it can't be written the old time stays."""
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
        """False: there is none of that name. Raises CorralError when the end could not be written; it holds here."""
        with self._lock:
            found = self._logins.pop(login, None)
            if found is not None:
                self._save()
        return found is not None

    def _save(self) -> None:
        content = _File(name=self.name, logins=tuple(self._logins.values()))
        self._files.write_logins(msgspec.json.encode(content))


def read_logins(files: ServerFiles) -> Logins | None:
    """As the last server left them; None when there are none. For when no server runs."""
    found = _read(files)
    return Logins(files, found.name) if found is not None and found.logins else None


def _read(files: ServerFiles) -> _File | None:
    data = files.read_logins()
    try:
        found = msgspec.json.decode(data, type=_File) if data else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if found is not None and found.schema == 1 else None
