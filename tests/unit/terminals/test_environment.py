"""What a program in a terminal of ours inherits, which keys leave it, and the way into tmux."""

from __future__ import annotations

import os

import pytest

from corral.cli.raw_terminal import DetachKey
from corral.model.whereabouts import Pane
from corral.tabs.whereabouts import go_command
from corral.terminals.start import terminal_environment

PANE = Pane("/tmp/tmux-0/default", "%3", "work:1.2", 42)


def test_the_other_terminal_is_not_inherited_and_the_rest_is():
    env = {
        "HOME": "/h",
        "TMUX": "x,1,0",
        "TMUX_PANE": "%1",
        "TMUX_TMPDIR": "/t",
        "KITTY_WINDOW_ID": "1",
        "TERM": "kitty",
    }
    made = terminal_environment(env, "0" * 16)
    assert made == {
        "HOME": "/h",
        "TMUX_TMPDIR": "/t",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "CORRAL_TAB": "0" * 16,
    }


@pytest.mark.parametrize(
    ("name", "typed", "found"),
    [
        ("ctrl-\\", b"abc\x1cd", 3),
        ("ctrl-\\", b"\x1b[92;5u", 0),
        ("ctrl-\\", b"ab\x1b[92;5:1u", 2),
        ("ctrl-\\", b"\x1b[92::92;5u", 0),
        ("ctrl-\\", b"\x1b[92;133u", 0),
        ("ctrl-\\", b"\x1b[27;5;92~", 0),
        ("ctrl-\\", b"\x1b[92;6u", -1),
        ("ctrl-\\", b"\x1b[92;5:3u", -1),
        ("ctrl-\\", b"\\", -1),
        ("ctrl-]", b"\x1c\x1d", 1),
        ("ctrl-a", b"\x01", 0),
        ("ctrl-a", b"\x1b[97;5u", 0),
        ("ctrl-^", b"\x1e", 0),
    ],
)
def test_the_detach_key_is_found(name, typed, found):
    assert DetachKey(name).find(typed) == found


def test_within_the_same_tmux_the_client_is_switched():
    words = go_command(PANE, {"TMUX": f"{PANE.socket},99,0"})
    assert words == ["tmux", "-S", PANE.socket, "switch-client", "-t", "%3"]


def test_outside_of_tmux_it_is_attached_to():
    words = go_command(PANE, {})
    assert words is not None
    assert words[-3:] == ["attach-session", "-t", "%3"]


def test_from_another_tmux_there_is_no_way():
    assert go_command(PANE, {"TMUX": f"{os.path.dirname(PANE.socket)}/other,99,0"}) is None
