"""Real programs with random keys, sizes, detaches and viewers: whoever comes sees what one sees that never left."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from corral.model.frames import Hello
from corral.terminals.client import Client
from tests.integration.screens.viewers import Watcher, wait_equal_offsets
from tests.integration.screens.xterm import tell_difference, text_of
from tests.integration.terminals.held import ENV, WAIT_SECONDS
from tests.long_run import SCREENS

ROUNDS = max(1, SCREENS // 60)
HOME_KEYS = {
    "vim": [b"j", b"\x06", b"\x02", b"G", b"gg", b"ihello \xe6\x97\xa5\x1b", b"dd", b"u", b":set nu!\r", b"/line 5\r"],
    "less": [b" ", b"b", b"j", b"k", b"G", b"g", b"/of\r", b"n", b"-S\r", b"100g"],
    "htop": [b"\x1b[B", b"\x1b[A", b"t", b"H", b"\x1b[6~", b"I", b"\x1b[C"],
    "bash": [
        b"ls --color=always /\n", b"seq 70\n", b"echo a long line that is longer than the window is wide; " + b"x" * 90,
        b"\n", b"\x15", b"printf '\\e[31mred\\e[0m\\n'\n", b"clear\n", b"\x1b[A", b"\x03", b"tput cup 3 9; echo here\n",
    ],
}  # fmt: skip


class Connected:
    """A watcher at a real holder."""

    def __init__(self, xterms, directory: str, tab: str, size: tuple[int, int], *, paints: bool = False) -> None:
        self.client = Client(directory, tab)
        self.watcher = Watcher(xterms, size, paints=paints)
        self.size = size
        self.client.attach(None, *size, picture=paints)

    def receive(self, seconds: float) -> bool:
        self.client.socket.settimeout(seconds)
        try:
            frame = self.client.receive()
        except TimeoutError:
            return False
        assert frame is not None, "the holder is gone"
        self.watcher.take(frame)
        return True

    def resize(self, size: tuple[int, int]) -> None:
        self.size = size
        if self.watcher.paints:
            self.watcher.terminal.resize(*size)
        self.client.resize(*size)

    def close(self) -> None:
        self.client.close()
        self.watcher.terminal.close()


def program_words(program: str, place: Path) -> list[str]:
    found = shutil.which(program)
    if found is None:
        pytest.fail(f"{program} is needed: install the package {program}")
    text = place / "text"
    text.write_text("".join(f"line {n} of the file, {'and more ' * (n % 17)}\n" for n in range(1, 300)))
    words = {
        "vim": ["-u", "NONE", "-N", str(text)],
        "less": [str(text)],
        "htop": ["-d", "100"],
        "bash": ["--norc", "--noprofile"],
    }
    return [found, *words[program]]


def start(held, program: str, size: tuple[int, int], place: Path):
    columns, rows = size
    env = {**ENV, "HOME": str(place)}
    return held.start(program_words(program, place), columns=columns, rows=rows, env=env)


def check(stayed: Connected, came: Connected, said: str) -> None:
    wait_equal_offsets([stayed, came], WAIT_SECONDS)
    ours, theirs = stayed.watcher.terminal.dump(), came.watcher.terminal.dump()
    found = tell_difference(ours, theirs)
    assert not found, f"{said}: {found[:5]}\n{text_of(ours)}\n--- came:\n{text_of(theirs)}"


@pytest.mark.parametrize("paints", [False, True], ids=["page", "attach"])
@pytest.mark.parametrize("program", sorted(HOME_KEYS))
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_viewer_that_comes_late_sees_what_one_sees_that_stayed(xterms, held, tmp_path, program, paints, seed):
    random = Random(f"{program} {seed} {paints}")
    size = (random.randint(60, 130), random.randint(10, 40))
    tab = start(held, program, size, tmp_path).tab
    stayed = Connected(xterms, held.directory, tab, size, paints=paints)
    typist = stayed
    for step in range(2):
        for _ in range(random.randint(1, 4)):
            typist.client.type(random.choice(HOME_KEYS[program]))
            if random.random() < 0.4:
                size = (random.randint(40, 130), random.randint(8, 40))
                # Windows of one's own have one size here; the page's follow whatever the size is.
                stayed.resize(size)
        came = Connected(xterms, held.directory, tab, size, paints=paints)
        check(stayed, came, f"step {step}")
        came.client.type(random.choice(HOME_KEYS[program]))
        check(stayed, came, f"step {step}, after a key")
        came.close()
    stayed.close()


def test_vim_after_a_detach_a_smaller_window_and_the_page(xterms, held, tmp_path):
    tab = start(held, "vim", (120, 30), tmp_path).tab
    first = Connected(xterms, held.directory, tab, (120, 30), paints=True)
    first.client.type(b":set nu nowrap\r\x06\x05\x05")
    wait_equal_offsets([first])
    first.close()
    second = Connected(xterms, held.directory, tab, (120, 30), paints=True)
    wait_equal_offsets([second])
    second.resize((90, 20))
    second.client.type(b"jj\x04")
    wait_equal_offsets([second])
    second.close()
    page = Connected(xterms, held.directory, tab, (100, 28))
    wait_equal_offsets([page])
    page.client.type(b"gg0")
    wait_equal_offsets([page])
    shown = page.watcher.terminal.dump()
    lines = text_of(shown).splitlines()
    assert [line.split(" of")[0].strip() for line in lines[:27]] == [f"{n} line {n}" for n in range(1, 28)]
    assert shown["region"] == [0, 27]
    assert shown["cursor"][1] == 0


def test_a_viewer_of_the_first_version_gets_the_picture_too(xterms, held, tmp_path, monkeypatch):
    tab = start(held, "vim", (100, 30), tmp_path).tab
    stayed = Connected(xterms, held.directory, tab, (100, 30))
    stayed.client.type(b":set nu\r\x06")
    stayed.resize((90, 20))
    stayed.client.type(b"jj\x04")
    wait_equal_offsets([stayed])
    monkeypatch.setattr("corral.terminals.client.Hello", lambda: Hello(1, 1))
    came = Connected(xterms, held.directory, tab, (90, 20))
    assert (stayed.client.version, came.client.version) == (2, 1)
    check(stayed, came, "version 1")
    came.client.type(b"\x05\x05k")
    check(stayed, came, "version 1, after keys")
