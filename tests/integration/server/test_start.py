"""Starting and stopping the server as a person does: make run, once more, Ctrl-C; and a port that is taken."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from tests.integration.terminals.held import is_gone

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 120


def test_make_run_serves_the_page_says_what_goes_on_and_a_second_one_links_to_the_first(world):
    make = ["make", "-s", "-C", str(ROOT), "run"]
    first = world.program_on_terminal(make, columns=140, lines=60)
    screen = first.wait_screen("Ctrl-C stops it", SECONDS)
    link = re.search(r"http://corral-\w+\.localhost:\d+/#code=\S+", screen)
    assert link is not None
    second = world.program_on_terminal(make, columns=140, lines=60)
    again = second.wait_screen("a server is already running", SECONDS)
    assert second.wait_exit() == 0
    other = re.search(r"http://corral-\w+\.localhost:\d+/#code=\S+", again)
    assert other is not None and other[0] != link[0] and other[0].partition("#")[0] == link[0].partition("#")[0]
    tab = world.run_detached()
    agent = world.identity(world.tab(tab)["pid"])
    first.send("\x03")
    first.wait_exit()
    assert "stopped; 1 terminal goes on without it" in first.screen()
    assert not is_gone(agent)


def test_a_second_server_is_refused_unless_it_may_be_the_first(serving):
    refused = serving.world.corral("serve")
    assert refused.returncode == 1 and serving.origin in refused.stderr and "corral url" in refused.stderr
    reused = serving.world.corral("serve", "--reuse")
    assert reused.returncode == 0
    assert serving.log_in(reused.stdout.strip().partition("#code=")[2])
    assert "stays" not in reused.stderr
    moved = serving.world.corral("serve", "--reuse", "--port", "1")
    assert moved.stdout.startswith(serving.origin) and "it stays on port" in moved.stderr


def test_a_port_that_another_program_took_is_named_and_nothing_is_served(world):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (world.state / "server").mkdir(parents=True)
        (world.state / "server" / "port").write_text(str(port))  # that of the last run
        refused = world.corral("serve", "--reuse")
    assert refused.returncode == 1 and refused.stdout == ""
    assert f"127.0.0.1:{port}: Address already in use" in refused.stderr and "--port N" in refused.stderr


def test_the_first_start_takes_the_next_port_that_is_free(world):
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", 7420))
            taken.listen()
        except OSError:
            pass  # somebody has it already, which is as good
        running = world.on_terminal("serve", columns=140)
        screen = running.wait_screen("Ctrl-C stops it", SECONDS)
        port = re.search(r"http://corral-\w+\.localhost:(\d+)/", screen)
        assert port is not None and port[1] != "7420"
        running.send("\x03")
        assert running.wait_exit() == 0
        assert "corral: stopped" in running.screen()
