"""What is measured of a terminal server, the same way for each: throughput, echo, a flood, memory, coming back."""

from __future__ import annotations

import os
import pty
import select
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from watch import cpu_seconds, pss_bytes, spread

from terminals_kit.sides import DRIVER, Side, View, read_until

LINES = {
    "plain": "a line that goes on and on and on and on and on and on and on\n",
    "coloured": "\x1b[38;5;12ma\x1b[0m \x1b[1;31mline\x1b[0m that \x1b[2Kgoes on and on and on\n",
}
KEY = b"~"
FLOODS = 10
_GIVE_UP_SECONDS = 60.0


def make_output(root: Path, kind: str, size: int) -> Path:
    """A file of so many bytes, to be shown by cat."""
    file = root / f"{kind}.txt"
    line = LINES[kind].encode()
    file.write_bytes(line * (size // len(line)))
    return file


def shown_bytes(file: Path) -> int:
    """What a terminal makes of it: a carriage return more for every line."""
    data = file.read_bytes()
    return len(data) + data.count(b"\n")


_numbers = count()


def show(command: str) -> tuple[bytes, bytes]:
    """What to type, and the word that ends what it shows: a new one each time, as terminals show again what was."""
    number = next(_numbers)
    # The words as typed are echoed, and must not be taken for the end.
    return f"{command}; echo E''ND{number}.\n".encode(), f"END{number}.".encode()


@dataclass(frozen=True, slots=True)
class Throughput:
    mb_per_s: float
    cpu_ms_per_mb: float
    """Of what serves: not of the program that writes, nor of the client."""


def measure_bare(file: Path) -> Throughput:
    """The simplest loop that reads a PTY in Python."""
    pid, master = pty.fork()
    if pid == 0:
        os.execve(DRIVER[0], list(DRIVER), {"PATH": os.environ["PATH"]})
    cpu, begun, tail = time.process_time(), time.perf_counter(), b""
    words, end = show(f"cat {file}")
    os.write(master, words)
    while end not in tail:
        data = os.read(master, 65536)
        tail = tail[-16:] + data if len(data) < 4000 else data
    spent, cpu = time.perf_counter() - begun, time.process_time() - cpu
    os.close(master)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    megabytes = shown_bytes(file) / 1e6
    return Throughput(megabytes / spent, cpu * 1000 / megabytes)


def measure_throughput(side: Side, file: Path) -> Throughput:
    view = side.connect("throughput")
    _settle(view)
    words, end = show(f"cat {file}")
    cpu, begun = cpu_of(side), time.perf_counter()
    view.type(words)
    read_until(view, end)
    spent, cpu = time.perf_counter() - begun, cpu_of(side) - cpu
    view.socket.close()
    megabytes = shown_bytes(file) / 1e6
    return Throughput(megabytes / spent, cpu * 1000 / megabytes)


def cpu_of(side: Side) -> float:
    return sum(map(cpu_seconds, side.pids()))


def pss_mb(side: Side) -> float:
    return sum(map(pss_bytes, side.pids())) / 1e6


def _settle(view: View) -> None:
    """Until what the terminal shows again is over."""
    words, end = show(":")
    view.type(words)
    read_until(view, end)


def measure_echo(side: Side, keys: int) -> dict[str, float]:
    view = _start_echo(side)
    found = _type_keys(view, keys, 0.0)
    _end_echo(view)
    return found


def _start_echo(side: Side) -> View:
    """A program that reads each key and writes it."""
    view = side.connect("echo")
    _settle(view)
    words, end = show("stty raw -echo isig")
    view.type(words.replace(b".\n", b".; cat; stty sane\n"))
    read_until(view, end)
    time.sleep(0.3)
    return view


def _end_echo(view: View) -> None:
    view.type(b"\x03")
    view.socket.close()


def _type_keys(view: View, keys: int, pause_seconds: float) -> dict[str, float]:
    """From a key to its echo."""
    spans: list[float] = []
    for _ in range(keys):
        begun = time.perf_counter()
        view.type(KEY)
        read_until(view, KEY)
        spans.append((time.perf_counter() - begun) * 1000)
        time.sleep(pause_seconds)
    return spread(spans)


@dataclass(frozen=True, slots=True)
class Flood:
    echo_ms: dict[str, float]
    interrupt_ms: float
    """From Ctrl-C in all ten to the last word after it, in the slowest of them."""
    grown_mb: float


def measure_flood(side: Side, keys: int, seconds: float = 3.0) -> Flood:
    """`yes` in ten tabs that are all looked at, and keys in an eleventh."""
    echo = _start_echo(side)
    before = pss_mb(side)
    views = [side.connect(f"flood{number}") for number in range(FLOODS)]
    heard, tell = os.pipe()
    answered, answer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(answer, struct.pack("d", _look_on(views, heard)))
        finally:
            os._exit(0)
    time.sleep(seconds)
    echoed = _type_keys(echo, keys, 0.02)
    grown = pss_mb(side) - before
    os.write(tell, b"x")
    spent = struct.unpack("d", os.read(answered, 8))[0]
    os.waitpid(child, 0)
    for fd in (heard, tell, answered, answer):
        os.close(fd)
    for view in views:
        view.socket.close()
    _end_echo(echo)
    return Flood(echoed, spent * 1000, grown)


def _look_on(views: list[View], stop: int) -> float:
    """Reads all of them, in a process of its own; then how long Ctrl-C took in the slowest."""
    words, end = show("yes")
    by_fd = {view.socket.socket.fileno(): view for view in views}
    for view in views:
        view.type(words)
    poll = select.poll()
    for fd in (*by_fd, stop):
        poll.register(fd, select.POLLIN)
    begun = float("inf")
    left = set(by_fd)
    while left and time.perf_counter() - begun < _GIVE_UP_SECONDS:
        for fd, _ in poll.poll(1000):
            if fd == stop:
                poll.unregister(stop)
                begun = time.perf_counter()
                for view in views:
                    view.type(b"\x03")
            elif end in by_fd[fd].read():
                left.discard(fd)
                poll.unregister(fd)
    return float("inf") if left else time.perf_counter() - begun


@dataclass(frozen=True, slots=True)
class Reattached:
    seconds: float
    mb_per_tab: float


class OpenTabs:
    """Terminals with something on their screens, which nobody looks at."""

    def __init__(self, side: Side, tabs: int, file: Path) -> None:
        self._side = side
        self._before = pss_mb(side)
        self._names = [f"tab{number}" for number in range(tabs)]
        words, self._end = show(f"head -c 16000 {file}")
        for name in self._names:
            view = side.connect(name)
            view.type(words)
            read_until(view, self._end)
            view.socket.close()

    def come_back(self) -> Reattached:
        """All of them, eight at a time, until each shows its last words again; and what a tab costs then."""
        begun = time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            views = list(pool.map(self._connect, self._names))
        spent = time.perf_counter() - begun
        grown = pss_mb(self._side) - self._before
        for view in views:
            view.socket.close()
        return Reattached(spent, grown / len(self._names))

    def _connect(self, name: str) -> View:
        view = self._side.connect(name)
        read_until(view, self._end)
        return view
