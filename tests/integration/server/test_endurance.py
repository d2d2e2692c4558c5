"""What a server must bear: viewers and subscribers that never read, dropped events, bytes cut anywhere, old queries."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from corral.server.event_stream import MOST_BYTES
from tests.integration.server.serving import Serving
from tests.integration.server.test_events import agent, is_of, type_line, wait_for_line, watching
from tests.integration.server.test_storms import memory_kb
from tests.integration.server.test_tabs import say
from tests.integration.terminals.held import WAIT_SECONDS, wait_until

__all__ = ["agent"]

FLOOD = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'kimi, version 1.51.0' && exit\nexec yes\n"
ASKS = """#!{python}
import os, sys, tty
if sys.argv[1:] == ["--version"]:
    print("kimi, version 1.51.0"); sys.exit()
tty.setraw(0)
os.write(1, b"ready \\x1b[c\\x1b[6n\\x1b]11;?\\x07")
while (got := os.read(0, 100)) != b"q":
    os.write(1, b"got " + repr(got).encode() + b"\\r\\n")
"""
MOST_KB = 150_000


def start_program(serving: Serving, text: str) -> str:
    serving.world.program.write_text(text)
    body = {"provider": "kimi-cli", "work_dir": str(serving.world.work), "trust": True, "live_only": True}
    return serving.ask("POST", "/api/tabs", body).body["tab"]


def mute_viewer(serving: Serving, tab: str) -> socket.socket:
    """Attached as the page is, and never read from again: nothing here takes a byte off the socket."""
    one = socket.create_connection(("127.0.0.1", serving.port))
    head = (
        f"GET /api/tabs/{tab}/terminal HTTP/1.1\r\nHost: {serving.host}\r\nOrigin: {serving.origin}\r\n"
        f"Authorization: Bearer {serving.token}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    one.sendall(head.encode())
    assert b" 101 " in one.recv(20)
    first = json.dumps({"attach": None, "columns": 80, "rows": 24}).encode()
    one.sendall(struct.pack(">BB4x", 0x81, 0x80 | len(first)) + first)  # the mask is zero
    return one


def rename(state: Path, title: str) -> None:
    """As Kimi CLI does: the file is replaced."""
    state.with_suffix(".new").write_text(json.dumps({"custom_title": title}))
    state.with_suffix(".new").replace(state)


def test_fifty_viewers_that_never_read_cost_little_and_hold_nobody_up(serving):
    quiet = serving.start_tab()
    tab = start_program(serving, FLOOD)
    mute = [mute_viewer(serving, tab) for _ in range(50)]
    try:
        other = serving.terminal(tab)
        before = other.end
        while other.end < before + (4 << 20):
            other.step()
        viewer = serving.terminal(quiet)
        say(viewer, "unharmed", b": unharmed")
        assert serving.process is not None and memory_kb(serving.process.pid) < MOST_KB
        for one in (viewer, other):
            one.close()
    finally:
        for one in mute:
            one.close()


def make_sessions(home: Path, count: int) -> list[Path]:
    """Their directory has a name so long that every word about one of them is long; returns their state files."""
    work_dir = "/" + "x" * 4000
    bucket = home / "sessions" / hashlib.md5(work_dir.encode(), usedforsecurity=False).hexdigest()
    bucket.mkdir(parents=True)
    (home / "kimi.json").write_text(json.dumps({"work_dirs": [{"path": work_dir, "kaos": "local"}]}))
    files = [bucket / f"session-{number}" / "state.json" for number in range(count)]
    for file in files:
        file.parent.mkdir()
        file.parent.joinpath("context.jsonl").write_text('{"role": "user", "content": "hello"}\n')
        rename(file, "first")
    return files


def test_a_subscriber_that_does_not_read_is_told_to_fetch_all_anew_and_costs_little(serving):
    """Over a real socket: what it missed is not kept for it."""
    files = make_sessions(serving.world.root / ".kimi", 190)
    wait_until(lambda: len(serving.sessions()) == len(files), "the sessions")
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", serving.port))
    slow.sendall(
        f"GET /api/events HTTP/1.1\r\nHost: {serving.host}\r\nAuthorization: Bearer {serving.token}\r\n\r\n".encode()
    )
    assert b"200 OK" in slow.recv(64)
    events = serving.events()
    told = rounds = 0
    while told < MOST_BYTES + (10 << 20):  # more than the kernel itself keeps for a socket (4 MiB by default)
        rounds += 1
        for file in files:
            rename(file, f"title {rounds}")
        for _, name, body in events:
            told += len(json.dumps(body))
            if name == "session" and is_of(files[-1].parent.name, title=f"title {rounds}")(body):
                break
    slow.settimeout(WAIT_SECONDS)
    seen = b""
    while b"event: resync" not in seen[-(1 << 17) :] or not seen.endswith(b"\n\n\r\n"):  # an event may come in pieces
        more = slow.recv(1 << 16)
        assert more, "the stream ended"
        seen += more
    assert b"more happened than could be sent" in seen[-(1 << 17) :]
    assert len(seen) < told - MOST_BYTES // 2
    assert serving.process is not None and memory_kb(serving.process.pid) < MOST_KB
    slow.close()


def is_stopped(pid: int) -> bool:
    """A signal is taken by one thread; the others go on until that one has run."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return all((one / "stat").read_text().rpartition(") ")[2].startswith("T") for one in threads)


