"""The program in a holder: how it begins, what it is given and what it is not, its input and its end."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from corral.model.frames import Exit, Failed
from corral.terminals.start import StartFailed
from tests.integration.terminals.held import BASH, is_gone, wait_until


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
        (["/no/such/program"], "/", "there is no program /no/such/program"),
        (["/etc/passwd"], "/", "no permission to run /etc/passwd"),
        (["/bin/sh"], "/no/such/directory", "its working directory is gone: /no/such/directory"),
    ],
)
def test_a_program_that_cannot_be_started_says_why_and_leaves_nothing(held, argv, cwd, reason):
    with pytest.raises(StartFailed, match=reason):
        held.start(argv, cwd=cwd)
    assert list(Path(held.directory).iterdir()) == []


def test_a_script_whose_interpreter_is_missing_names_it(held, tmp_path):
    script, link = tmp_path / "agent", tmp_path / "link"
    script.write_text("#!/opt/gone/bin/python3 -u\n")
    script.chmod(0o755)
    link.symlink_to(tmp_path / "nothing")
    for program, reason in (
        (script, f"{script} is a script for /opt/gone/bin/python3, which is not there"),
        (link, f"{link} is a link to {tmp_path}/nothing, which is not there"),
    ):
        with pytest.raises(StartFailed) as failed:
            held.start([str(program)])
        assert str(failed.value) == reason


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
