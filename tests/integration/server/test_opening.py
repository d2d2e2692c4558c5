"""`corral serve --open` and `corral demo --open`: the code reaches the browser and no argument, and a browser that stays keeps nobody waiting."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.demo.showing import SECONDS, Person, Showing
from tests.integration.server.serving import Serving
from tests.integration.terminals.held import wait_until

BROWSER = """#!/usr/bin/python3
import json, os, sys, time, urllib.parse
path = urllib.parse.urlparse(sys.argv[1]).path
content = open(path).read()
found = {"pid": os.getpid(), "argv": sys.argv, "mode": os.stat(path).st_mode & 0o777, "path": path, "content": content}
open(os.environ["FOUND"] + ".new", "w").write(json.dumps(found))
os.rename(os.environ["FOUND"] + ".new", os.environ["FOUND"])
time.sleep(120)
"""


@pytest.mark.parametrize("folder", ["Downloads", "."])
def test_the_code_is_in_a_file_of_the_owner_s_alone_until_it_was_used(world, folder):
    browser, found = install_browser(world)
    (world.root / folder).mkdir(exist_ok=True)
    serving = Serving(world, "--open", BROWSER=str(browser), FOUND=str(found))
    try:
        wait_until(found.exists, "the browser")
        seen = json.loads(found.read_text())
        code = serving.code()
        assert serving.link in seen["content"] and seen["mode"] == 0o600
        path = Path(seen["path"])
        assert path.parent == (world.root / folder).resolve() and not path.name.startswith(".")
        assert not any(code in word for word in seen["argv"])
        assert not any(code in words for words in all_arguments())
        assert serving.ask("GET", "/api/health").status == 200, "the browser is still open, and keeps nobody waiting"
        serving.log_in(code)
        wait_until(lambda: not path.exists(), "the file to go")
    finally:
        serving.kill()
        if found.exists():
            os.kill(json.loads(found.read_text())["pid"], 9)


def test_a_file_that_a_killed_server_left_is_swept(world):
    left = world.root / "corral-login-0123456789abcdef.html"
    left.write_text("x")
    os.utime(left, (0, 0))
    serving = Serving(world, "--open", BROWSER="/bin/true")
    try:
        wait_until(lambda: not left.exists(), "it to go")
        wait_until(lambda: any(world.root.glob("corral-login-*.html")), "the file of this server")
        (own,) = world.root.glob("corral-login-*.html")
        serving.stop()
        assert not own.exists(), "nothing stays behind a server that ends"
    finally:
        serving.kill()


def install_browser(world) -> tuple[Path, Path]:
    """The program, and where it writes what it was given."""
    browser, found = world.root / "browser", world.root / "found.json"
    browser.write_text(BROWSER)
    browser.chmod(0o755)
    return browser, found


def test_a_link_into_a_server_that_runs_is_there_until_the_browser_has_used_it(serving):
    browser, found = install_browser(serving.world)
    words = [sys.executable, "-m", "corral", "serve", "--reuse", "--open"]
    env = {**serving.world.env, "BROWSER": str(browser), "FOUND": str(found)}
    opening = subprocess.Popen(words, env=env, cwd=serving.world.work, stdout=subprocess.PIPE, text=True)
    try:
        wait_until(found.exists, "the browser, which found the file")
        seen = json.loads(found.read_text())
        code = re.search(r"#code=([\w-]+)", seen["content"])
        assert code is not None
        serving.log_in(code[1])
        assert opening.wait(60) == 0 and not Path(seen["path"]).exists()
    finally:
        opening.kill()
        opening.communicate()
        if found.exists():
            os.kill(json.loads(found.read_text())["pid"], 9)


def test_the_directory_that_the_server_is_started_in_runs_nothing(world):
    """A repository may have a file of any name."""
    (world.work / "webbrowser.py").write_text(f"open({str(world.root / 'ran')!r}, 'w')\n")
    browser, found = install_browser(world)
    serving = Serving(world, "--open", BROWSER=str(browser), FOUND=str(found))
    try:
        wait_until(lambda: found.exists() or (world.root / "ran").exists(), "the browser")
        assert not (world.root / "ran").exists()
    finally:
        serving.kill()
        if found.exists():
            os.kill(json.loads(found.read_text())["pid"], 9)


def test_a_home_that_nothing_can_be_put_into_does_not_keep_the_server_from_serving(world):
    state = {"CORRAL_STATE_DIR": str(world.state), "XDG_CONFIG_HOME": str(world.root / ".config")}
    serving = Serving(world, "--open", BROWSER="/bin/true", HOME="/proc/self", **state)
    try:
        assert serving.ask("GET", "/api/health").status == 200
        assert "open the link yourself" in serving.errors() and "Traceback" not in serving.errors()
    finally:
        serving.kill()


def test_the_demo_s_code_is_in_no_argument_either(tmp_path):
    person = Person(tmp_path)
    browser, found = install_browser(person)
    person.env |= {"BROWSER": str(browser), "FOUND": str(found)}
    showing = Showing(person, "--open")
    try:
        showing.await_ready()
        wait_until(found.exists, "the browser")
        seen = json.loads(found.read_text())
        path = Path(seen["path"])
        assert showing.link in seen["content"] and seen["mode"] == 0o600 and path.parent == person.home
        assert not any(showing.link.partition("#code=")[2] in words for words in all_arguments())
        showing.process.send_signal(signal.SIGTERM)
        assert showing.process.wait(SECONDS) == 0 and not path.exists(), "nothing stays behind a demo that ends"
    finally:
        showing.end()
        if found.exists():
            os.kill(json.loads(found.read_text())["pid"], 9)


def all_arguments() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if re.fullmatch(r"\d+", entry.name):
            try:
                found.append((entry / "cmdline").read_text(errors="replace"))
            except OSError:
                continue
    return found
