"""corral attach to terminals that corral holds: several windows, the detach key, and the way out."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.integration.terminals.held import kill, wait_until


def test_several_windows_show_the_same_and_take_the_size_of_the_one_last_used(world):
    tab = world.run_detached()
    large = world.on_terminal("attach", tab, columns=120, lines=40)
    large.wait_screen("session ")
    small = world.on_terminal("attach", tab, columns=70, lines=20)
    small.wait_screen("session ")
    small.send("from the small one\r")
    large.wait_screen("from the small one")
    tty = os.readlink(f"/proc/{world.tab(tab)['pid']}/fd/0")

    def size() -> tuple[int, int]:
        fd = os.open(tty, os.O_RDONLY | os.O_NOCTTY)
        try:
            return tuple(os.get_terminal_size(fd))
        finally:
            os.close(fd)

    wait_until(lambda: size() == (70, 20), "the small size")
    large.send("from the large one\r")
    small.wait_screen("from the large one")
    wait_until(lambda: size() == (120, 40), "the large size")


@pytest.mark.parametrize("spelling", ["\x1d", "\x1b[93;5u", "\x1b[93;5:1u", "\x1b[27;5;93~", "\x1b[93;69u"])
def test_the_detach_key_can_be_set_and_is_known_in_every_spelling(world, spelling):
    world.config.write_text(world.config.read_text() + '[terminals]\ndetach_key = "ctrl-]"\n')
    tab = world.run_detached()
    window = world.on_terminal("attach", tab)
    window.wait_screen("session ")
    window.send(spelling)
    assert window.wait_exit() == 0
    assert world.tab(tab)["standing"] == "running"


@pytest.mark.parametrize("end", ["detach", "TERM", "HUP", "killed holder", "quit"])
def test_the_terminal_is_put_back_on_any_way_out(world, end):
    modes = world.root / "modes"
    modes.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && { echo 'kimi, version 1.51.0'; exit; }\n"
        f"printf '\\033[?1049h\\033[?2004h\\033[?25l\\033[?1003h\\033[>1uready'; exec {world.program} \"$@\"\n"
    )
    modes.chmod(0o755)
    world.config.write_text(f'[programs]\nkimi-cli = "{modes}"\n')
    tab = world.run_detached()
    # A shell keeps the terminal open, so that it can be looked at afterwards.
    command = f"{sys.executable} -m corral attach {tab}; echo left; stty -a; read x"
    window = world.program_on_terminal(["/bin/sh", "-c", command], columns=100, lines=40)
    window.wait_screen("ready")
    match end:
        case "detach":
            window.send("\x1c")
        case "quit":
            window.send("/quit\r")
        case "killed holder":
            kill(world.identity(world.tab(tab)["holder_pid"]))
        case _:
            (viewer,) = [
                int(path.name)
                for path in Path("/proc").glob("[0-9]*")
                if (path / "cmdline").exists() and _words(path)[-2:] == [b"attach", tab.encode()]
            ]
            os.kill(viewer, getattr(signal, f"SIG{end}"))
    screen = window.wait_screen("left")
    screen = window.wait_screen(lambda text: " icanon" in text and " echo " in text)
    raw = bytes(window.raw)
    for on, off in ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?1003h", b"\x1b[?1003l"), (b"\x1b[?25l", b"\x1b[?25h")):
        assert raw.rindex(off) > raw.rindex(on)
    assert raw.rindex(b"\x1b[<99u") > raw.rindex(b"\x1b[>1u")
    assert "left" in screen


def test_a_terminal_does_not_show_itself(world):
    tab = world.run_detached()
    window = world.on_terminal("attach", tab, CORRAL_TAB=tab)
    assert window.wait_exit() == 1
    assert "can't show itself" in window.screen()


def test_a_session_that_does_not_run_is_not_attached_to(world):
    tab = world.run_detached()
    session = world.tab(tab)["session"]["session_id"]
    window = world.on_terminal("attach", tab)
    window.send("typed ahead\r/quit\r")
    window.wait_exit()
    assert "typed ahead" in Path(world.sessions()[session]["path"], "context.jsonl").read_text()
    done = world.corral("attach", session)
    assert done.returncode == 1
    assert "corral resume" in done.stderr


def test_the_exit_status_is_told_until_seen(world):
    tab = world.run_detached()
    kill(world.identity(world.tab(tab)["pid"]))
    wait_until(lambda: world.tab(tab)["status"] == -9, "its end")  # seen at once, and by its holder a moment later
    assert world.tab(tab)["standing"] == "ended"
    window = world.on_terminal("attach", tab)
    assert window.wait_exit() == 128 + 9
    assert "signal 9" in window.screen()
    assert list((world.state / "terminals").glob(f"{tab}.*")) == []


def _words(path: Path) -> list[bytes]:
    try:
        return (path / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return []
