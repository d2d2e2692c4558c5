"""How long what the server gives away is good, on a clock of the test's own."""

from __future__ import annotations

import time

import pytest

from corral.server import credentials as module
from corral.server import proofs
from corral.server.credentials import PROOF_SECONDS, TICKET_SECONDS, TOKEN_SECONDS, Caller, Credentials, Logins
from corral.server.server_files import CODE_SECONDS, ServerFiles

ORIGIN, NAME = "http://corral-x.localhost:1", "corral-x"


class Clock:
    now = 1000.0
    time = staticmethod(time.time)

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


@pytest.fixture
def files(tmp_path):
    return ServerFiles(str(tmp_path))


@pytest.fixture
def credentials(files):
    return Credentials(files, Logins(files, NAME), b"token", ORIGIN)


def answer(credentials: Credentials, login: str, key: bytes, origin: str = ORIGIN) -> tuple[str, str]:
    """The server's number, and a page's proof for it."""
    nonce = proofs.new_nonce()
    begun = credentials.begin(login, nonce)
    assert begun is not None
    return begun[0], proofs.prove_page(key, origin, login, nonce, begun[0])


def log_in(files: ServerFiles, credentials: Credentials) -> tuple[str, str]:
    code = files.make_code(NAME)
    proven = credentials.finish(*answer(credentials, proofs.name_code(code), proofs.code_key(code)), "a browser")
    assert proven is not None and proven.login is not None
    return proven.login.login, proven.token


def test_a_token_is_good_for_five_minutes_and_the_login_for_another_one(clock, files, credentials):
    login, token = log_in(files, credentials)
    clock.now += TOKEN_SECONDS - 1
    assert credentials.find_caller(f"Corral {token}", None) == Caller(login)
    clock.now += 1
    assert credentials.find_caller(f"Corral {token}", None) is None
    key = credentials.logins.find_key(login)
    assert key is not None
    renewed = credentials.finish(*answer(credentials, login, key), "")
    assert renewed is not None and credentials.find_caller(f"Corral {renewed.token}", None) == Caller(login)


def test_a_ticket_is_good_once_and_soon(clock, files, credentials):
    login, _ = log_in(files, credentials)
    first, second = (credentials.make_ticket(Caller(login), proofs.new_nonce()) for _ in range(2))
    assert first is not None and second is not None
    assert credentials.find_caller(None, f"corral, ticket.{first.ticket}") == Caller(login)
    assert credentials.find_caller(None, f"corral, ticket.{first.ticket}") is None
    clock.now += TICKET_SECONDS
    assert credentials.find_caller(None, f"corral, ticket.{second.ticket}") is None


def test_a_proof_comes_in_time_and_for_this_origin_or_not_at_all(clock, files, credentials):
    login, _ = log_in(files, credentials)
    key = credentials.logins.find_key(login)
    assert key is not None
    late = answer(credentials, login, key)
    clock.now += PROOF_SECONDS + 0.1
    assert credentials.finish(*late, "") is None
    assert credentials.finish(*answer(credentials, login, key, "http://127.0.0.1:1"), "") is None
    assert credentials.finish(*answer(credentials, login, b"another key"), "") is None


def test_a_code_is_good_for_one_of_two_who_prove_it_at_once_and_for_its_name_alone(files, credentials):
    code = files.make_code(NAME)
    named, key = proofs.name_code(code), proofs.code_key(code)
    first, second = answer(credentials, named, key), answer(credentials, named, key)
    assert credentials.finish(*first, "one") is not None
    assert credentials.finish(*second, "two") is None
    foreign = files.make_code("corral-y")
    assert credentials.begin(proofs.name_code(foreign), proofs.new_nonce()) is None


def test_an_old_code_is_void(files, credentials, tmp_path):
    import os

    code = files.make_code(NAME)
    path = tmp_path / "server" / "codes" / proofs.name_code(code)
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - CODE_SECONDS))
    assert credentials.begin(proofs.name_code(code), proofs.new_nonce()) is None
    assert not files.has_code(code)


def test_what_an_ended_login_was_given_is_void_at_once(files, credentials):
    login, token = log_in(files, credentials)
    ticket = credentials.make_ticket(Caller(login), proofs.new_nonce())
    assert ticket is not None and credentials.end(login)
    assert credentials.find_caller(f"Corral {token}", None) is None
    assert credentials.find_caller(None, f"corral, ticket.{ticket.ticket}") is None
    assert credentials.begin(login, proofs.new_nonce()) is None
    assert not credentials.end(login)
