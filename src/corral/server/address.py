"""Where the server listens, and under which name. A keeper holds both without a gap, or else the name is new.

A browser gives everything of ours to whoever is at our origin: our key, a service worker, the cache. So an origin is
ours only while nobody else can listen there. After a gap we take another origin, and old logins are void.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import secrets
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import Struct

from corral.errors import CorralError
from corral.machine.descriptors import is_ready, with_given_limit
from corral.machine.places import DEMO_VARIABLE
from corral.server import keeper
from corral.server.server_files import TOKEN, ServerFiles, bracketed
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import read_identity
from corral.state.bindings import identity_fields

_FIRST_PORT = 7420
MOST_WAITING = 512
_KEEPER_SECONDS = 10.0
_LEAVING_SECONDS = 5.0
_SOCKET = "keeper.sock"
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_NAME_LENGTH = 20
"""A hundred bits: nobody can guess the name, and leave something in the browser for it."""
_LOOPBACK = ("127.0.0.1", "::1")


class Bind(Struct, frozen=True, kw_only=True):
    """Where to listen, as the person asked."""

    port: int | None = None
    host: str = "127.0.0.1"
    allow_remote: bool = False


class Address(NamedTuple):
    """An address of our own to listen on."""

    name: str
    host: str
    port: int
    listeners: list[socket.socket]
    keeper: socket.socket | None
    """Open while both processes live; None if no keeper could be started."""


class _Record(Struct, frozen=True, kw_only=True):
    schema: int = 1
    name: str
    host: str
    port: int
    process: tuple[str, int, int, int]


class _Words(Struct, frozen=True):
    schema: int
    name: str


def take_address(bind: Bind, files: ServerFiles) -> Address:
    """The address that the keeper holds, or a new one. The caller has the directory's lock. Raises CorralError."""
    held = _take_held(bind, files)
    if held is not None:
        return held
    listeners = _listen(bind, files)
    port = listeners[0].getsockname()[1]
    files.forget_secret(TOKEN)  # a program may have shown it to whoever had the port meanwhile
    name = "corral-" + "".join(secrets.choice(_ALPHABET) for _ in range(_NAME_LENGTH))
    return with_keeper(Address(name, bind.host, port, listeners, None), files)


def with_keeper(address: Address, files: ServerFiles) -> Address:
    """The same address, held by a new keeper too, or by this process alone if no keeper can be started."""
    try:
        return address._replace(keeper=_start_keeper(address, files))
    except (OSError, CorralError, subprocess.SubprocessError):
        return address


def release(address: Address) -> None:
    """Nobody needs the address any more; the next server gets another name."""
    if address.keeper is not None:
        with suppress(OSError):
            address.keeper.send(keeper.RELEASE)


# --- what a keeper holds for us


def _take_held(bind: Bind, files: ServerFiles) -> Address | None:
    record = _read_record(files)
    if record is None:
        return None
    identity = ProcessIdentity(*record.process)
    if read_identity(identity.pid) != identity:
        return None  # it died, and the port was free
    connection = _connect(files, identity)
    try:
        if connection is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        listeners = _receive(connection, record)
    except OSError as error:
        if connection is not None:
            connection.close()
        if _ends_soon(identity):
            return None
        raise CorralError(
            f"the keeper of the address (pid {identity.pid}) does not hand it over: {error}",
            hint=f"kill {identity.pid} releases the address, and ends all logins",
        ) from error
    address = Address(record.name, record.host, record.port, listeners, connection)
    if record.host == bind.host and bind.port in (None, record.port):
        return address
    for one in listeners:
        one.close()
    release(address)
    is_ready(connection.fileno(), _KEEPER_SECONDS)  # it closes what it holds, then this
    connection.close()
    return None


def _ends_soon(identity: ProcessIdentity) -> bool:
    """A keeper whose server died before it said GO is about to exit."""
    until = time.monotonic() + _LEAVING_SECONDS
    while time.monotonic() < until:
        if read_identity(identity.pid) != identity:
            return True
        time.sleep(0.02)
    return False


