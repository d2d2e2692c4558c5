"""The viewers of a holder: whose size counts, who answers the program, how one greets, and what is refused."""

from __future__ import annotations

import os
import sys

import pytest

from corral.errors import NotReachable
from corral.model.frames import Attach, Failed, Hello, Input, Output, Size
from corral.terminals.client import Client, connect
from corral.terminals.protocol import FrameReader, encode
from tests.integration.terminals.held import BASH, WAIT_SECONDS, wait_until


def test_the_size_is_that_of_the_viewer_last_active(held):
    terminal = held.start(BASH)
    with held.watch(terminal) as large, held.watch(terminal) as small:
        large.attach(columns=120, rows=40)
        small.attach(columns=60, rows=20)
        large.wait(lambda: large.last(Size) == Size(60, 20), "the size of the one that came last")
        large.client.type(b"stty size\n")
        large.wait_text(b"40 120")
        small.wait(lambda: small.last(Size) == Size(120, 40), "the size of the one that typed")
        small.client.resize(61, 21)
        large.wait(lambda: large.last(Size) == Size(61, 21), "the size of the one that was resized")
        small.client.close()
        large.wait(lambda: large.last(Size) == Size(120, 40), "the size of the one that is left")


def test_a_viewer_in_the_background_does_not_set_the_size(held):
    terminal = held.start(BASH)
    with held.watch(terminal) as seen, held.watch(terminal) as hidden:
        seen.attach(columns=120, rows=40)
        hidden.attach(columns=60, rows=20, visible=False)
        seen.client.type(b"stty size\n")
        seen.wait_text(b"40 120")


READ_RAW = (
    "import os, sys, tty\n"
    "tty.setraw(0)\n"
    "os.write(1, b'ready ')\n"
    "while (got := os.read(0, 100)) != b'q': os.write(1, b'got ' + repr(got).encode() + b'\\r\\n')"
)


def test_answers_are_heard_from_the_leading_viewer_alone_and_never_during_a_replay(held):
    terminal = held.start([sys.executable, "-c", READ_RAW])
    with held.watch(terminal) as first, held.watch(terminal) as second:
        first.attach()
        first.wait_text(b"ready")
        first.client.type(b"\x1b[?62c")
        first.wait_text(b"got b'\\x1b[?62c'")
        second.attach()
        second.client.type(b"x")
        second.wait_text(b"got b'x'")
        first.client.type(b"\x1b[1;1R")
        second.client.type(b"\x1b[2;2R")
        second.wait_text(b"got b'\\x1b[2;2R'")
        second.client.type(b"\x1b[3;3Ry", in_replay=True)
        second.wait_text(b"got b'y'")
        assert b"[1;1R" not in second.output
        assert b"[3;3R" not in second.output


ASK_TWICE = (
    "import os, sys, tty\n"
    "tty.setraw(0)\n"
    "for place in sys.argv[1:]:\n"
    "    os.write(1, b'\\x1b[c\\x1b[6n')\n"
    "    got = b''\n"
    "    while not got.endswith(b'R'): got += os.read(0, 100)\n"
    "    open(place, 'wb').write(got)\n"
    "    os.read(0, 1)"
)


def test_the_holder_answers_while_nobody_looks_and_leaves_it_to_viewers_otherwise(held, tmp_path):
    alone, seen = tmp_path / "alone", tmp_path / "seen"
    terminal = held.start([sys.executable, "-c", ASK_TWICE, str(alone), str(seen)], columns=90, rows=33)
    wait_until(lambda: alone.exists() and alone.read_bytes(), "an answer")
    with held.watch(terminal) as view:
        view.attach()
        assert alone.read_bytes() == b"\x1b[?1;2c\x1b[33;1R"
        asked = len(view.output)
        view.client.type(b" ")
        view.wait(lambda: b"\x1b[6n" in view.output[asked:], "the second question")
        view.client.type(b"\x1b[?62c\x1b[7;8R")
        wait_until(lambda: seen.exists() and seen.read_bytes(), "the viewer's answer")
    assert seen.read_bytes() == b"\x1b[?62c\x1b[7;8R"


def test_a_viewer_of_another_version_is_told_so(held):
    terminal = held.start(BASH)
    with connect(held.directory, terminal.tab) as sock:
        sock.sendall(encode(Hello(7, 9)))
        assert b"version" in sock.recv(1000)
        assert sock.recv(1000) == b""


@pytest.mark.parametrize("first", [encode(Attach(None)), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", encode(Input(b"x"))])
def test_one_that_does_not_greet_is_closed_and_the_others_are_not(held, first):
    terminal = held.start(BASH)
    with held.watch(terminal) as view, connect(held.directory, terminal.tab) as sock:
        view.attach()
        sock.sendall(first)
        while sock.recv(1000):
            pass
        view.client.type(b"echo al''ive\n")
        view.wait_text(b"alive")


def test_input_before_attaching_is_answered_and_not_executed(held, tmp_path):
    terminal = held.start(BASH)
    with Client(held.directory, terminal.tab) as client:
        client.type(b"touch %s\n" % os.fsencode(tmp_path / "ran"))
        assert client.receive() == Failed("not_attached", "attach before typing")
        client.ask()
    assert not (tmp_path / "ran").exists()


def test_a_terminal_that_is_not_there_is_not_reachable(held):
    with pytest.raises(NotReachable):
        Client(held.directory, "0" * 16)


def test_from_asyncio_it_is_the_same(held):
    import asyncio

    terminal = held.start(BASH)

    async def talk() -> bytes:
        sock = await asyncio.to_thread(connect, held.directory, terminal.tab)
        sock.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=sock)
        frames, shown = FrameReader(), b""
        writer.write(encode(Hello()) + encode(Attach(None, 80, 24)) + encode(Input(b"echo $((6 * 7))\n")))
        while b"42" not in shown and (data := await reader.read(65536)):
            shown += b"".join(frame.data for frame in frames.feed(data) if isinstance(frame, Output))
        writer.close()
        await writer.wait_closed()
        return shown

    assert b"42" in asyncio.run(asyncio.wait_for(talk(), WAIT_SECONDS))
