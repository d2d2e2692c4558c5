"""Finding terminals: the records that holders leave in their directory, each checked against the process it names."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct

from corral.machine import places
from corral.model.terminal import Standing, Terminal
from corral.sidecar import processes
from corral.sidecar.atomic import Directory
from corral.sidecar.atomic import sweep as sweep_temps
from corral.sidecar.files import Unreadable, read_regular
from corral.sidecar.identity import ProcessIdentity
from corral.terminals.files import EXIT, LOG, RECORD, SOCKET

TAB_VARIABLE = "CORRAL_TAB"
"""Names the terminal to the program that runs in it."""
_TAB = re.compile(r"[0-9a-f]{16}\Z")
_LIMIT = 1 << 14
_FORGET_AFTER_SECONDS = 30 * 86_400.0
_STARTING_SECONDS = 120.0

_MEANINGS = {
    signal.SIGHUP: "it was hung up",
    signal.SIGINT: "it was interrupted",
    signal.SIGQUIT: "it was told to quit",
    signal.SIGTERM: "it was asked to end",
    signal.SIGKILL: "it was killed",
    signal.SIGABRT: "it gave up",
    signal.SIGSEGV: "it crashed",
    signal.SIGBUS: "it crashed",
    signal.SIGILL: "it crashed",
    signal.SIGFPE: "it crashed",
}
_USUALLY = {126: "usually: no permission to run a program", 127: "usually: a program was not found"}


class _Record(Struct, frozen=True):
    schema: int
    tab: str
    hostname: str
    holder: tuple[str, int, int, int]
    child: tuple[str, int, int, int]
    started_at: float


class _Exit(Struct, frozen=True):
    schema: int
    tab: str
    child: tuple[str, int, int, int]
    status: int
    ended_at: float


_RECORD = msgspec.json.Decoder(_Record)
_EXIT = msgspec.json.Decoder(_Exit)
_File = TypeVar("_File", _Record, _Exit)


def terminals_dir() -> str:
    """Where holders have their sockets. They create it, mode 0700."""
    return os.path.join(places.state_dir(), "terminals")


def list_terminals(directory: str) -> list[Terminal]:
    """Every terminal that left a readable record or exit status, oldest first."""
    tabs = {name.partition(".")[0] for name in _names(directory) if name.endswith((RECORD, EXIT))}
    found = (find_terminal(directory, tab) for tab in tabs)
    return sorted((one for one in found if one), key=lambda one: one.started_at or one.ended_at or 0.0)


def find_terminal(directory: str, tab: str) -> Terminal | None:
    """One of them by name; None when nothing of it is left."""
    if not _TAB.match(tab):
        return None
    record, ended = _read(directory, tab, RECORD, _RECORD), _read(directory, tab, EXIT, _EXIT)
    if record is None:
        return None if ended is None else _ended(tab, ended, None, None)
    holder, child = ProcessIdentity(*record.holder), ProcessIdentity(*record.child)
    standing = _judge(record.hostname, holder)
    if ended is not None:
        return _ended(tab, ended, holder if standing is Standing.RUNNING else None, record.started_at)
    if standing is Standing.RUNNING and processes.read_identity(child.pid) != child:
        standing = Standing.ENDED  # the holder has not said yet how
    return Terminal(tab=tab, standing=standing, holder=holder, child=child, started_at=record.started_at)


def say_end(status: int | None) -> str:
    """How a program ended, in words. `status` is the exit code, or the negative signal; None where nobody saw it."""
    if status is None:
        return "ended"
    if status >= 0:
        meaning = f" ({_USUALLY[status]})" if status in _USUALLY else ""
        return f"ended with exit status {status}{meaning}"
    try:
        number = signal.Signals(-status)
    except ValueError:
        return f"ended by signal {-status}"
    meaning = f": {_MEANINGS[number]}" if number in _MEANINGS else ""
    return f"ended by signal {number.value} ({number.name}){meaning}"


def forget_terminal(directory: str, tab: str) -> None:
    """Drop what an ended program or a dead holder left. client.dismiss_terminal also asks the holder to leave."""
    if _TAB.match(tab):
        if (one := find_terminal(directory, tab)) and _is_dead(one):
            _remove(directory, tab, SOCKET, RECORD)
        _remove(directory, tab, EXIT, LOG)


def sweep_terminals(directory: str) -> list[str]:
    """Remove what dead holders left behind; returns their tabs. Only what is proven dead is touched."""
    swept: list[str] = []
    now = time.time()
    for name in _names(directory):
        tab, dot, kind = name.partition(".")
        if not _TAB.match(tab):
            continue
        match dot + kind:
            case ".json" if (one := find_terminal(directory, tab)) and _is_dead(one):
                _remove(directory, tab, SOCKET, RECORD)
                swept.append(tab)
            case ".sock" if _age_seconds(directory, name, now) > _STARTING_SECONDS:
                if find_terminal(directory, tab) is None:
                    _remove(directory, tab, SOCKET)
            case ".exit" | ".log" if _age_seconds(directory, name, now) > _FORGET_AFTER_SECONDS:
                if not os.path.exists(os.path.join(directory, tab + RECORD)):
                    _remove(directory, tab, EXIT, LOG)
            case _:
                pass
    with suppress(OSError), Directory(directory) as opened:
        for tab in swept:
            sweep_temps(opened, tab + RECORD)
            sweep_temps(opened, tab + EXIT)
    return swept


def _is_dead(terminal: Terminal) -> bool:
    return terminal.standing is Standing.LOST or (terminal.standing is Standing.ENDED and terminal.holder is None)


def _judge(hostname: str, holder: ProcessIdentity) -> Standing:
    own = processes.own_identity()
    if own is None or hostname.casefold() != processes.hostname().casefold():
        return Standing.ELSEWHERE
    if holder.boot_id != own.boot_id:
        return Standing.LOST
    if holder.pid_ns != own.pid_ns:
        return Standing.ELSEWHERE
    look = processes.find_platform().look(holder.pid)
    if look.state in (processes.GONE, processes.ZOMBIE, processes.THREAD):
        return Standing.LOST
    if look.identity is None:
        return Standing.ELSEWHERE
    return Standing.RUNNING if look.identity == holder else Standing.LOST


def _ended(tab: str, ended: _Exit, holder: ProcessIdentity | None, started_at: float | None) -> Terminal:
    return Terminal(
        tab=tab,
        standing=Standing.ENDED,
        holder=holder,
        child=ProcessIdentity(*ended.child),
        started_at=started_at,
        status=ended.status,
        ended_at=ended.ended_at,
    )


def _read(directory: str, tab: str, kind: str, decoder: msgspec.json.Decoder[_File]) -> _File | None:
    content = read_regular(os.path.join(directory, tab + kind), _LIMIT)
    if isinstance(content, Unreadable):
        return None
    try:
        found = decoder.decode(content.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if (found.schema, found.tab) == (1, tab) else None


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _age_seconds(directory: str, name: str, now: float) -> float:
    try:
        return now - os.lstat(os.path.join(directory, name)).st_mtime
    except OSError:
        return 0.0


def _remove(directory: str, tab: str, *kinds: str) -> None:
    for kind in kinds:
        with suppress(OSError):
            os.unlink(os.path.join(directory, tab + kind))
