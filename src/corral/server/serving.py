"""Running the server: one per state directory, on loopback, the same port at every start."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn

from corral.errors import CorralError
from corral.machine import places
from corral.machine.descriptors import are_left, most_open, raise_limit
from corral.server.address import (
    MOST_WAITING,
    Address,
    Bind,
    check_host,
    program_hosts,
    release,
    take_address,
    with_keeper,
)
from corral.server.app import build_app
from corral.server.connections import ACCEPT_AT_ONCE, LONGEST_HEADERS, Crowd, FewLines, guarded_by
from corral.server.credentials import Credentials, Logins
from corral.server.event_stream import EventStream
from corral.server.server_files import TOKEN, Running, ServerFiles

_STOP_SECONDS = 2
_LONGEST_FRAME = 1 << 20
_FEWEST_FILES = 48
"""Enough for a server at rest, one browser with a few tabs, and one start."""
_SWITCH_SECONDS = 0.001
"""How long a busy thread may keep others waiting: keys and events come first."""


class AlreadyRunning(CorralError):
    """Another server uses this state directory."""

    def __init__(self, running: Running | None) -> None:
        where = f"at {running.origin} (pid {running.pid})" if running else "and is just starting"
        super().__init__(
            f"a server for this state directory is already running, {where}", hint="corral url prints a link to it"
        )
        self.running = running


def run_server(bind: Bind, tell: Callable[[Running, str], None]) -> None:
    """Serve until a signal comes. Once it listens, `tell` gets its address and a one-time code. Raises CorralError."""
    check_host(bind)
    raise_limit()  # each viewer takes two descriptors
    if not are_left(_FEWEST_FILES):
        raise CorralError(
            f"only {most_open()} files may be open at once: too few to serve", hint="raise the limit: ulimit -n 1024"
        )
    files = ServerFiles(places.state_dir())
    if not files.lock():
        raise AlreadyRunning(files.find_running())
    files.forget_running()
    address = take_address(bind, files)
    files.keep_port(address.port)
    running = Running(pid=os.getpid(), host=bind.host, port=address.port, name=address.name)
    logins = Logins(files, address.name)
    credentials = Credentials(files, logins, files.read_secret(TOKEN), running.origin)
    events = EventStream(files.next_start())
    crowd = Crowd(most_open())
    app = build_app(credentials, running.page_host, program_hosts(bind.host, address.port), events, crowd.prove)
    http, sockets = guarded_by(crowd)
    config = uvicorn.Config(
        app,
        http=http,
        h11_max_incomplete_event_size=LONGEST_HEADERS,
        backlog=ACCEPT_AT_ONCE,
        ws=sockets,
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
    few = FewLines()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(few)
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.enable()
    gc.set_threshold(20_000, 20, 100)  # thousands of sessions are replaced at a time, without reference cycles
    holding = Holding(address, files)
    server = _Server(config, lambda: _begin(files, running, holding, tell), events.end)
    asyncio.run(server.serve(sockets=address.listeners))
    holding.leave(for_good=not logins.list())


class _Server(uvicorn.Server):
    """Calls back once it listens; exits with 0 when asked to stop."""

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
            # What is here now stays: the collector need not look at it again.
            gc.collect()
            gc.freeze()
            for one in sockets or ():
                one.listen(MOST_WAITING)  # asyncio uses one number for the queue and for how many it accepts at once
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stopping()  # else uvicorn waits for open streams, then breaks them off with a traceback
        await super().shutdown(sockets=sockets)


def _begin(files: ServerFiles, running: Running, holding: Holding, tell: Callable[[Running, str], None]) -> None:
    holding.watch()
    files.tell_running(running)
    tell(running, files.make_code(running.name))


class Holding:
    """The server's side of its keeper. A keeper that dies is replaced at once: the sockets are held here too."""

    def __init__(self, address: Address, files: ServerFiles) -> None:
        self._address = address
        self._files = files

    def watch(self) -> None:
        """Call it in the event loop's thread."""
        if self._address.keeper is not None:
            asyncio.get_running_loop().add_reader(self._address.keeper, self._on_gone)

    def leave(self, *, for_good: bool) -> None:
        """The server has stopped. `for_good`: nobody is logged in, so the port can be released."""
        if for_good:
            release(self._address)
        if self._address.keeper is not None:
            self._address.keeper.close()

    def _on_gone(self) -> None:
        loop, keeper = asyncio.get_running_loop(), self._address.keeper
        assert keeper is not None
        loop.remove_reader(keeper)
        keeper.close()
        self._address = self._address._replace(keeper=None)
        loop.run_in_executor(None, with_keeper, self._address, self._files).add_done_callback(self._on_replaced)

    def _on_replaced(self, replaced: asyncio.Future[Address]) -> None:
        self._address = replaced.result()
        self.watch()
