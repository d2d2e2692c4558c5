"""What opens the doors: links, proofs, tickets and the token, where they are good, and that nobody else gets them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from corral.server import proofs
from tests.integration.server.serving import Serving


@pytest.fixture
def serving(shared_serving):
    return shared_serving


def test_a_link_logs_one_browser_in_once(serving):
    code = serving.new_code()
    visitor = serving.log_in(code)
    assert visitor.ask("GET", "/api/health").body == {"ok": True}
    again = serving.raw("POST", "/api/hello", {"login": proofs.name_code(code), "nonce": "0" * 32}, headers={})
    assert (again.status, again.reason) == (401, "login_unknown")


def test_who_finds_a_used_code_can_make_nothing_of_it(serving):
    """In a terminal's scrollback, say, or in the history of a browser."""
    code = serving.new_code()
    visitor = serving.log_in(code)
    said = visitor.hello(nonce := proofs.new_nonce())
    both = serving.origin, visitor.login, nonce, said.body["nonce"]
    proof = proofs.prove_page(proofs.code_key(code), *both)
    refused = serving.raw("POST", "/api/prove", {"nonce": both[3], "proof": proof}, headers={})
    assert (refused.status, refused.reason) == (401, "wrong_proof")


@pytest.mark.parametrize("login", ["../token", "", "x" * 32, "0" * 32, "0" * 5000, "\ud800", 5])
def test_what_names_no_login_gets_no_proof(serving, login):
    assert serving.raw("POST", "/api/hello", {"login": login, "nonce": "0" * 32}, headers={}).status in (400, 401)


@pytest.mark.parametrize("nonce", ["", "0", "0" * 33, "G" * 32, "0" * 31 + "\n"])
def test_the_page_s_number_must_be_one(serving, nonce):
    assert serving.log_in().hello(nonce).status == 401


def test_a_proof_is_good_once_and_for_its_own_number(serving):
    visitor = serving.log_in()
    said = visitor.hello(nonce := proofs.new_nonce()).body
    right = proofs.prove_page(visitor.key, serving.origin, visitor.login, nonce, said["nonce"])
    elsewhere = proofs.prove_page(visitor.key, "http://127.0.0.1:1", visitor.login, nonce, said["nonce"])
    assert serving.raw("POST", "/api/prove", {"nonce": said["nonce"], "proof": elsewhere}, headers={}).status == 401
    assert serving.raw("POST", "/api/prove", {"nonce": said["nonce"], "proof": right}, headers={}).status == 401
    visitor.prove()
    assert visitor.ask("GET", "/api/health").status == 200


def test_a_ticket_opens_one_socket_and_a_token_none(serving):
    tab = serving.start_tab()
    visitor = serving.log_in()
    protocols = visitor.protocols()

    def open_with(words: list[str]) -> None:
        connect(
            f"ws://{serving.host}/api/tabs/{tab}/terminal",
            sock=socket.create_connection(("127.0.0.1", serving.port), 60),
            origin=serving.origin,
            subprotocols=words,  # type: ignore[arg-type]
            open_timeout=60,
            legacy=True,
        ).close()

    open_with(protocols)
    for words in (protocols, ["corral", f"ticket.{visitor.token}"], ["corral", visitor.token], ["corral"]):
        with pytest.raises(InvalidStatus) as refused:
            open_with(words)
        assert refused.value.response.status_code == 401


def test_no_answer_sets_a_cookie_and_none_is_read(serving):
    visitor = serving.log_in()
    answers = [serving.raw("GET", "/", headers={}), visitor.ask("GET", "/api/sessions"), visitor.hello("0" * 32)]
    assert not any("set-cookie" in answer.headers for answer in answers)
    assert serving.raw("GET", "/api/health", headers={"Cookie": f"token={visitor.token}"}).status == 401


def test_a_login_is_good_for_a_restarted_server_and_for_no_other(serving, tmp_path):
    from tests.integration.terminals.world import World

    visitor = serving.log_in()
    old_token = visitor.token
    serving.kill()
    serving.start()
    assert visitor.ask("GET", "/api/health").status == 401, "tokens die with the server that gave them"
    visitor.prove()
    assert visitor.ask("GET", "/api/health").status == 200 and visitor.token != old_token
    world = World(tmp_path)
    other = Serving(world)
    try:
        visitor.serving = other
        assert visitor.ask("GET", "/api/health").status == 401
        assert visitor.hello("0" * 32).status == 401
    finally:
        other.kill()
        world.end()


def test_no_secret_is_in_arguments_environments_or_logs(serving):
    tab = serving.start_tab()
    pid = serving.tabs()[tab]["pid"]
    visitor = serving.log_in()
    secrets = [serving.token, visitor.key.hex(), visitor.token, visitor.ticket(), serving.code()]
    assert serving.process is not None
    keeper = json.loads((serving.files / "keeper.json").read_text())["process"][2]
    texts = [
        Path(f"/proc/{one}/{what}").read_bytes()
        for one in (serving.process.pid, pid, keeper)
        for what in ("cmdline", "environ")
    ]
    texts += [serving.errors().encode(), (serving.files / "log.jsonl").read_bytes()]
    for secret in secrets:
        assert len(secret) >= 32
        assert not any(secret.encode() in text for text in texts)
    for path in serving.files.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "localhost"])
def test_a_bind_that_others_could_reach_is_refused(serving, host):
    done = serving.world.corral("serve", "--host", host, CORRAL_STATE_DIR=str(serving.world.root / "other"))
    assert done.returncode == 2 and "corral:" in done.stderr and done.stdout == ""


def test_a_second_server_says_where_the_first_is(serving):
    done = serving.world.corral("serve")
    assert done.returncode == 1
    assert serving.origin in done.stderr


def test_no_server_no_link(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "corral", "url"],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_guessing_gets_slow_and_the_right_one_does_not(serving):
    import time

    for _ in range(12):
        serving.raw("GET", "/api/health", headers={"Authorization": "Bearer guess"})
    begun = time.monotonic()
    assert serving.raw("GET", "/api/health", headers={"Authorization": "Bearer guess"}).status == 401
    assert time.monotonic() - begun >= 0.9
    assert serving.ask("GET", "/api/health").status == 200
