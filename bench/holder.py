"""What a holder costs: throughput against a bare PTY, echo, memory, start, reattaching: `python bench/holder.py`."""

from __future__ import annotations

import argparse
import json
import os
import pty
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from corral.model.frames import Attached, Output
from corral.sidecar.processes import read_identity
from corral.terminals.client import Client
from corral.terminals.start import Started, start_terminal

ENV = {"PATH": "/usr/bin:/bin", "TERM": "xterm-256color"}
PLAIN = ["/usr/bin/yes", "a line that goes on and on and on and on and on and on and on"]
COLOURED = ["/usr/bin/yes", "\x1b[38;5;12ma\x1b[0m \x1b[1;31mline\x1b[0m that \x1b[2Kgoes on and on and on"]


@contextmanager
def held(directory: str, *programs: Sequence[str]) -> Iterator[list[Started]]:
    """Terminals that are gone afterwards."""
    started: list[Started] = []
    try:
        for argv in programs:
            started.append(start_terminal(directory, argv, cwd="/", env=ENV))
        yield started
    finally:
        for one in started:
            for identity in (one.child, one.holder):
                if read_identity(identity.pid) == identity:
                    os.kill(identity.pid, 9)


def attach(directory: str, started: Started) -> Client:
    client = Client(directory, started.tab)
    client.attach(None, 80, 24)
    while not isinstance(client.receive(), Attached):
        pass
    return client


def bare_throughput(argv: Sequence[str], size: int) -> float:
    """MB/s of the simplest loop that reads a PTY in Python."""
    master, slave = pty.openpty()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for fd in (0, 1, 2):
            os.dup2(slave, fd)
        os.execve(argv[0], list(argv), ENV)
    os.close(slave)
    started, got = time.perf_counter(), 0
    while got < size:
        got += len(os.read(master, 65536))
    spent = time.perf_counter() - started
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(master)
    return got / spent / 1e6


def held_throughput(directory: str, argv: Sequence[str], size: int) -> float:
    """MB/s from the PTY through the holder to a viewer that takes the frames apart."""
    with held(directory, argv) as (terminal,), attach(directory, terminal) as client:
        got, started = 0, time.perf_counter()
        while got < size:
            frames = client.feed(client.socket.recv(1 << 18))
            got += sum(len(frame.data) for frame in frames if isinstance(frame, Output))
        return got / (time.perf_counter() - started) / 1e6


def echo_ms(directory: str, *others: Sequence[str]) -> tuple[float, float]:
    """From a key to its echo, beside other terminals: the median and the 99th percentile."""
    reader = "import os, tty; tty.setraw(0)\nwhile True: os.write(1, os.read(0, 100))"
    with held(directory, [sys.executable, "-c", reader], *others) as (terminal, *_):
        time.sleep(0.5)
        with attach(directory, terminal) as client:
            spent: list[float] = []
            for _ in range(1000):
                started = time.perf_counter()
                client.type(b"x")
                while not isinstance(client.receive(), Output):
                    pass
                spent.append((time.perf_counter() - started) * 1000)
    spent.sort()
    return spent[500], spent[990]


def pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=48)
    parser.add_argument("--terminals", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    size = args.megabytes << 20
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as root:
        directory = f"{root}/terminals"
        for name, argv in (("plain", PLAIN), ("coloured", COLOURED)):
            pairs = [(bare_throughput(argv, size), held_throughput(directory, argv, size)) for _ in range(3)]
            bare, through = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
            figures |= {f"{name}_bare_mb_s": bare, f"{name}_held_mb_s": through, f"{name}_ratio": through / bare}
        figures["echo_p50_ms"], figures["echo_p99_ms"] = echo_ms(directory)
        figures["echo_beside_flood_p50_ms"], figures["echo_beside_flood_p99_ms"] = echo_ms(directory, PLAIN)
        started = time.perf_counter()
        with held(directory, *[["/bin/cat"]] * args.terminals) as terminals:
            figures["start_ms"] = (time.perf_counter() - started) * 1000 / len(terminals)
            figures["quiet_pss_mb"] = sum(pss_mb(one.holder.pid) for one in terminals) / len(terminals)
            started = time.perf_counter()
            clients = [attach(directory, one) for one in terminals]
            figures["attach_ms"] = (time.perf_counter() - started) * 1000 / len(terminals)
            for client in clients:
                client.close()
    if args.json:
        print(json.dumps(figures, indent=2))
    else:
        print("\n".join(f"{name:28} {value:10.2f}" for name, value in figures.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
