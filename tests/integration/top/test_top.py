"""`corral top` on real terminals: it draws, it leaves, and it gives the terminal back."""

from __future__ import annotations

import signal
import termios

import pytest

from tests.integration.terminals.held import wait_until
from tests.integration.top.lab import Lab

COOKED = termios.ICANON | termios.ECHO | termios.ISIG


@pytest.mark.parametrize(("how", "code"), [("q", 0), ("\x03", 130), (signal.SIGTERM, 143)])
def test_every_way_out_gives_the_terminal_back(lab: Lab, how, code):
    lab.start("watched")
    window = lab.world.on_terminal("top", "--interval", "0.2", columns=70, lines=24)
    screen = window.wait_screen(lambda text: "watched" in text and "kimi-cli" in text, what="the session")
    assert "%CPU" in screen and "q leaves" in screen
    assert not window.line_modes & COOKED
    # From the second look on there is a figure.
    (row,) = [line for line in window.wait_screen(_has_rate, what="a rate").splitlines() if "watched" in line]
    assert float(row.split()[0]) >= 0
    window.kill(how) if isinstance(how, signal.Signals) else window.send(how)
    assert window.wait_exit() == code
    assert window.line_modes & COOKED == COOKED
    wait_until(lambda: b"\x1b[?1049l" in window.raw, "its last words")
    drawn = bytes(window.raw)
    assert drawn.count(b"\x1b[?1049h") == drawn.count(b"\x1b[?1049l") == 1
    assert drawn.index(b"\x1b[?1049h") < drawn.index(b"watched")
    assert drawn.rindex(b"watched") < drawn.rindex(b"\x1b[?25h") < drawn.rindex(b"\x1b[?1049l")


def _has_rate(screen: str) -> bool:
    rows = [line.split() for line in screen.splitlines() if "watched" in line]
    return bool(rows) and rows[0][0] not in ("–", "…")


def test_into_a_pipe_it_is_one_table_without_a_rate(lab: Lab):
    agent = lab.start("piped")
    agent.left("start()")
    done = lab.world.corral("top")
    head, *rows = done.stdout.splitlines()
    assert done.returncode == 0 and head.split()[:6] == ["CPU", "s", "MEMORY", "PROCS", "SESSION", "PROVIDER"]
    (row,) = [row.split() for row in rows if "piped" in row]
    assert row[3:6] == ["2", "piped", "kimi-cli"]