def _connect(files: ServerFiles, identity: ProcessIdentity) -> socket.socket | None:
    """None if nobody listens there. Only the process on record is trusted."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_KEEPER_SECONDS)
    folder = os.open(files.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{_SOCKET}")
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if (pid, uid) == (identity.pid, os.getuid()) and read_identity(pid) == identity:
            return connection
    except OSError:
        pass
    finally:
        os.close(folder)
    connection.close()
    return None


def _receive(connection: socket.socket, record: _Record) -> list[socket.socket]:
    """Raises OSError if the sockets are not those on record."""
    words, fds, _, _ = socket.recv_fds(connection, 4096, 4)
    listeners = [socket.socket(fileno=fd) for fd in fds]
    for one in listeners:
        one.setblocking(False)
        os.set_inheritable(one.fileno(), False)
    ports = {one.getsockname()[1] for one in listeners if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)}
    try:
        named = msgspec.json.decode(words, type=_Words).name if words else None
    except msgspec.DecodeError:
        named = None
    if named != record.name or ports != {record.port}:
        for one in listeners:
            one.close()
        raise OSError(errno.EPROTO, "it holds something else")
    return listeners


def _start_keeper(address: Address, files: ServerFiles) -> socket.socket:
    fds = [one.fileno() for one in address.listeners]
    order = {"name": address.name, "path": os.path.join(files.directory, _SOCKET), "listeners": fds}
    marked = {DEMO_VARIABLE: os.environ[DEMO_VARIABLE]} if DEMO_VARIABLE in os.environ else {}
    process = subprocess.Popen(
        with_given_limit([sys.executable, "-I", "-S", os.path.abspath(keeper.__file__)]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=marked,
        cwd="/",
        pass_fds=fds,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    with process.stdin as told, process.stdout as said:
        told.write(msgspec.json.encode(order) + b"\n")
        told.flush()
        ready = is_ready(said.fileno(), _KEEPER_SECONDS) and said.readline() == b"ready\n"
        identity = read_identity(process.pid)
        if not ready or identity is None:
            process.kill()
            process.wait()
            raise CorralError("the keeper of the address did not start")
        record = _Record(name=address.name, host=address.host, port=address.port, process=identity_fields(identity))
        files.write_keeper(msgspec.json.encode(record))
        told.write(keeper.GO)
    connection = _connect(files, identity)
    if connection is None:
        raise CorralError("the keeper of the address does not answer")
    for one in _receive(connection, record):
        one.close()  # we have them already
    connection.setblocking(False)
    return connection


def _read_record(files: ServerFiles) -> _Record | None:
    data = files.read_keeper()
    try:
        record = msgspec.json.decode(data, type=_Record) if data else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return record if record is not None and record.schema == 1 else None


# --- a new one


def check_host(bind: Bind) -> None:
    """Accept loopback, or one address that the person named on purpose. Raises CorralError."""
    try:
        address = ipaddress.ip_address(bind.host)
    except ValueError:
        raise CorralError(f"{bind.host!r} is not an IP address", hint="for example 127.0.0.1", exit_code=2) from None
    if address.is_unspecified:
        raise CorralError(
            f"corral does not serve on {bind.host}: that is every network of this machine",
            hint="name one address; or better, stay on loopback and use ssh -L",
            exit_code=2,
        )
    if address.is_loopback and str(address) not in _LOOPBACK:
        raise CorralError(
            f"corral does not serve on {bind.host}: browsers don't look there for names below localhost",
            hint="leave out --host: 127.0.0.1 and ::1 are served",
            exit_code=2,
        )
    if not address.is_loopback and not bind.allow_remote:
        raise CorralError(
            f"corral does not serve on {bind.host}: others can reach it, and whoever gets in can run anything as you",
            hint="use ssh -L and loopback; or --allow-remote, for programs: this server speaks plain HTTP",
            exit_code=2,
        )


def is_remote(bind: Bind) -> bool:
    return not ipaddress.ip_address(bind.host).is_loopback


def program_hosts(host: str, port: int) -> set[str]:
    """The exact names by which programs may call this server, beside the page's."""
    names = {bracketed(host)}
    if ipaddress.ip_address(host).is_loopback:
        names |= {"127.0.0.1", "localhost", "[::1]"}
    return {f"{name}:{port}" for name in names}


def _listen(bind: Bind, files: ServerFiles) -> list[socket.socket]:
    """On the port that was asked for, else on that of the last run, else on the first free one."""
    if bind.port:
        return _bind_all(bind.host, bind.port)
    if bind.port is None and (kept := files.read_port()) is not None:
        return _bind_all(bind.host, kept)
    candidates = [0] * 20 if bind.port == 0 else [*range(_FIRST_PORT, _FIRST_PORT + 20), *[0] * 20]
    for number, port in enumerate(candidates):
        try:
            return _bind_all(bind.host, port)
        except CorralError:
            if number == len(candidates) - 1:
                raise
    raise AssertionError("there is always a candidate")


def _bind_all(host: str, port: int) -> list[socket.socket]:
    """Browsers look for a name below localhost at both loopback addresses: whoever has one of them has the origin."""
    if host not in _LOOPBACK:
        return [_bind(host, port)]
    first = _bind(host, port)
    other = next(one for one in _LOOPBACK if one != host)
    try:
        second = _bind(other, first.getsockname()[1])
    except CorralError as error:
        missing = isinstance(error.__cause__, OSError) and error.__cause__.errno in (
            errno.EADDRNOTAVAIL,
            errno.EAFNOSUPPORT,
        )
        if missing:  # a machine without IPv6: nobody else can listen there either
            return [first]
        first.close()
        raise
    return [first, second]


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener: socket.socket | None = None
    try:
        # Name the protocol: asyncio turns Nagle's delay off only for sockets that name theirs, and with it a
        # second small message waits up to 40 ms for the answer to the first.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MOST_WAITING)
    except OSError as error:
        if listener is not None:
            listener.close()
        taken = error.errno == errno.EADDRINUSE
        raise CorralError(
            f"{bracketed(host)}:{port}: {error.strerror}",
            hint="--port N uses another port; old links and logins then stop working" if taken else None,
        ) from error
    listener.setblocking(False)
    os.set_inheritable(listener.fileno(), False)
    return listener