def test_events_that_the_kernel_dropped_are_told_and_made_up_for(world, agent):
    """The queue overflows while the watcher stands still: what happened after that is found by looking at all."""
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with watching(world, [sys.executable, "-m", "corral", "watch", "--json"]) as read:
        assert read()["event"] == "snapshot"
        process, session_id = agent()
        wait_for_line(read, session_id, state="live")
        (path,) = world.root.glob(f".kimi/sessions/*/{session_id}")
        read.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(read.process.pid), "every thread to stand still: one could empty the queue")
        try:
            for number in range(queue // 2 + 100):
                os.close(os.open(path / f"x{number}", os.O_CREAT | os.O_WRONLY))
                os.unlink(path / f"x{number}")
            type_line(process, "unheard of")
        finally:
            read.process.send_signal(signal.SIGCONT)
        told = {"session": False, "degraded": False}
        while not all(told.values()):
            line = read()
            told["session"] |= line.get("session", {}).get("title") == "unheard of"
            told["degraded"] |= "dropped events" in json.dumps(line.get("degraded", ""))


def test_bytes_cut_anywhere_are_the_same_bytes(serving):
    """Sequences and characters are cut by frames and by every reattachment; nothing is added, lost or replaced."""
    words = "\\u001b[1;31mred\\u001b[0m \\u001b]0;title\\u0007 \\u65e5\\u672c\\u8a9e \\ud83e\\udd20 end"
    shown = "\x1b[1;31mred\x1b[0m \x1b]0;title\x07 日本語 🤠 end".encode()
    tab = serving.start_tab()
    viewer = serving.terminal(tab)
    viewer.type(f'/print "{words}"\r'.encode())
    whole = viewer.read_until(shown + b"\r\n> ")
    begin = whole.index(shown)
    for offset in range(begin, begin + len(shown), 5):
        again = serving.terminal(tab, offset=offset)
        assert again.begin == offset
        while again.end < len(whole):
            again.step()
        assert again.data == whole[offset:]
        again.close()


def test_a_replay_is_answered_by_nobody(serving):
    """What a viewer says to the program's old questions, while it is shown them again, does not reach the program."""
    tab = start_program(serving, ASKS.format(python=sys.executable))
    first = serving.terminal(tab)
    first.read_until(b"ready")
    first.close()
    viewer = serving.terminal(tab)
    viewer.read_until(b"ready")
    viewer.socket.send(b"\x01\x1b[?62;c\x1b[1;1R\x1b]11;rgb:0/0/0\x07")
    viewer.type(b"x")
    viewer.read_until(b"got b'x'")
    assert not any(answer in viewer.data for answer in (b"?62;c", b"[1;1R", b"rgb:"))


def test_a_viewer_that_does_not_greet_is_closed_with_a_code(serving):
    tab = serving.start_tab()

    def attach() -> ClientConnection:
        headers = {"Authorization": f"Bearer {serving.token}"}
        address = f"ws://127.0.0.1:{serving.port}/api/tabs/{tab}/terminal"
        return connect(
            address,
            origin=f"http://127.0.0.1:{serving.port}",
            additional_headers=headers,
            open_timeout=WAIT_SECONDS,
            legacy=True,
        )

    def close_code(viewer: ClientConnection) -> int | None:
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                viewer.recv(WAIT_SECONDS)
        return closed.value.rcvd.code if closed.value.rcvd else None

    silent = attach()
    for first, code in (("not json", 1008), ('{"attach": "x"}', 1008), ("x" * (2 << 20), 1009), (b"\0typed", 1008)):
        with attach() as viewer:
            viewer.send(first)
            assert close_code(viewer) == code
    assert close_code(silent) == 1008
    viewer = serving.terminal(tab)
    say(viewer, "unharmed", b": unharmed")
    assert b"typed" not in viewer.data
