"""What opens the doors: links, cookies and the token, where they are good, and that nobody else sees or guesses them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.server.serving import Serving


@pytest.fixture
def serving(shared_serving):
    return shared_serving


def test_a_link_logs_one_browser_in_once(serving):
    code = serving.new_code()
    cookie = serving.log_in(code)
    assert serving.raw("GET", "/api/health", headers={"Cookie": cookie}).body == {"ok": True}
    again = serving.raw("POST", "/api/login", {"code": code}, headers={})
    assert (again.status, again.reason) == (401, "wrong_code")
    assert serving.raw("POST", "/api/login", {"code": "../secret"}, headers={}).status == 401
    assert serving.raw("POST", "/api/login", {"code": 5}, headers={}).status == 400


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(serving):
    answer = serving.raw("POST", "/api/login", {"code": serving.new_code()}, headers={})
    words = {word.strip().lower() for word in answer.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= words
    assert answer.headers["set-cookie"].startswith(f"corral_{serving.port}=")


def test_a_cookie_is_good_for_a_restarted_server_and_for_no_other(serving, tmp_path):
    from tests.integration.terminals.world import World

    cookie = serving.log_in()
    serving.kill()
    serving.start()
    assert serving.raw("GET", "/api/health", headers={"Cookie": cookie}).status == 200
    world = World(tmp_path)
    other = Serving(world)
    try:
        value = cookie.partition("=")[2]
        stolen = {"Cookie": f"corral_{other.port}={value}"}
        assert other.raw("GET", "/api/health", headers=stolen).status == 401
    finally:
        other.kill()
        world.end()


def test_no_secret_is_in_arguments_environments_or_logs(serving):
    tab = serving.start_tab()
    pid = serving.tabs()[tab]["pid"]
    cookie = serving.log_in().partition("=")[2]
    secrets = [serving.token, (serving.files / "secret").read_text(), cookie, serving.code()]
    assert serving.process is not None
    texts = [
        Path(f"/proc/{one}/{what}").read_bytes()
        for one in (serving.process.pid, pid)
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
