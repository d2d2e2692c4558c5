"""Busy, ready, waiting: by what the agent's own log says, however long it is silent and whatever its screen shows."""

from __future__ import annotations

import os
import time

from tests.integration.server.test_restore import talk
from tests.integration.terminals.held import wait_until


def test_a_long_silent_turn_is_busy_and_not_idle(world):
    """T46: nothing has been written since the process began, as far as the files tell; the turn has not ended."""
    window = world.program_on_terminal([str(world.program), "-w", str(world.work), "--session", "thinking"])
    window.wait_screen("session thinking")
    then = time.time()
    window.send("SLOW thoughts\r")
    (path,) = world.root.glob(".kimi/sessions/*/thinking")
    wait_until(lambda: world.sessions()["thinking"]["activity"] == "busy", "the turn")
    for file in (*path.iterdir(), path):
        os.utime(file, (then, then))
    found = world.sessions()["thinking"]
    assert (found["state"], found["activity"]) == ("live", "busy")


def test_what_the_screen_says_is_no_status(serving):
    """T48: an agent prints what other agents print when they ask, work or end; its log says that it is ready."""
    tab = serving.start_tab()
    talk(serving, tab, "hello")
    serving.wait_for_tab(tab, lambda one: one["activity"] == "ready")
    viewer = serving.terminal(tab)
    for number, words in enumerate(
        (
            "Do you want to proceed? (y/n)",
            "\\u2026 thinking (esc to interrupt)",
            "Goodbye! Session ended",
            "\\u001b[2J\\u0007",
        )
    ):
        viewer.type(f'/print "{words} seen{number}"\r'.encode())
        viewer.read_until(f"seen{number}\r\n".encode())
        shown = serving.tabs()[tab]
        assert (shown["state"], shown["activity"]) == ("running", "ready")
    viewer.close()
    talk(serving, tab, "and on")
    serving.wait_for_tab(tab, lambda one: one["state"] == "running" and one["activity"] == "ready")
