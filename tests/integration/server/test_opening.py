"""`corral serve --open`: the code reaches the browser and no argument, and a browser that stays keeps nobody waiting."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

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
    browser, found = world.root / "browser", world.root / "found.json"
    browser.write_text(BROWSER)
    browser.chmod(0o755)
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
        (own,) = world.root.glob("corral-login-*.html")
        serving.stop()
        assert not own.exists(), "nothing stays behind a server that ends"
    finally:
        serving.kill()


def all_arguments() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if re.fullmatch(r"\d+", entry.name):
            try:
                found.append((entry / "cmdline").read_text(errors="replace"))
            except OSError:
                continue
    return found
