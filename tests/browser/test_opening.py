"""`--open` in a real browser: it gets in by a file, and at no moment is the code in anybody's arguments."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corral.sidecar.identity import ProcessIdentity
from tests.browser.chromium import FLAGS, PLAIN, find_chromium
from tests.integration.demo.showing import Person
from tests.integration.terminals.held import kill, wait_until

SECONDS = 120.0


@contextmanager
def watched_arguments() -> Generator[set[str]]:
    """All arguments of all processes, again and again: what another user would do."""
    seen: set[str] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.002):
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    seen.add(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"))
                except OSError:
                    continue

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        ended.set()
        watching.join()


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_browser_that_is_opened_gets_in_and_nobody_else_sees_how(tmp_path, command):
    person = Person(tmp_path)
    downloads = person.home / "Downloads"
    downloads.mkdir()
    browser = tmp_path / "browser"
    flags = [*FLAGS, *PLAIN, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={tmp_path / 'profile'}"]
    # Chromium keeps a socket below TMPDIR, whose path would be too long.
    browser.write_text(
        f'#!/bin/sh\necho $$ >{tmp_path / "pid"}\nunset TMPDIR\nexec {find_chromium()} {" ".join(flags)} "$1"\n'
    )
    browser.chmod(0o755)
    words = [sys.executable, "-m", "corral", command, "--open", "--port", "0"]
    with watched_arguments() as arguments:
        running = subprocess.Popen(
            words,
            env={**person.env, "BROWSER": str(browser)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert running.stdout is not None
            link = running.stdout.readline().strip()
            code = link.partition("#code=")[2]
            state = person.home / "state" if command == "serve" else Path(person.places()[0].state)
            logins = state / "server" / "logins.json"
            wait_until(lambda: len(json.loads(logins.read_text())["logins"]) == 1, "the browser to be in", SECONDS)
            assert "Chrome" in json.loads(logins.read_text())["logins"][0]["label"]
            wait_until(lambda: not list(downloads.iterdir()), "the file to go")
        finally:
            if (tmp_path / "pid").exists():
                os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
            running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=SECONDS)
            for keeper in tmp_path.rglob("server/keeper.json"):  # it would hold the port of whoever is logged in
                kill(ProcessIdentity(*json.loads(keeper.read_text())["process"]))
        assert running.returncode == 0, said
    assert any(re.search(r"file:///.*corral-login-\w+\.html", one) for one in arguments), "it was looked at"
    assert code and not any(code in one for one in arguments)
