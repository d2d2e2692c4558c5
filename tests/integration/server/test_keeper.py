"""The address is held without a gap, and logins are good as long as it was; after a gap the page has another name."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import read_identity
from tests.integration.server.serving import Serving
from tests.integration.terminals.held import is_gone, kill, wait_until
from tests.long_run import START_STEPS


def keeper_of(serving: Serving) -> ProcessIdentity:
    return ProcessIdentity(*json.loads((serving.files / "keeper.json").read_text())["process"])


def end(keeper: ProcessIdentity) -> None:
    kill(keeper)
    wait_until(lambda: is_gone(keeper), "its end")


def can_be_taken(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, port))
            one.listen()
        except OSError:
            return False
        return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_while_somebody_is_logged_in_nobody_gets_the_port_of_a_server_that_stopped(serving, number):
    visitor, before = serving.log_in(), serving.host
    port = serving.port
    serving.stop(number)
    for host in ("127.0.0.1", "::1", "0.0.0.0", "::"):
        assert not can_be_taken(port, host), host
    serving.start()
    assert serving.host == before
    visitor.prove()
    assert visitor.ask("GET", "/api/health").status == 200


def test_who_comes_while_the_server_restarts_is_served_by_the_next(serving):
    """The keeper's queue is the server's own: nobody is refused meanwhile."""
    serving.log_in()
    serving.kill()
    with socket.create_connection(("127.0.0.1", serving.port), 60) as waiting:
        waiting.sendall(f"GET /favicon.svg HTTP/1.1\r\nHost: {serving.host}\r\n\r\n".encode())
        serving.start()
        assert waiting.recv(100).startswith(b"HTTP/1.1 200")


def test_when_the_server_stays_away_nobody_is_kept_waiting(serving):
    serving.log_in()
    serving.kill()
    with socket.create_connection(("127.0.0.1", serving.port), 60) as turned_away:
        assert turned_away.recv(100) == b""
    assert not can_be_taken(serving.port)


def test_after_a_gap_old_logins_are_void_and_the_page_has_another_name(serving):
    visitor, before, code = serving.log_in(), serving.host, serving.new_code()
    token = serving.token
    serving.kill()
    end(keeper_of(serving))
    assert can_be_taken(serving.port)
    serving.start()
    assert serving.host != before and serving.host.rpartition(":")[2] == before.rpartition(":")[2]
    assert visitor.hello("0" * 32).status == 401
    old = serving.raw("POST", "/api/hello", {}, headers={"Host": before, "Origin": f"http://{before}"})
    assert (old.status, old.reason) == (421, "wrong_host")
    with pytest.raises(AssertionError, match="401"):
        serving.log_in(code)
    assert serving.ask("GET", "/api/logins").body == {"logins": []}
    # A program may have shown it to whoever had the port.
    assert serving.raw("GET", "/api/health", headers={"Authorization": f"Bearer {token}"}).status == 401
    token = serving.token
    serving.log_in()
    serving.kill()
    serving.start()
    assert serving.token == token and serving.ask("GET", "/api/health").status == 200


def test_while_a_server_starts_nobody_is_sent_to_the_address_of_the_last_one(serving):
    """Somebody else may be there by now, and would be shown the token."""
    serving.log_in()
    serving.kill()
    end(keeper_of(serving))
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", serving.port))
        squatter.listen()
        assert (
            "Address already in use" in serving.world.corral("serve").stderr
        )  # it got no further than its first steps
    assert not (serving.files / "running.json").exists()


def test_a_keeper_that_dies_beside_a_running_server_is_replaced_without_a_gap(serving):
    visitor, before, first = serving.log_in(), serving.host, keeper_of(serving)
    end(first)
    wait_until(lambda: keeper_of(serving) != first, "another keeper")
    # Before it is told to go on, it would leave with the server.
    wait_until(lambda: os.readlink(f"/proc/{keeper_of(serving).pid}/fd/0") == os.devnull, "its begin")
    assert not can_be_taken(serving.port)
    serving.kill()
    assert not can_be_taken(serving.port)
    serving.start()
    assert serving.host == before
    visitor.prove()


def test_a_server_that_nobody_is_logged_in_to_lets_the_port_go_when_it_stops(serving):
    keeper = keeper_of(serving)
    assert serving.stop(signal.SIGTERM) == 0
    wait_until(lambda: is_gone(keeper), "the end of the keeper")
    assert can_be_taken(serving.port)


def test_a_keeper_that_is_stopped_is_named_and_nothing_is_served(serving):
    serving.log_in()
    keeper = keeper_of(serving)
    serving.kill()
    os.kill(keeper.pid, signal.SIGSTOP)
    try:
        refused = serving.world.corral("serve")
    finally:
        os.kill(keeper.pid, signal.SIGCONT)
    assert refused.returncode == 1 and f"pid {keeper.pid}" in refused.stderr


def test_a_record_that_names_another_process_is_not_believed(serving):
    """Its number may have passed to anybody; what listens on the socket is not asked for sockets."""
    serving.log_in()
    before, keeper = serving.host, keeper_of(serving)
    serving.kill()
    end(keeper)
    path = serving.files / "keeper.json"
    record = json.loads(path.read_text())
    record["process"] = list(read_identity(os.getpid()) or ())
    path.write_text(json.dumps(record))
    impostor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    (serving.files / "keeper.sock").unlink(missing_ok=True)
    folder = os.open(serving.files, os.O_RDONLY)
    impostor.bind(f"/proc/self/fd/{folder}/keeper.sock")  # this very process, and it says nothing right
    impostor.listen()
    refused = serving.world.corral("serve")
    assert refused.returncode == 1 and "does not hand it over" in refused.stderr
    impostor.close()
    os.close(folder)
    record["process"][3] += 1
    path.write_text(json.dumps(record))
    serving.start()
    assert serving.host != before


def test_another_port_is_another_name_and_the_old_port_is_let_go(serving):
    from tests.integration.server.serving import free_port

    visitor, before, old_port, port = serving.log_in(), serving.host, serving.port, free_port()
    serving.kill()
    moved = Serving(serving.world, "--port", str(port))
    try:
        assert moved.port == port and moved.host.partition(":")[0] != before.partition(":")[0]
        assert can_be_taken(old_port)
        visitor.serving = moved
        assert visitor.hello("0" * 32).status == 401
    finally:
        moved.kill()


def test_a_port_of_which_another_has_the_other_loopback_address_is_not_ours(world):
    """Browsers look for names below localhost there too, and there first."""
    with socket.socket(socket.AF_INET6) as squatter:
        squatter.bind(("::1", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        refused = world.corral("serve", "--port", str(port))
    assert refused.returncode == 1 and f"[::1]:{port}: Address already in use" in refused.stderr


def test_a_server_killed_at_any_moment_of_its_start_leaves_a_keeper_that_the_next_one_finds(world):
    """Killed between two of its steps: the next start neither fails nor meets its own keeper as a stranger."""
    serving = Serving(world)
    try:
        for step in START_STEPS:
            serving.kill()
            end(keeper_of(serving))
            stopped = subprocess.Popen(
                [sys.executable, "-c", _KILLED_AFTER, str(step), *serving._words],
                env=world.env,
                cwd=world.work,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stopped.wait(60)
            serving.start()
            assert serving.ask("GET", "/api/health").status == 200
    finally:
        serving.kill()


_KILLED_AFTER = """
import os, signal, sys
import corral.server.address as address
left = [int(sys.argv[1])]
def count(frame, event, arg):
    if frame.f_code.co_filename == address.__file__:
        if event == "line" and frame.f_code.co_name in ("_start_keeper", "take_address", "with_keeper"):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return count
sys.settrace(count)
from corral.cli.main import run
sys.argv = ["corral", "serve", *sys.argv[2:]]
run()
"""
