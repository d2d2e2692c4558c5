"""What a server keeps below `<state>/server`: port, token, codes, logins, and the lock of the one that runs."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from contextlib import suppress

import msgspec
from msgspec import Struct

from corral.errors import CorralError
from corral.server.proofs import code_key, is_nonce, name_code
from corral.sidecar.atomic import Directory, replace
from corral.sidecar.files import Unreadable, read_regular
from corral.sidecar.processes import own_identity

CODE_SECONDS = 600.0
"""How long a one-time code can be used."""
TOKEN = "token"
"""The file with the token of this user's tools; it is good as long as the server's name."""
_LIMIT = 1 << 12
_LOGINS_LIMIT = 1 << 16
_MOST_CODES = 64


class Running(Struct, frozen=True, kw_only=True):
    """Where the server of this state directory listens."""

    pid: int
    host: str
    port: int
    name: str
    """The page's name, random and below `localhost`. It is a new one whenever the port was released."""

    @property
    def origin(self) -> str:
        """The page's origin."""
        return f"http://{self.page_host}"

    @property
    def page_host(self) -> str:
        return f"{self.name}.localhost:{self.port}"

    @property
    def address(self) -> str:
        """Where programs reach it."""
        return f"http://{bracketed(self.host)}:{self.port}"

    def link(self, code: str) -> str:
        """The link that logs one browser in, with a code from `make_code`."""
        return f"{self.origin}/#code={code}"


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class ServerFiles:
    """All have mode 0600, in a directory of mode 0700. Raises CorralError if they can't be used."""

    def __init__(self, state_dir: str) -> None:
        self.directory = os.path.join(state_dir, "server")
        self._codes = os.path.join(self.directory, "codes")
        self._lock: int | None = None
        try:
            for path in (state_dir, self.directory, self._codes):
                os.makedirs(path, mode=0o700, exist_ok=True)
            for path in (self.directory, self._codes):
                status = os.lstat(path)
                if status.st_uid != os.getuid() or not os.path.isdir(path) or os.path.islink(path):
                    raise CorralError(f"{path} does not belong to you")
                if status.st_mode & 0o077:
                    os.chmod(path, 0o700)
        except OSError as error:
            raise CorralError(f"{error.filename or self.directory}: {error.strerror}") from error

    def lock(self) -> bool:
        """Be the only server of this state directory until this process ends. False if another one is."""
        if self._lock is not None:
            return True
        fd = os.open(os.path.join(self.directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return False
        self._lock = fd
        return True

    def find_running(self) -> Running | None:
        """The server that holds the lock, if one does and has said where it listens."""
        if self._lock is not None:
            return None  # it is ours
        if self.lock():
            os.close(self._lock or 0)
            self._lock = None
            return None
        data = self._read("running.json")
        try:
            return msgspec.json.decode(data, type=Running) if data else None
        except msgspec.DecodeError:
            return None

    def tell_running(self, running: Running) -> None:
        self._write("running.json", msgspec.json.encode(running))

    def forget_running(self) -> None:
        """What the last server wrote is no longer true: somebody else may listen there."""
        self._remove("running.json")

    def read_port(self) -> int | None:
        """The port of the last run."""
        data = self._read("port") or b""
        return int(data) if data.isdigit() and 0 < int(data) < 65536 else None

    def keep_port(self, port: int) -> None:
        self._write("port", str(port).encode())

    def next_start(self) -> int:
        """Count the starts of a server here; event numbers grow with them."""
        data = self._read("starts") or b"0"
        number = (int(data) if data.isdigit() and len(data) < 10 else int(time.time())) + 1
        self._write("starts", str(number).encode())
        return number

    def read_secret(self, name: str) -> bytes:
        """Made at the first request, and the same over restarts until it is forgotten."""
        data = self._read(name)
        if data is None or len(data) != 64:
            data = secrets.token_hex(32).encode()
            self._write(name, data)
        return data

    def forget_secret(self, name: str) -> None:
        self._remove(name)

    def make_code(self, name: str) -> str:
        """A code that logs one browser in once, at the server of that name. The disk has only what can check it."""
        code = secrets.token_urlsafe(24)
        self._sweep_codes()
        self._write(os.path.join("codes", name_code(code)), f"{name} {code_key(code).hex()}".encode())
        return code

    def find_code(self, called: str, name: str) -> bytes | None:
        """The key that proves possession of the code; None if it is used, too old, or for another name."""
        if not is_nonce(called):
            return None
        age = self._age_of_code(called)
        made_for, _, key = (self._read(os.path.join("codes", called)) or b"").decode().partition(" ")
        return bytes.fromhex(key) if made_for == name and -60.0 < age < CODE_SECONDS else None

    def take_code(self, called: str) -> bool:
        """Remove it; True if it was still there. So only one browser can use it."""
        try:
            os.unlink(os.path.join(self._codes, called))
        except OSError:
            return False
        return True

    def has_code(self, code: str) -> bool:
        """Whether it can still be used."""
        return self._age_of_code(name_code(code)) < CODE_SECONDS

    def _age_of_code(self, called: str) -> float:
        try:
            return time.time() - os.lstat(os.path.join(self._codes, called)).st_mtime
        except OSError:
            return CODE_SECONDS

    def read_logins(self) -> bytes | None:
        return self._read("logins.json", _LOGINS_LIMIT)

    def write_logins(self, data: bytes) -> None:
        self._write("logins.json", data)

    def read_keeper(self) -> bytes | None:
        return self._read("keeper.json")

    def write_keeper(self, data: bytes) -> None:
        self._write("keeper.json", data)

    def _sweep_codes(self) -> None:
        paths = [os.path.join(self._codes, name) for name in os.listdir(self._codes)]
        with suppress(OSError):
            paths.sort(key=os.path.getmtime)
            now = time.time()
            for number, path in enumerate(paths):
                if number < len(paths) - _MOST_CODES or now - os.path.getmtime(path) > CODE_SECONDS:
                    os.unlink(path)

    def _read(self, name: str, limit: int = _LIMIT) -> bytes | None:
        content = read_regular(os.path.join(self.directory, name), limit)
        return None if isinstance(content, Unreadable) else content.data

    def _remove(self, name: str) -> None:
        path = os.path.join(self.directory, name)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise CorralError(f"{path}: {error.strerror}") from error

    def _write(self, name: str, data: bytes) -> None:
        folder, _, base = name.rpartition("/")
        try:
            with Directory(os.path.join(self.directory, folder)) as directory:
                replace(directory, base, data, own_identity())
        except OSError as error:
            raise CorralError(f"{os.path.join(self.directory, name)}: {error.strerror}") from error
