"""Many at once, full disks, no descriptors, servers that die over and over: bounded, explained, and nothing lost."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from corral.server.connections import ANSWER_SECONDS, HEADER_SECONDS
from corral.server.guard import MOST_SOCKETS
from corral.server.page import DIST
from corral.terminals.holder import MOST_VIEWERS
from corral.terminals.start import start_terminal
from tests.integration.server.crowd import Page, gather_crowd
from tests.integration.server.restarts import LOOK_EVERY, endure, start_tabs
from tests.integration.server.serving import Serving, free_port
from tests.integration.server.test_tabs import say
from tests.integration.terminals.held import wait_until
from tests.long_run import SERVER_KILLS

LOGINS, CLIENTS, TABS = 4, 500, 8
MOST_KB_EACH = 200
"""Of the server's memory at its highest, beside 36 KiB to be shown to each; 120 were measured."""
SELECTABLE = 1024
"""select() knows no descriptor from here on, and fails."""


def memory_kb(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS"))


def peak_kb(pid: int) -> int:
    """The most since the last call of `forget_peak`."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM"))


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def start_talker(serving: Serving, number: int) -> str:
    """A terminal with 36 KiB to see, unlike those of the others, sooner there than an agent is."""
    first = number * 100_000
    script = f"seq {first} {first + 4500}; echo all of {number}; exec cat"
    directory = str(serving.world.state / "terminals")
    return start_terminal(directory, ("/bin/sh", "-c", script), cwd="/", env=serving.world.env).tab


def see_all(serving: Serving, number: int, tab: str) -> bytes:
    viewer = serving.terminal(tab)
    try:
        return viewer.read_until(f"all of {number}\r\n".encode())
    finally:
        viewer.close()


def test_five_hundred_clients_come_back_after_a_restart_and_are_open_at_once(serving):
    """Each from its first byte, in a few browsers' worth of logins; meanwhile others are served as ever."""
    own = serving.start_tab()
    tabs = [start_talker(serving, number) for number in range(1, TABS + 1)]
    shown = [see_all(serving, number, tab) for number, tab in enumerate(tabs, 1)]
    visitors = [serving.log_in() for _ in range(LOGINS)]
    serving.kill()
    # Each client costs the server two: one to the browser, one to the holder. It sees to that itself.
    pid = start_with_limit(serving, SELECTABLE)
    assert limit_of(pid) >= 3 * CLIENTS
    before = memory_kb(pid)
    forget_peak(pid)
    for visitor in visitors:
        visitor.prove()
    turns = [(visitors[number % LOGINS], number % TABS) for number in range(CLIENTS)]
    pages = [Page(visitor, tabs[turn], len(shown[turn])) for visitor, turn in turns]
    seen = gather_crowd(serving, pages, lambda: serve_another(serving, pid, own))
    assert [data[: page.size] for data, page in zip(seen, pages, strict=True)] == [shown[turn] for _, turn in turns]
    assert peak_kb(pid) - before < MOST_KB_EACH * CLIENTS
    wait_until(lambda: descriptors(pid) < CLIENTS // 5, "those of the clients who left")


def limit_of(pid: int) -> int:
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]


def start_with_limit(serving: Serving, soft: int) -> int:
    """The pid of a server that is started with this soft limit, as most systems give it."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, limits[1]))
    try:
        serving.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert serving.process is not None
    return serving.process.pid


def test_what_a_server_starts_has_the_limit_that_the_server_was_given(serving):
    serving.kill()
    server = start_with_limit(serving, SELECTABLE)
    assert limit_of(server) == min(65_536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]) > SELECTABLE
    serving.start_tab()
    (tab,) = json.loads(serving.world.corral("terminals", "--json").stdout)["terminals"]
    assert (limit_of(tab["pid"]), limit_of(tab["holder_pid"])) == (SELECTABLE, SELECTABLE)


def serve_another(serving: Serving, pid: int, tab: str) -> None:
    """What a person who is no part of the crowd does; beyond the last descriptor that select() knows."""
    assert descriptors(pid) >= 2 * CLIENTS
    idle = [socket.create_connection(("127.0.0.1", serving.port)) for _ in range(SELECTABLE - 2 * CLIENTS)]
    try:
        wait_until(lambda: descriptors(pid) >= SELECTABLE, "connections that say nothing")
        viewer = serving.terminal(tab)
        say(viewer, "meanwhile", b": meanwhile")
        viewer.close()
        ref = serving.tabs()[tab]["ref"]
        assert serving.ask("POST", f"/api/sessions/{ref}/end", {}).status == 202
        serving.wait_for_tab(tab, lambda one: one["state"] == "ended")
        wait_until(lambda: '"session_ended"' in (serving.files / "log.jsonl").read_text(), "its end in the log")
    finally:
        for one in idle:
            one.close()


def test_one_browser_has_no_more_sockets_than_its_share(serving):
    tabs = [serving.start_tab() for _ in range(MOST_SOCKETS // MOST_VIEWERS + 1)]
    visitor = serving.log_in()
    open_ones = []
    try:
        from websockets.exceptions import InvalidStatus

        with pytest.raises(InvalidStatus) as refused:
            for number in range(MOST_SOCKETS + 1):
                open_ones.append(serving.terminal(tabs[number % len(tabs)], visitor=visitor))
        assert refused.value.response.status_code == 429
        assert serving.ask("GET", "/api/health").status == 200
    finally:
        for viewer in open_ones:
            viewer.close()
    wait_until(lambda: visitor.ask("GET", "/api/health").status == 200, "room again")


def test_half_open_connections_stop_nobody(serving):
    open_ones = []
    try:
        for _ in range(400):
            one = socket.create_connection(("127.0.0.1", serving.port))
            one.sendall(b"GET / HTTP/1.1\r\nHost:")
            open_ones.append(one)
        assert serving.ask("GET", "/api/health").status == 200
    finally:
        for one in open_ones:
            one.close()


def test_a_viewer_that_never_acknowledges_is_sent_no_more_than_its_share(serving):
    serving.world.program.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'kimi, version 1.51.0' && exit\nexec yes\n"
    )
    body = {"provider": "kimi-cli", "work_dir": str(serving.world.work), "trust": True, "live_only": True}
    tab = serving.ask("POST", "/api/tabs", body).body["tab"]
    lazy = serving.terminal(tab)
    lazy.acknowledges = False
    with pytest.raises(TimeoutError):
        while True:
            lazy.step(2.0)
    assert len(lazy.data) <= (512 + 256 + 64) << 10
    other = serving.terminal(tab)
    before = other.end
    while other.end < before + (4 << 20):
        other.step()
    assert serving.process is not None and memory_kb(serving.process.pid) < 150_000
    other.close()
    lazy.close()


@pytest.mark.timeout(900)
def test_a_server_killed_again_and_again_keeps_all_of_its_20_tabs(serving):
    assert endure(serving, start_tabs(serving, 20), kills=SERVER_KILLS, seed=7) == SERVER_KILLS // LOOK_EVERY


def has_put_away(serving: Serving, file: Path) -> bool:
    """Whether it was written, and is not open any more: what is temporary beside it would make room later on."""
    assert serving.process is not None
    pid = serving.process.pid
    open_ones = [read_link(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    return file.exists() and not any(one.startswith(str(file)) for one in open_ones)


def read_link(path: str) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:  # closed meanwhile
        return ""


def test_a_full_disk_refuses_new_tabs_in_words_and_keeps_the_old(world, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", small], check=True)
    world.env["CORRAL_STATE_DIR"] = str(small)
    world.state = small
    serving = None
    try:
        serving = Serving(world)
        tab = serving.start_tab()
        wait_until(lambda: has_put_away(serving, small / "ledger.db"), "the first reading of what was spent")
        filler = os.open(small / "filler", os.O_WRONLY | os.O_CREAT)
        with pytest.raises(OSError):
            while True:
                os.write(filler, b"x" * 4096)
        os.close(filler)
        body = {"provider": "kimi-cli", "work_dir": str(world.work), "trust": True, "live_only": True}
        refused = serving.ask("POST", "/api/tabs", body)
        assert (refused.status, refused.reason) == (409, "spawn_failed")
        assert "No space left" in refused.body["error"]["message"]
        moved = serving.ask("POST", f"/api/tabs/{tab}/move", {"order": 5})
        assert moved.status in (204, 409)
        viewer = serving.terminal(tab)
        say(viewer, "still", b": still")
        viewer.close()
        (small / "filler").unlink()
        assert serving.ask("POST", "/api/tabs", body).status == 201
    finally:
        if serving is not None:
            serving.kill()
        world.end()  # before its files are gone with the disk
        subprocess.run(["umount", "-l", small], check=True)


@pytest.mark.parametrize("left", [1, 3, 8])
def test_without_descriptors_new_tabs_are_refused_in_words_and_old_ones_go_on(serving, left):
    tab = serving.start_tab()
    viewer = serving.terminal(tab)
    assert serving.process is not None
    pid = serving.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    body = {"provider": "kimi-cli", "work_dir": str(serving.world.work), "trust": True, "live_only": True}
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + left, limits[1]))
    try:
        refused = serving.ask("POST", "/api/tabs", body)
        assert (refused.status, refused.reason) == (409, "spawn_failed")
        assert "too many files are open" in refused.body["error"]["message"]
        say(viewer, "on", b": on")
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    assert serving.ask("POST", "/api/tabs", body).status == 201
    assert serving.process.poll() is None
    viewer.close()


def test_a_server_that_may_open_too_few_files_says_so_and_does_not_begin(world):
    words = ["prlimit", "--nofile=40", sys.executable, "-m", "corral", "serve", "--port", str(free_port())]
    done = subprocess.run(words, env=world.env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "only 40 files may be open" in done.stderr and "Traceback" not in done.stderr


def test_dismissed_sessions_stay_away_over_a_restart(serving):
    tab = serving.start_tab()
    ref = serving.tabs()[tab]["ref"]
    assert serving.ask("POST", f"/api/sessions/{ref}/dismiss", {"dismissed": True}).status == 204
    serving.kill()
    serving.start()
    (session,) = [one for one in serving.sessions().values() if one["ref"] == ref]
    assert session["dismissed"]
    layout = json.loads((serving.files / "layout.json").read_text())
    assert layout["dismissed"] == [ref]


def test_a_live_session_of_another_terminal_is_named_and_not_opened_a_second_time(serving):
    terminal = serving.world.program_on_terminal([str(serving.world.program), "-w", str(serving.world.work)])
    terminal.wait_screen("session ")

    def find() -> list[Any]:
        return [one for one in serving.sessions().values() if one["pid"] == terminal.pid]

    wait_until(find, "the session")
    (session,) = find()
    refused = serving.ask("POST", f"/api/sessions/{session['ref']}/open", {"trust": True})
    assert (refused.status, refused.reason) == (409, "already_live")
    assert str(terminal.pid) in refused.body["error"]["message"]
    assert serving.ask("POST", f"/api/sessions/{session['ref']}/end", {}).status == 202
    terminal.wait_exit()


UPGRADE = (
    "GET /api/tabs/x/terminal HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
SILENT = {
    "nothing": "",
    "half a header": "GET / HTTP/1.1\r\nHost:",
    "half a request": "POST /api/hello HTTP/1.1\r\n",
    "no ticket": f"{UPGRADE}\r\n",
    # websockets 17.4 takes no line beyond 8 KiB: it neither answers nor closes (2026-11)
    "an upgrade that nobody answers": f"{UPGRADE}X-Long: {'x' * 9000}\r\n\r\n",
}


@pytest.mark.parametrize("silent", SILENT)
def test_a_thousand_connections_that_never_prove_themselves_lock_nobody_out(world, silent):
    """With few files to open; the page goes on, others get in, and little is said of it."""
    serving = Serving(world, preexec=["prlimit", "--nofile=256:256"])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    words = SILENT[silent].format(host=serving.host).encode()
    idle: list[socket.socket] = []
    try:
        tab = serving.start_tab()
        visitor = serving.log_in()
        viewer, events = serving.terminal(tab, visitor=visitor), serving.events(visitor=visitor)
        for number in range(1000):
            idle.append(socket.create_connection(("127.0.0.1", serving.port), 60))
            with contextlib.suppress(OSError):  # it was thrown out already
                idle[-1].sendall(words)
            if number % 250 == 0:
                assert visitor.ask("GET", "/api/health").status == 200
        say(viewer, "meanwhile", b": meanwhile")
        assert serving.log_in().ask("GET", "/api/sessions").status == 200
        visitor.prove()
        serving.terminal(tab, visitor=visitor).close()
        events.wait_for("hello")
        assert len(serving.errors().splitlines()) < 60
        assert serving.process is not None
        pid = serving.process.pid
        wait_until(lambda: descriptors(pid) < 60, "the end of those who said nothing, by their deadline")
        viewer.close()
        events.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for one in idle:
            one.close()
        serving.kill()


def test_another_user_who_holds_all_the_connections_takes_none_of_the_owner_s(serving):
    flood = (
        "import socket, time\n"
        "held = []\n"
        "print('begun', flush=True)\n"
        "while True:\n"
        f"    held.append(socket.create_connection(('127.0.0.1', {serving.port})))\n"
        "    held[-1].sendall(b'GET / HTTP/1.1\\r\\n')\n"
        "    if len(held) > 500: held.pop(0).close()\n"
    )
    other = subprocess.Popen(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", flood],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == b"begun\n"
        for _ in range(20):
            # Each of its steps takes as long as it likes: nobody but the same user could push it out.
            with socket.create_connection(("127.0.0.1", serving.port), 60) as slow:
                for part in (b"GET /favicon.svg HT", b"TP/1.1\r\n", f"Host: {serving.host}\r\n\r\n".encode()):
                    slow.sendall(part)
                    serving.ask("GET", "/api/health")
                assert slow.recv(100).startswith(b"HTTP/1.1 200")
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def test_a_body_that_does_not_come_is_not_waited_for(serving):
    head = f"POST /api/hello HTTP/1.1\r\nHost: {serving.host}\r\nOrigin: {serving.origin}\r\nX-Corral: 1\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with socket.create_connection(("127.0.0.1", serving.port), 60) as slow:
        slow.sendall(head.encode() + b"{")
        assert slow.recv(1000).startswith(b"HTTP/1.1 408")


def is_closed_within(seconds: float, one: socket.socket, *, dripping: bytes) -> bool:
    """By the other side, though something comes all the time."""
    until = time.monotonic() + seconds
    one.settimeout(0.5)
    while time.monotonic() < until:
        try:
            if dripping:
                one.sendall(dripping)
            if one.recv(1 << 16) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.mark.parametrize(
    ("length", "first", "dripping"), [(1_000_000, b"", b"x"), (1, b"x", b"")], ids=["drips", "ends"]
)
def test_what_is_left_of_an_answered_request_has_a_deadline_and_so_has_the_next(serving, length, first, dripping):
    head = f"GET /favicon.svg HTTP/1.1\r\nHost: {serving.host}\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", serving.port), 60) as slow:
        slow.sendall(head.encode())
        assert slow.recv(1 << 16).startswith(b"HTTP/1.1 200")
        if first:
            slow.sendall(first)
        assert is_closed_within(3 * HEADER_SECONDS, slow, dripping=dripping)


def test_an_answer_that_is_not_read_is_not_kept_for_ever_and_a_proven_one_is(serving):
    """More of them are asked for than the kernel would take."""
    tab, visitor = serving.start_tab(), serving.log_in()
    viewer, events, begun = serving.terminal(tab, visitor=visitor), serving.events(visitor=visitor), time.monotonic()
    (largest, *_) = sorted(Path(DIST, "assets").iterdir(), key=lambda path: -path.stat().st_size)
    asked = f"GET /assets/{largest.name} HTTP/1.1\r\nHost: {serving.host}\r\n\r\n".encode() * 100
    assert serving.process is not None
    pid = serving.process.pid
    before = descriptors(pid)
    deaf: list[socket.socket] = []
    try:
        for _ in range(60):
            deaf.append(socket.create_connection(("127.0.0.1", serving.port), 60))
            deaf[-1].sendall(asked)
        assert serving.ask("GET", "/api/health").status == 200
        wait_until(lambda: descriptors(pid) <= before + 5, "the end of those who do not read", 3 * ANSWER_SECONDS)
        assert time.monotonic() - begun > ANSWER_SECONDS
        say(viewer, "still here", b": still here")
        events.wait_for("beat", lambda _: time.monotonic() - begun > ANSWER_SECONDS)
        viewer.close()
        events.close()
    finally:
        for one in deaf:
            one.close()


def test_headers_that_do_not_end_take_little_memory(serving):
    """Each may be as long as all the cookies that a browser has; not all of them at once."""
    assert serving.process is not None
    pid = serving.process.pid
    before = memory_kb(pid)
    forget_peak(pid)
    endless: list[socket.socket] = []
    try:
        for _ in range(200):
            endless.append(socket.create_connection(("127.0.0.1", serving.port), 60))
            with contextlib.suppress(OSError):  # it was thrown out meanwhile
                endless[-1].sendall(b"GET / HTTP/1.1\r\nCookie: " + b"x" * (1_000_000))
        assert serving.ask("GET", "/api/health").status == 200
        assert peak_kb(pid) - before < 80_000
    finally:
        for one in endless:
            one.close()
