"""A holder with real programs: every byte by its offset, modes, sizes, several viewers, answers."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from corral.terminals.client import Client, NotReachable, connect
from corral.terminals.protocol import (
    Attach,
    Attached,
    Exit,
    Failed,
    FrameReader,
    Gap,
    Hello,
    Input,
    Modes,
    Output,
    Size,
    encode,
)
from corral.terminals.start import StartFailed
from tests.integration.terminals.held import BASH, is_gone, wait_until

NUMBERS = "import sys\nfor n in range(int(sys.argv[1])): print(f'{n:07d}')\nprint('done', flush=True)\nsys.stdin.read()"


def test_a_program_talks_with_a_viewer(held):
    with held.watch(held.start(BASH)) as view:
        view.attach()
        view.client.type(b"echo $((6 * 7)); tty\n")
        view.wait_text(b"42\r\n/dev/pts/")


def test_every_byte_comes_once_over_any_number_of_reattachments(held):
    count = 60_000
    terminal = held.start([sys.executable, "-c", NUMBERS, str(count)])
    seen, offset = bytearray(), 0
    while b"done" not in seen:
        with held.watch(terminal) as view:
            view.attach(offset)
            for _ in range(3):
                view.wait_more(1)
                if b"done" in view.output:
                    break
            seen += view.output
            offset = view.next_offset
            assert view.last(Gap) is None
    assert bytes(seen) == b"".join(b"%07d\r\n" % number for number in range(count)) + b"done\r\n"


def test_what_was_written_before_is_marked_as_replay_and_what_comes_after_is_not(held):
    terminal = held.start(BASH)
    with held.watch(terminal) as view:
        view.attach()
        view.client.type(b"echo be''fore\n")
        view.wait_text(b"before\r\n$ ")
    with held.watch(terminal) as view:
        head = view.attach().head
        view.client.type(b"echo af''ter\n")
        view.wait_text(b"after")
        outputs = [frame for frame in view.frames if isinstance(frame, Output)]
        assert all(frame.replay == (frame.offset < head) for frame in outputs)
        assert {frame.replay for frame in outputs} == {True, False}
        assert all(frame.offset + len(frame.data) <= head for frame in outputs if frame.replay)


def test_an_output_larger_than_the_ring_leaves_a_gap_that_is_told_and_repainted(held, tmp_path):
    program = (
        "import signal, sys, os\n"
        "signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b'painted anew\\n'))\n"
        "sys.stdout.write('\\x1b[?2004h\\x1b[?25l')\n"
        "for n in range(300_000): print(f'{n:07d}')\n"
        "print('done', flush=True)\n"
        "while True: signal.pause()"
    )
    terminal = held.start([sys.executable, "-c", program])
    with held.watch(terminal) as view:
        view.attach(visible=False)
        view.wait_text(b"done")
    with held.watch(terminal) as view:
        attached = view.attach(100)
        assert attached.oldest > 100
        gap = view.wait_frame(Gap)
        assert gap.offset == 100
        modes = view.wait_frame(Modes)
        assert b"\x1b[?2004h" in modes.data
        assert b"\x1b[?25l" in modes.data
        view.wait_text(b"painted anew\r\npainted anew")
        kinds = [type(frame) for frame in view.frames if not isinstance(frame, Size)]
        assert kinds[:3] == [Attached, Gap, Modes]


def test_a_fresh_viewer_of_a_wrapped_output_gets_the_last_lines_whole_then_the_modes(held):
    terminal = held.start([sys.executable, "-c", NUMBERS, "300000"])
    with held.watch(terminal) as view:
        view.attach(visible=False)
        view.wait_text(b"done")
    with held.watch(terminal) as view:
        view.attach(None)
        view.wait_text(b"done")
        view.wait_frame(Modes)
        lines = bytes(view.output).split(b"\r\n")
        numbers = [int(line) for line in lines if line.isdigit()]
        assert len(numbers) > 20_000
        assert numbers == list(range(numbers[0], 300_000))
        assert all(len(line) == 7 for line in lines if line.isdigit())


def test_modes_come_back_although_their_sequence_was_cut(held):
    program = (
        "import sys, time\n"
        "for part in ('\\x1b', '[?10', '49h\\x1b[?2', '004h\\x1b]0;a ti', 'tle\\x07'):\n"
        "    sys.stdout.write(part); sys.stdout.flush(); time.sleep(0.05)\n"
        "sys.stdout.write('x' * 2_000_000); sys.stdout.flush(); print('done', flush=True); sys.stdin.read()"
    )
    terminal = held.start([sys.executable, "-c", program])
    with held.watch(terminal) as view:
        view.attach(visible=False)
        view.wait_text(b"done")
        view.client.close()
    with held.watch(terminal) as view:
        view.attach(None)
        restored = view.wait_frame(Modes).data
        assert b"\x1b[?1049h" in restored
        assert b"\x1b[?2004h" in restored
    with Client(held.directory, terminal.tab) as client:
        fields = client.ask().fields
        assert (fields["title"], fields["alternate"], fields["pid"]) == ("a title", "1", str(terminal.child.pid))


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
    wait_until(alone.exists, "an answer")
    with held.watch(terminal) as view:
        view.attach()
        assert alone.read_bytes() == b"\x1b[?1;2c\x1b[33;1R"
        asked = len(view.output)
        view.client.type(b" ")
        view.wait(lambda: b"\x1b[6n" in view.output[asked:], "the second question")
        view.client.type(b"\x1b[?62c\x1b[7;8R")
        wait_until(seen.exists, "the viewer's answer")
    assert seen.read_bytes() == b"\x1b[?62c\x1b[7;8R"


def test_input_that_nobody_reads_is_refused_loudly_when_it_is_too_much(held):
    terminal = held.start(
        [sys.executable, "-c", "import tty, time; tty.setraw(0); print('raw', flush=True); time.sleep(60)"]
    )
    with held.watch(terminal) as view:
        view.attach()
        view.wait_text(b"raw")
        for _ in range(20):
            view.client.type(b"x" * 65_536)
        assert view.wait_frame(Failed).code == "input_full"


def test_a_large_paste_arrives_whole(held):
    program = (
        "import hashlib, os, sys, tty\n"
        "tty.setraw(0); os.write(1, b'ready')\n"
        "data = b''\n"
        "while len(data) < 400_000: data += os.read(0, 65536)\n"
        "os.write(1, hashlib.sha256(data).hexdigest().encode())"
    )
    import hashlib

    paste = os.urandom(200_000).hex().encode()
    terminal = held.start([sys.executable, "-c", program])
    with held.watch(terminal) as view:
        view.attach()
        view.wait_text(b"ready")
        view.client.type(paste)
        view.wait_text(hashlib.sha256(paste).hexdigest().encode())


@pytest.mark.parametrize(("command", "status"), [(b"exit 7\n", 7), (b"kill -TERM $$; kill -KILL $$\n", -9)])
def test_the_exit_status_comes_after_all_output(held, command, status):
    terminal = held.start(BASH)
    with held.watch(terminal) as view:
        view.attach()
        view.client.type(command)
        assert view.wait_frame(Exit).status == status
        assert isinstance(view.frames[-1], Exit)
    wait_until(lambda: is_gone(terminal.holder), "the end of the holder, as somebody knows")


def test_the_last_words_of_a_program_that_ended_alone_can_be_read(held):
    terminal = held.start(["/bin/sh", "-c", "echo why it failed >&2; exit 9"])
    wait_until(lambda: is_gone(terminal.child), "its end")
    with held.watch(terminal) as view:
        view.attach()
        assert view.wait_frame(Exit).status == 9
        assert b"why it failed" in view.output
        view.client.type(b"x")
        assert view.wait_frame(Failed).code == "ended"


def test_the_program_has_three_descriptors_default_signals_and_its_own_session(held):
    script = "ls /proc/self/fd | sort -n | tr '\\n' ' '; grep Sig /proc/self/status; ps -o sid=,pid=,tty= -p $$"
    with held.watch(held.start(["/bin/sh", "-c", script])) as view:
        view.attach()
        view.wait_frame(Exit)
        text = view.output.decode()
        assert text.startswith("0 1 2 3 ")  # 3 is the listing's own
        ignored = int(text.partition("SigIgn:\t")[2][:16], 16)
        assert not [number for number in signal.valid_signals() if ignored >> (number - 1) & 1]
        assert "SigBlk:\t0000000000000000" in text
        session, pid, tty = text.split()[-3:]
        assert session == pid
        assert tty.startswith("pts/")


def test_the_environment_is_exactly_the_given_one(held):
    with held.watch(held.start(["/usr/bin/env"], env={"A": "1", "TERM": "dumb"})) as view:
        view.attach()
        view.wait_frame(Exit)
        assert view.output == b"A=1\r\nTERM=dumb\r\n"


def test_the_holder_shows_nothing_of_the_program_to_others(held):
    terminal = held.start([*BASH, "-c", "read x # a secret word"], env={"SECRET": "sesame"})
    shown = Path(f"/proc/{terminal.holder.pid}/cmdline").read_bytes()
    shown += Path(f"/proc/{terminal.holder.pid}/environ").read_bytes()
    shown += b"".join(path.read_bytes() for path in Path(held.directory).iterdir() if path.is_file())
    assert b"sesame" not in shown
    assert b"secret" not in shown


@pytest.mark.parametrize(
    ("argv", "cwd", "reason"),
    [
        (["/no/such/program"], "/", "No such file"),
        (["/etc/passwd"], "/", "Permission denied"),
        (["/bin/sh"], "/no/such/directory", "No such file"),
    ],
)
def test_a_program_that_cannot_be_started_says_why_and_leaves_nothing(held, argv, cwd, reason):
    with pytest.raises(StartFailed, match=reason):
        held.start(argv, cwd=cwd)
    assert list(Path(held.directory).iterdir()) == []


def test_nothing_begins_before_it_is_on_record(held, tmp_path):
    mark = tmp_path / "ran"

    class Full(Exception):
        pass

    def fail(started):
        assert not mark.exists()
        time.sleep(0.2)
        assert not mark.exists()
        raise Full

    with pytest.raises(Full):
        held.start(["/usr/bin/touch", str(mark)], on_forked=fail)
    wait_until(lambda: list(Path(held.directory).iterdir()) == [], "the files' removal")
    assert not mark.exists()


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

    assert b"42" in asyncio.run(asyncio.wait_for(talk(), 20))
