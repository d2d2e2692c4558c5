"""Who else can listen on this machine gets nothing usable from the browser, and leaves nothing that runs as our page."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from corral.sidecar.identity import ProcessIdentity
from tests.browser.site import Site
from tests.integration.server.serving import Serving
from tests.integration.terminals.held import is_gone, kill, wait_until

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3"]


class Squatter:
    """Another user's program, and all that reached it."""

    def __init__(self, port: int, script: Path) -> None:
        self.process = subprocess.Popen(
            [*NOBODY, str(script), str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        self.port: int = json.loads(self.process.stdout.readline())["port"]
        self._lines: queue.Queue[Any] = queue.Queue()
        self.requests: list[Any] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def wait_for(self, test: Callable[[Any], bool], what: str) -> Any:
        def look() -> bool:
            with contextlib.suppress(queue.Empty):
                while True:
                    self.requests.append(self._lines.get_nowait())
            return any(test(one) for one in self.requests)

        wait_until(look, what)
        return next(one for one in self.requests if test(one))

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def squat(tmp_path_factory) -> Generator[Callable[[int], Squatter]]:
    # Where another user can read it.
    script = Path("/tmp") / f"squatter-{tmp_path_factory.getbasetemp().name}.py"
    script.write_text((Path(__file__).parent / "squatter.py").read_text())
    script.chmod(0o644)
    started: list[Squatter] = []

    def start(port: int) -> Squatter:
        started.append(Squatter(port, script))
        return started[-1]

    yield start
    for one in started:
        one.end()
    script.unlink()


def power_cut(site: Site) -> None:
    """The server and the keeper of its address are gone: the port is free."""
    keeper = ProcessIdentity(*json.loads((site.state / "server" / "keeper.json").read_text())["process"])
    site.stop()
    kill(keeper)
    wait_until(lambda: is_gone(keeper), "the end of the keeper")


def origin_of(link: str) -> str:
    return link.partition("/#")[0]


def is_closed_to(site: Site, request: Any, link: str) -> None:
    """What somebody has got, shown to our server in every way."""
    origin = origin_of(link)
    serving = Serving.__new__(Serving)
    serving.world, serving.link = site, link
    own = {"Host": origin.partition("//")[2], "Origin": origin}
    given = {name: value for name, value in request["headers"].items() if name.lower() not in ("host", "origin")}
    given = {name: value for name, value in given.items() if name.lower() not in ("content-length", "connection")}
    assert serving.raw("GET", "/api/sessions", headers={**given, **own}).status == 401
    assert serving.raw("POST", "/api/tabs/restore", {}, headers={**given, **own}).status in (401, 403)


def test_another_port_of_this_machine_gets_nothing(site, visit, squat):
    link = site.start()
    seen = visit(link).is_ready()
    other = squat(0)
    name = origin_of(link).partition("//")[2].rpartition(":")[0]
    for host in ("127.0.0.1", "localhost", name):
        page = seen.context.new_page()
        page.goto(f"http://{host}:{other.port}/{host}")
        found = other.wait_for(lambda one, host=host: one["path"] == "/stolen" and host in one["headers"]["Host"], host)
        stolen = json.loads(found["body"])
        assert stolen["cookie"] == "" and "login" not in stolen, stolen
    for request in other.requests:
        assert not {name.lower() for name in request["headers"]} & {"cookie", "authorization"}
    assert seen.page.evaluate("document.cookie") == "" and seen.context.cookies() == []


def test_the_key_can_be_used_and_not_be_read(site, visit):
    seen = visit(site.start()).is_ready()
    found = seen.page.evaluate(
        """async () => {
        const ask = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
        const database = await ask(indexedDB.open("corral"));
        const { key } = await ask(database.transaction("door").objectStore("door").get("login"));
        const read = await Promise.all(["raw", "jwk"].map((how) =>
            crypto.subtle.exportKey(how, key).then(() => "read", (error) => error.name)));
        return [key.extractable, ...read, Object.keys(localStorage).length + Object.keys(sessionStorage).length];
    }"""
    )
    assert found == [False, "InvalidAccessError", "InvalidAccessError", 0]


def test_whoever_takes_our_port_gets_nothing_from_the_open_page(site, visit, squat):
    seen = visit(site.start()).is_ready()
    power_cut(site)
    squatter = squat(site.port)
    hello = squatter.wait_for(lambda one: one["path"] == "/api/hello", "the page's first word")
    expect(seen.page.get_by_role("alert")).to_contain_text("Another program answers at this address")
    assert set(json.loads(hello["body"])) == {"login", "nonce"}, "it shows nothing before the server has proved itself"
    shown = [one["path"] for one in squatter.requests if one["path"] not in ("/api/hello",)]
    # A request that was on its way when the server died shows a token of that very server, and nothing else.
    assert not {"/api/prove", "/api/tickets"} & set(shown)
    squatter.end()
    link = site.start()
    assert origin_of(link) != origin_of(seen.page.url)
    for request in squatter.requests:
        is_closed_to(site, request, link)


def test_what_a_squatter_leaves_in_the_browser_does_not_run_where_we_return(site, visit, squat):
    """Its script is our old origin, signs with our key, and stays as a service worker and in the cache."""
    first = site.start()
    seen = visit(first).is_ready()
    power_cut(site)
    squatter = squat(site.port)
    seen.page.goto(f"{origin_of(first)}/")  # the person reloads, or follows a bookmark
    found = squatter.wait_for(lambda one: one["path"] == "/stolen", "what its script found")
    stolen = json.loads(found["body"])
    assert stolen["raw"] is None and len(stolen["proof"]) == 64, stolen  # it could sign: it is the origin
    seen.page.reload()
    expect(seen.page.get_by_text("squatted by a worker")).to_be_visible()
    squatter.end()

    link = site.start()
    assert origin_of(link) != origin_of(first)
    serving = Serving.__new__(Serving)
    serving.world, serving.link = site, link
    answer = serving.raw("POST", "/api/hello", {"login": stolen["login"], "nonce": "0" * 32}, headers={})
    assert (answer.status, answer.reason) == (401, "login_unknown")
    shown = {"nonce": stolen["nonce"], "proof": stolen["proof"]}
    assert serving.raw("POST", "/api/prove", shown, headers={}).status == 401
    # The worker is still there, at the address that is ours no more.
    seen.page.goto(f"{origin_of(first)}/")
    expect(seen.page.get_by_text("squatted by a worker")).to_be_visible()
    seen.page.goto(link)
    seen.is_ready()
    left = "[window.squatted, navigator.serviceWorker.controller, (await navigator.serviceWorker.getRegistrations()).length]"
    assert seen.page.evaluate(f"(async () => {left})()") == [None, None, 0]


def test_the_open_page_says_what_to_do_when_its_address_is_no_longer_ours(site, visit):
    first = site.start()
    seen = visit(first).is_ready()
    power_cut(site)
    link = site.start()
    expect(seen.page.get_by_role("alert")).to_contain_text("another address by now")
    expect(seen.page.get_by_text("corral url", exact=True)).to_be_visible()
    seen.page.get_by_label("Address or code").fill(link)
    seen.click("Log in")  # a link of the new address is followed there
    seen.page.wait_for_url(f"{origin_of(link)}/**")
    seen.is_ready()


SHORT_TOKENS = """
import sys
from corral.cli.main import run
from corral.server import api, credentials
credentials.TOKEN_SECONDS, api.TOKEN_SECONDS = int(sys.argv.pop(1)), int(sys.argv.pop(1))
run()
"""
"""corral with tokens of so many seconds, and pages told of so many."""


@pytest.mark.parametrize(("seconds", "told", "refused"), [(2, 300, 1), (62, 62, 0)], ids=["unforeseen", "foreseen"])
def test_a_page_that_stays_open_proves_itself_again_and_nobody_notices(site, visit, seconds, told, refused):
    """Whether the server forgets its token earlier than it said, or the page renews it a minute before its end."""
    site.command = [sys.executable, "-c", SHORT_TOKENS, str(seconds), str(told)]
    link = site.start()
    seen = visit(link).is_ready()
    asked: list[tuple[str, int]] = []
    seen.page.on("response", lambda one: asked.append((one.url.rpartition("/api/")[2].partition("?")[0], one.status)))
    seen.page.wait_for_timeout(4000)
    quiet, tab = len(asked), site.run_detached()
    seen.page.goto(f"{origin_of(link)}/#/tab/{tab}")
    seen.shows("session ")
    since = asked[quiet:]
    assert [one for one in since if one[1] == 401] == [("tickets", 401)] * refused
    assert [name for name, _ in since].count("prove") == 1
    seen.focus()
    seen.page.wait_for_timeout(4000)
    seen.types("still here")
    seen.shows("still here")
    seen.page.goto(f"{origin_of(link)}/#/usage")
    expect(seen.page.get_by_role("main")).to_contain_text("Usage")
    seen.is_ready()
    # The first answer may be told of after the page is ready.
    assert not [one for one in asked[quiet:] if one[0] == "events"], "what is open already stays open"


def test_a_link_in_the_address_of_an_open_page_is_taken_and_does_not_stay_there(site, visit):
    """Only the part behind # changes: no page is loaded."""
    seen = visit(site.start()).is_ready()
    assert site.corral("logins", "--end-all").returncode == 0
    expect(seen.page.get_by_role("alert")).to_contain_text("no longer logged in")
    used = site.link()
    seen.page.goto(used)
    seen.is_ready()
    assert "code=" not in seen.page.url
    (login,) = site.json("logins")["logins"]
    seen.page.goto(used)  # in the midst of work, and it is void by now
    expect(seen.page.get_by_text("This link was used already, or is too old.")).to_be_visible()
    seen.is_ready()
    seen.page.go_back()
    assert "code=" not in seen.page.url and not site.json("logins")["logins"][1:]
    assert site.json("logins")["logins"][0]["login"] == login["login"]


def test_cookies_that_others_set_for_our_name_lock_nobody_out(site, visit, squat):
    link = site.start()
    tab = site.run_detached()
    other = squat(0)
    name = origin_of(link).partition("//")[2].rpartition(":")[0]
    seen = visit(f"http://{name}:{other.port}/bomb")
    # What a script sets reaches the browser's store a little later.
    wait_until(lambda: sum(len(one["value"]) for one in seen.context.cookies()) > 300_000, "the cookies")
    seen.page.goto(link)
    seen.is_ready()
    seen.page.goto(f"{origin_of(link)}/#/tab/{tab}")
    seen.page.reload()
    seen.is_ready()
    seen.shows("session ")
    seen.focus()
    seen.types("still here")
    seen.shows("still here")
