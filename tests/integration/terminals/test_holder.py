"""A holder with real programs: every byte by its offset, once, also after gaps and cuts, and the modes with them."""

from __future__ import annotations

import sys

from corral.model.frames import Attached, Gap, Output, Picture, Size
from corral.terminals.client import Client
from tests.integration.terminals.held import BASH

LINES = 300_000
NUMBERS_END = LINES * len("0000000\r\n") + len("done\r\n")
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


def test_an_output_larger_than_the_ring_leaves_a_gap_that_is_told_and_a_picture(held):
    program = (
        "import sys\n"
        "sys.stdout.write('\\x1b[?2004h\\x1b[?25l')\n"
        f"for n in range({LINES}): print(f'{{n:07d}}')\n"
        "print('done', flush=True)\n"
        "sys.stdin.read()"
    )
    terminal = held.start([sys.executable, "-c", program])
    with held.watch(terminal) as view:
        view.attach(visible=False)
        view.wait_offset(len("\x1b[?2004h\x1b[?25l") + NUMBERS_END)
    with held.watch(terminal) as view:
        attached = view.attach(100)
        assert attached.oldest > 100
        gap = view.wait_frame(Gap)
        assert gap.offset == 100
        picture = view.wait_frame(Picture)
        assert picture.first
        assert b"\x1b[?2004h" in picture.data
        assert b"\x1b[?25l" in picture.data
        view.wait_text(b"done")
        assert [type(frame) for frame in view.frames[:4]] == [Attached, Gap, Size, Picture]
        replay = view.frames[4:]
        assert replay and all(isinstance(frame, Output) and frame.replay for frame in replay)


def test_one_that_fell_behind_in_the_background_sees_how_the_output_ends(held):
    terminal = held.start([sys.executable, "-c", NUMBERS, str(LINES)])
    with held.watch(terminal) as view, held.watch(terminal) as other:
        view.attach(visible=False)
        other.attach(None)
        other.wait_offset(NUMBERS_END)
        gap = view.wait_frame(Gap)
        view.wait_text(b"done")
        after = bytes(view.output[view.output.rfind(b"%07d" % (gap.end // 9)) :])
        assert after == b"".join(b"%07d\r\n" % n for n in range(gap.end // 9, LINES)) + b"done\r\n"


def test_a_fresh_viewer_of_a_wrapped_output_gets_a_picture_and_the_last_lines_whole(held):
    terminal = held.start([sys.executable, "-c", NUMBERS, str(LINES)])
    with held.watch(terminal) as view:
        view.attach(visible=False)
        view.wait_offset(NUMBERS_END)
    with held.watch(terminal) as view:
        view.attach(None)
        view.wait_text(b"done")
        assert view.last(Picture).first
        lines = bytes(view.output).split(b"\r\n")
        numbers = [int(line) for line in lines if line.isdigit()]
        assert len(numbers) > 20_000
        assert numbers == list(range(numbers[0], LINES))
        assert all(len(line) == 7 for line in lines if line.isdigit())


def test_modes_come_back_although_their_sequence_was_cut(held):
    parts = ("\x1b", "[?10", "49h\x1b[?2", "004h\x1b]0;a ti", "tle\x07")
    program = (
        "import sys, time\n"
        f"for part in {parts}:\n"
        "    sys.stdout.write(part); sys.stdout.flush(); time.sleep(0.05)\n"
        "sys.stdout.write('x' * 2_000_000); sys.stdout.flush(); print('done', flush=True); sys.stdin.read()"
    )
    terminal = held.start([sys.executable, "-c", program])
    with held.watch(terminal) as view:
        view.attach(visible=False)
        view.wait_offset(len("".join(parts)) + 2_000_000 + len("done\r\n"))
        view.client.close()
    with held.watch(terminal) as view:
        view.attach(None)
        restored = view.wait_frame(Picture).data
        assert b"\x1b[?1049h" in restored
        assert b"\x1b[?2004h" in restored
    with Client(held.directory, terminal.tab) as client:
        fields = client.ask().fields
        assert (fields["title"], fields["alternate"], fields["pid"]) == ("a title", "1", str(terminal.child.pid))
