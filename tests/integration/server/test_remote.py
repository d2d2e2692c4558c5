"""An address that others can reach: only when it was named and asked for, and behind the same doors as on loopback.

In a network namespace of its own, where nobody else is.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.integration.terminals.world import World

ADDRESS = "192.0.2.1"  # kept for documents: nobody has it
SCRIPT = """
import fcntl, http.client, json, os, select, signal, socket, struct, subprocess, sys
def give(name, address):
    with socket.socket() as one:
        wanted = struct.pack("16sH2s4s8s", name, socket.AF_INET, b"", socket.inet_aton(address), b"")
        fcntl.ioctl(one, 0x8916, wanted)  # set its address
        fcntl.ioctl(one, 0x8914, struct.pack("16sh14s", name, 0x41, b""))  # up
give(b"lo", "127.0.0.1")
give(b"lo:1", ADDRESS)
server = subprocess.Popen([sys.executable, "-m", "corral", "serve", *sys.argv[1:]], stdout=-1, stderr=-1, text=True)
found = {}
try:
    assert select.select([server.stdout], [], [], 60)[0]
    found["link"] = server.stdout.readline()
    if found["link"]:
        state = os.path.expanduser("~/.local/state/corral/server")
        token, port = (open(os.path.join(state, name)).read() for name in ("token", "port"))
        def ask(method, path, **headers):
            connection = http.client.HTTPConnection(ADDRESS, int(port), timeout=60)
            connection.request(method, path, body="{}" if method == "POST" else None, headers=headers)
            return connection.getresponse().status
        own, good = f"{ADDRESS}:{port}", {"Authorization": f"Bearer {token}"}
        changing = {**good, "Content-Type": "application/json", "X-Corral": "1"}
        found["with the token"] = ask("GET", "/api/health", **good)
        found["without"] = ask("GET", "/api/health")
        found["the page"] = ask("GET", "/")
        found["by another name"] = [
            ask("GET", "/api/health", Host=name, **good) for name in (f"evil.example:{port}", f"localhost:{port}", ADDRESS)
        ]
        found["from another page"] = [
            ask("POST", "/api/tabs/restore", Origin=name, **changing)
            for name in ("http://evil.example", "null", f"http://127.0.0.1:{port}", f"https://{own}")
        ]
        found["from its own page"] = ask("POST", "/api/tabs/restore", Origin=f"http://{own}", **changing)
        listener = socket.socket()
        try:
            listener.connect(("127.0.0.1", int(port)))
            found["on other addresses"] = True
        except ConnectionRefusedError:
            found["on other addresses"] = False
finally:
    server.kill()
    found["said"] = server.communicate()[1]
    found["code"] = server.returncode
print(json.dumps(found))
"""


def serve_remotely(world: World, *words: str) -> dict:
    script = f"ADDRESS = {ADDRESS!r}\n{SCRIPT}"
    argv = ["unshare", "--net", sys.executable, "-c", script, *words]
    done = subprocess.run(argv, env=world.env, cwd=world.work, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", [["--host", ADDRESS], ["--host", "0.0.0.0", "--allow-remote"]], ids=" ".join)
def test_an_address_that_others_can_reach_is_refused_unless_it_is_named_and_asked_for(world, words):
    found = serve_remotely(world, *words)
    assert (found["link"], found["code"]) == ("", 2)
    assert "corral does not serve on" in found["said"] and "Traceback" not in found["said"]


def test_a_server_that_others_can_reach_has_the_same_doors(world):
    found = serve_remotely(world, "--host", ADDRESS, "--allow-remote", "--port", "17420")
    # No browser can log in over plain HTTP from elsewhere: the link is for the near end of a tunnel.
    assert re.match(r"http://corral-\w+\.localhost:17420/#code=", found["link"])
    assert f"ssh -L 17420:{ADDRESS}:17420" in found["said"]
    assert found["the page"] == 421
    assert (found["with the token"], found["without"]) == (200, 401)
    assert found["by another name"] == [421, 421, 421]
    assert found["from another page"] == [403, 403, 403, 403]
    assert found["from its own page"] == 202
    assert found["on other addresses"] is False
