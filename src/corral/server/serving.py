"""Running the server: one per state directory, on loopback, the same port and secrets at every start."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn
from msgspec import Struct

from corral.errors import CorralError
from corral.server.app import build_app
from corral.server.credentials import Credentials
from corral.server.event_stream import EventStream
from corral.server.server_files import Running, ServerFiles, bracketed
from corral.system import places
from corral.system.descriptors import are_left, most_open, raise_limit

_FIRST_PORT = 7420
_STOP_SECONDS = 2
_MOST_WAITING = 512
_LONGEST_FRAME = 1 << 20
_FEWEST_FILES = 48
"""A server at rest, one browser with a few tabs, and one start."""
_SWITCH_SECONDS = 0.001
"""How long a thread that counts or reads may keep others waiting: keys and events come first."""


class Bind(Struct, frozen=True, kw_only=True):
    """Where to listen, as the person asked."""

    port: int | None = None
    host: str = "127.0.0.1"
    allow_remote: bool = False


class AlreadyRunning(CorralError):
    """Another server has this state directory; it is said where."""

    def __init__(self, running: Running | None) -> None:
        where = f"at {running.origin} (pid {running.pid})" if running else "and starts right now"
        super().__init__(
            f"a server of this state directory runs already, {where}", hint="corral url prints a link to it"
        )
        self.running = running


def serve(bind: Bind, tell: Callable[[Running, str], None]) -> None:
    """Until a signal comes. `tell` is called with a one-time code once it listens. Raises CorralError."""
    check_host(bind)
    raise_limit()  # each viewer takes two descriptors
    if not are_left(_FEWEST_FILES):
        raise CorralError(
            f"only {most_open()} files may be open at once: too few to serve", hint="raise the limit: ulimit -n 1024"
        )
    files = ServerFiles(places.state_dir())
    if not files.lock():
        raise AlreadyRunning(files.find_running())
    listener = _listen(bind, files)
    host, port = listener.getsockname()[:2]
    files.keep_port(port)
    running = Running(pid=os.getpid(), host=bind.host, port=port)
    credentials = Credentials(files.read_secret("secret"), files.read_secret("token"), port)
    events = EventStream(files.next_start())
    app = build_app(files, credentials, allowed_hosts(host, port), events)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="websockets-sansio",
        ws_max_size=_LONGEST_FRAME,
        ws_per_message_deflate=False,
        ws_ping_interval=30.0,
        ws_ping_timeout=60.0,
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.enable()
    gc.set_threshold(20_000, 20, 100)  # thousands of sessions are replaced at a time, and none of them in a circle
    asyncio.run(_Server(config, lambda: _begin(files, running, tell), events.end).serve(sockets=[listener]))


class _Server(uvicorn.Server):
    """Tells when it listens; ends with code 0 when it is asked to stop."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None], on_stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started
        self._on_stopping = on_stopping

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            # What is here now stays for good: the collector need not look at it again and again.
            gc.collect()
            gc.freeze()
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stopping()  # a stream that nobody ends would be waited for, then broken off with a traceback
        await super().shutdown(sockets=sockets)


def _begin(files: ServerFiles, running: Running, tell: Callable[[Running, str], None]) -> None:
    files.tell_running(running)
    tell(running, files.make_code())


def check_host(bind: Bind) -> None:
    """Loopback, or one address that the person named knowingly. Raises CorralError."""
    try:
        address = ipaddress.ip_address(bind.host)
    except ValueError:
        raise CorralError(f"{bind.host!r} is not an IP address", hint="for example 127.0.0.1", exit_code=2) from None
    if address.is_unspecified:
        raise CorralError(
            f"{bind.host} means every network this machine is in: not served there",
            hint="name one address; better: leave it on loopback and use ssh -L",
            exit_code=2,
        )
    if not address.is_loopback and not bind.allow_remote:
        raise CorralError(
            f"{bind.host} can be reached by others, and who gets in can run anything as you: not served there",
            hint="use ssh -L and loopback; or --allow-remote, behind TLS or a tunnel: this server speaks plain HTTP",
            exit_code=2,
        )


def allowed_hosts(host: str, port: int) -> set[str]:
    """The exact names by which a browser may call this server."""
    names = {bracketed(host)}
    if ipaddress.ip_address(host).is_loopback:
        names |= {"127.0.0.1", "localhost", "[::1]"}
    return {f"{name}:{port}" for name in names}


def _listen(bind: Bind, files: ServerFiles) -> socket.socket:
    """On the port that was asked for, else that of the last run, else the first that is free."""
    if bind.port is not None:
        return _bind(bind.host, bind.port)
    kept = files.read_port()
    candidates = [kept] if kept is not None else [*range(_FIRST_PORT, _FIRST_PORT + 20), 0]
    for port in candidates:
        try:
            return _bind(bind.host, port)
        except CorralError:
            if port == candidates[-1]:
                raise
    raise AssertionError("there is always a candidate")


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol must be said: asyncio turns Nagle's delay off only for sockets that name theirs, and with it a
    # second small message waits up to 40 ms for the answer to the first.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_MOST_WAITING)
    except OSError as error:
        listener.close()
        taken = error.errno == errno.EADDRINUSE
        raise CorralError(
            f"{bracketed(host)}:{port}: {error.strerror}",
            hint="--port N takes another; links and logins of the old one stop working" if taken else None,
        ) from error
    os.set_inheritable(listener.fileno(), False)
    return listener
