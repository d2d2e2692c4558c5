"""What a person's screen is after leaving a terminal: tmux is the person's terminal here, and tells all of it."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from corral.terminals.start import start_terminal
from tests.integration.terminals.held import ENV, wait_until

MODES = r"\033[?2004h\033[?1002;1006h\033[?1h\033=\033[2;4r\033[4h\033[?25l\033[31m"
FLAGS = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_flag} #{keypad_cursor_flag} #{insert_flag} "
FLAGS += "#{scroll_region_upper} #{scroll_region_lower}"
RESET = "0 1 0 0 0 0 0 19"


class Shell:
    """A shell in a pane of 80 by 20 that nothing else touches."""

    def __init__(self, world) -> None:
        if shutil.which("tmux") is None:
            pytest.fail("tmux is needed: install the package tmux")
        self.world = world
        (world.root / "t").mkdir()
        at = world.work / "at"
        at.write_text(f'#!/bin/sh\nexec {sys.executable} -m corral attach "$1"\n')
        at.chmod(0o755)
        words = ["-c", str(world.work), "-x", "80", "-y", "20", "env", "PS1=$ ", "sh"]
        self.tmux("-f", "/dev/null", "new-session", "-d", *words)
        wait_until(lambda: self.lines() == ["$"], "the shell")

    def tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", *words], env=self.world.env, check=True, capture_output=True, timeout=60)
        return done.stdout.decode()

    def type(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def lines(self) -> list[str]:
        return self.tmux("capture-pane", "-p").rstrip().splitlines()

    def history(self) -> str:
        return self.tmux("capture-pane", "-p", "-S", "-100")

    def flags(self) -> str:
        return self.tmux("display-message", "-p", FLAGS).strip()

    def attach(self, program: str, shows: str) -> str:
        """A terminal in which that runs, attached to from the shell."""
        directory = str(self.world.state / "terminals")
        tab = start_terminal(directory, ["/bin/sh", "-c", f"{program}; exec sleep 100"], cwd="/", env=ENV).tab
        self.type("echo before", "Enter")
        wait_until(lambda: self.lines() == ["$ echo before", "before", "$"], "the shell's own words")
        self.type(f"./at {tab}", "Enter")
        wait_until(lambda: any(shows in line for line in self.lines()), "the program")
        return tab


@pytest.fixture
def shell(world):
    found = Shell(world)
    yield found
    found.tmux("kill-server")


def test_a_picture_on_the_normal_screen_stays_and_the_message_has_a_line_of_its_own(shell):
    tab = shell.attach(rf"printf 'top\n\n[ half-typed ]\nbottom{MODES}\033[3;5H'", "bottom")
    wait_until(lambda: shell.flags() != RESET, "the modes of the program")
    shell.type("C-\\")
    wait_until(lambda: shell.lines()[-1:] == ["$"], "the prompt")
    # What the shell showed was scrolled away, not wiped.
    assert [line for line in shell.history().splitlines() if line] == [
        "$ echo before", "before", f"$ ./at {tab}",
        "top", "[ half-typed ]", "bottom", f"corral: detached; corral attach {tab} returns to it", "$",
    ]  # fmt: skip
    assert shell.flags() == RESET


def test_a_program_with_a_screen_of_its_own_gives_the_shells_screen_back(shell):
    tab = shell.attach(rf"printf '\033[?1049h{MODES}picture\033[3;5Hhalf'", "picture")
    assert "before" not in shell.lines()
    shell.type("C-\\")
    wait_until(lambda: shell.lines()[-1:] == ["$"], "the prompt")
    seen = shell.lines()
    assert seen[-4:] == ["before", f"$ ./at {tab}", f"corral: detached; corral attach {tab} returns to it", "$"]
    assert not any("picture" in line or "half" in line for line in seen)
    assert shell.flags() == RESET


def test_a_sequence_that_is_left_half_way_does_not_swallow_the_message(shell):
    tab = shell.attach(r"printf 'text\033]0;a title without end'", "text")
    shell.type("C-\\")
    wait_until(lambda: shell.lines()[-1:] == ["$"], "the prompt")
    assert f"corral: detached; corral attach {tab} returns to it" in shell.lines()


def test_a_program_that_ends_by_itself_has_the_last_word_where_it_put_it(shell):
    seen = shell.world.work / "seen"
    shell.attach(rf"printf 'one\ntwo\n'; until [ -e {seen} ]; do sleep 0.1; done; exit 3", "two")
    seen.touch()
    wait_until(lambda: shell.lines()[-1:] == ["$"], "the prompt")
    assert shell.lines() == ["one", "two", "$"]
