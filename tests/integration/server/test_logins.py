"""Browsers that are logged in: listed with their names, ended one by one, and what they have open ends with them."""

from __future__ import annotations

import json
import socket

import pytest
from websockets.exceptions import ConnectionClosed

from corral.server.credentials import MOST_LOGINS, UNUSED_SECONDS
from corral.server.guard import LOGGED_OUT
from tests.integration.server.serving import Viewer
from tests.integration.server.test_keeper import end, keeper_of
from tests.integration.terminals.held import WAIT_SECONDS


def close_code(viewer: Viewer) -> int | None:
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            viewer.step(WAIT_SECONDS)
    return closed.value.rcvd.code if closed.value.rcvd else None


def test_one_that_is_ended_loses_what_it_has_open_and_the_others_go_on(serving):
    tab = serving.start_tab()
    lost, kept = serving.log_in(), serving.log_in()
    lost_viewer, kept_viewer = serving.terminal(tab, visitor=lost), serving.terminal(tab, visitor=kept)
    lost_events, kept_events = serving.events(visitor=lost), serving.events(visitor=kept)
    ticket = lost.ticket()
    listed = serving.world.json("logins")["logins"]
    assert {one["login"] for one in listed} == {lost.login, kept.login}
    assert {one["label"] for one in listed} == {"Test 1.0 on Linux"} and set(listed[0]) == {
        "login",
        "label",
        "created_at",
        "used_at",
    }
    done = serving.world.corral("logins", "--end", lost.login[:8])
    assert done.returncode == 0, done
    assert close_code(lost_viewer) == LOGGED_OUT
    for _ in lost_events:  # whatever came before: the stream ends
        pass
    assert lost.ask("GET", "/api/health").status == 401 and lost.hello("0" * 32).status == 401
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    upgrade |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": f"corral, ticket.{ticket}"}
    upgrade |= {"Origin": serving.origin}
    assert serving.raw("GET", f"/api/tabs/{tab}/terminal", headers=upgrade).status == 401
    assert kept.ask("GET", "/api/health").status == 200
    kept_viewer.type(b"on\r")
    kept_viewer.read_until(b"on")
    kept_events.wait_for("hello")
    assert "Traceback" not in serving.errors() and "Exception" not in serving.errors()
    for one in (lost_events, kept_events, kept_viewer):
        one.close()


def test_one_is_ended_while_no_server_runs(serving):
    lost, kept = serving.log_in(), serving.log_in()
    serving.kill()
    assert serving.world.corral("logins", "--end", lost.login).returncode == 0
    assert [one["login"] for one in serving.world.json("logins")["logins"]] == [kept.login]
    serving.start()
    assert lost.hello("0" * 32).status == 401
    kept.prove()


def test_all_are_ended_while_no_server_runs_and_whoever_has_its_port_hears_nothing(serving):
    visitors = [serving.log_in() for _ in range(3)]
    serving.kill()
    end(keeper_of(serving))
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", serving.port))
        squatter.listen()
        done = serving.world.corral("logins", "--end-all")
        squatter.setblocking(False)
        with pytest.raises(BlockingIOError):
            squatter.accept()
    assert done.returncode == 0 and f"{len(visitors)} ended" in done.stderr
    assert serving.world.json("logins")["logins"] == []


def test_all_are_ended_and_what_there_is_not_is_said(serving):
    assert "nobody is logged in" in serving.world.corral("logins").stdout
    visitors = [serving.log_in() for _ in range(3)]
    shown = serving.world.corral("logins").stdout
    assert all(one.login[:8] in shown for one in visitors) and "Test 1.0 on Linux" in shown
    assert serving.world.corral("logins", "--end", "x").returncode == 4
    assert serving.world.corral("logins", "--end", "").returncode == 4
    assert serving.world.corral("logins", "--end-all").returncode == 0
    assert all(one.hello("0" * 32).status == 401 for one in visitors)
    assert serving.world.json("logins")["logins"] == []


def test_there_are_only_so_many_and_the_one_unused_for_longest_goes(serving):
    serving.log_in()
    path = serving.files / "logins.json"
    serving.kill()
    content = json.loads(path.read_text())
    (one,) = content["logins"]
    content["logins"] = [{**one, "login": f"{number:032x}", "used_at": one["used_at"] - number} for number in range(64)]
    path.write_text(json.dumps(content))
    serving.start()
    new = serving.log_in()
    logins = [one["login"] for one in serving.world.json("logins")["logins"]]
    assert len(logins) == MOST_LOGINS and new.login in logins and f"{63:032x}" not in logins


def test_one_that_nobody_used_for_long_is_void_and_a_look_writes_nothing(serving):
    """The file is the running server's."""
    old = serving.log_in()
    path = serving.files / "logins.json"
    serving.kill()
    content = json.loads(path.read_text())
    content["logins"][0]["used_at"] -= UNUSED_SECONDS + 1
    path.write_text(json.dumps(content))
    before = path.read_bytes()
    assert serving.world.json("logins")["logins"] == [] and path.read_bytes() == before
    serving.start()
    assert old.hello("0" * 32).status == 401
    serving.log_in()
    assert len(json.loads(path.read_text())["logins"]) == 1


@pytest.mark.parametrize("damage", [b"", b"{", b'{"schema": 9}', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_file_logs_everybody_out_and_nobody_in(serving, damage):
    visitor = serving.log_in()
    serving.kill()
    (serving.files / "logins.json").write_bytes(damage)
    serving.start()
    assert visitor.hello("0" * 32).status == 401
    serving.log_in().prove()
