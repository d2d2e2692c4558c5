"""What must not break a terminal: dead starters, viewers that never read, other users, no descriptors, full disks."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral.errors import NotReachable
from corral.model.frames import Exit, Gap, Output
from corral.model.process import ProcessIdentity
from corral.model.terminal import Standing
from corral.terminals.client import Client, connect
from corral.terminals.directory import find_terminal, forget_terminal, list_terminals, sweep_terminals
from corral.terminals.holder import MOST_VIEWERS
from corral.terminals.start import Started, StartFailed, start_terminal
from tests.integration.terminals.held import BASH, ENV, WAIT_SECONDS, holding, is_gone, kill, pss_bytes, wait_until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def starter(held):
    """A process on a terminal of its own that has started one of ours."""
    from tests.contract.terminal import Terminal

    command = [sys.executable, "-m", "tests.integration.terminals.start_one", held.directory]
    with Terminal(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as terminal:
        words = terminal.wait_screen(lambda screen: len(screen.split()) == 8).split()
        holder = ProcessIdentity(words[0], *map(int, words[1:4]))
        child = ProcessIdentity(words[4], *map(int, words[5:]))
        held._started.append(started := Started("0123456789abcdef", holder, child))
        yield terminal, started


@pytest.mark.parametrize("end", ["kill", "hang up", "signal the holder"])
def test_a_terminal_outlives_the_one_who_started_it(held, starter, end):
    terminal, started = starter
    match end:
        case "kill":
            terminal.kill(signal.SIGKILL)
            terminal.wait_exit()
        case "hang up":
            terminal.close()
            terminal.wait_exit()
        case _:
            os.kill(started.holder.pid, signal.SIGHUP)
    with held.watch(started) as view:
        view.attach()
        view.client.type(b"echo al''ive\n")
        view.wait_text(b"alive")


def test_a_killed_holder_hangs_up_its_program_and_is_swept(held):
    terminal = held.start(BASH)
    other = held.start(BASH)
    kill(terminal.holder)
    wait_until(lambda: is_gone(terminal.child) and is_gone(terminal.holder), "the program's end by SIGHUP")
    assert find_terminal(held.directory, terminal.tab).standing is Standing.LOST
    assert sweep_terminals(held.directory) == [terminal.tab]
    assert {path.name.partition(".")[0] for path in Path(held.directory).glob("*.[sj]*")} == {other.tab}
    assert sweep_terminals(held.directory) == []
    with pytest.raises(NotReachable):
        Client(held.directory, terminal.tab)
    with held.watch(other) as view:
        view.attach()
        view.client.type(b"echo al''ive\n")
        view.wait_text(b"alive")


def test_a_record_of_another_process_under_the_same_number_is_not_believed(held):
    terminal = held.start(BASH)
    record = Path(held.directory, f"{terminal.tab}.json")
    ticks = str(terminal.holder.start_ticks)
    record.write_text(record.read_text().replace(ticks, str(terminal.holder.start_ticks + 1)))
    assert find_terminal(held.directory, terminal.tab).standing is Standing.LOST


def test_records_of_other_hosts_and_namespaces_are_kept(held):
    terminal = held.start(BASH)
    record = Path(held.directory, f"{terminal.tab}.json")
    text = record.read_text()
    for old, new in ((os.uname().nodename, "elsewhere"), (str(terminal.holder.pid_ns), "7")):
        record.write_text(text.replace(old, new))
        assert find_terminal(held.directory, terminal.tab).standing is Standing.ELSEWHERE
        assert sweep_terminals(held.directory) == []
        assert record.exists()


def test_a_damaged_record_is_nobodys_evidence_and_harms_no_other(held):
    terminal = held.start(BASH)
    for name, data in (("0" * 16, b"{"), ("1" * 16, b"\xff\xfe"), ("2" * 16, b"[" * 9000)):
        Path(held.directory, f"{name}.json").write_bytes(data)
    os.mkfifo(Path(held.directory, f"{'3' * 16}.json"))
    Path(held.directory, "notes.json").write_text("mine")
    assert [one.tab for one in list_terminals(held.directory)] == [terminal.tab]
    assert sweep_terminals(held.directory) == []
    assert Path(held.directory, "notes.json").exists()


def test_the_exit_status_stays_until_it_was_seen(held):
    terminal = held.start(["/bin/sh", "-c", "exit 5"])
    wait_until(lambda: find_terminal(held.directory, terminal.tab).status == 5, "its end")
    kill(terminal.holder)
    wait_until(lambda: is_gone(terminal.holder), "the holder's end")
    sweep_terminals(held.directory)
    (one,) = list_terminals(held.directory)
    assert (one.standing, one.status, one.holder, one.child) == (Standing.ENDED, 5, None, terminal.child)
    forget_terminal(held.directory, terminal.tab)
    assert list(Path(held.directory).iterdir()) == []


def test_another_user_is_refused(held):
    terminal = held.start(BASH)
    os.chmod(held.directory, 0o755)  # even if somebody opens the directory
    os.chmod(Path(held.directory, f"{terminal.tab}.sock"), 0o777)
    for parent in Path(held.directory).parents[:3]:
        os.chmod(parent, 0o755)
    probe = (
        "import os, socket, sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "try: s.sendall(bytes.fromhex(sys.argv[2])); print(s.recv(100))\n"
        "except OSError: print(b'')\n"
    )
    from corral.model.frames import Hello
    from corral.terminals.protocol import encode

    folder = os.open(held.directory, os.O_RDONLY)
    path = f"/proc/self/fd/{folder}/{terminal.tab}.sock"
    words = [sys.executable, "-c", probe, path, encode(Hello()).hex()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, pass_fds=[folder])
    os.close(folder)
    assert (done.stdout, done.stderr) == ("b''\n", "")
    assert "user 65534 was refused" in Path(held.directory, f"{terminal.tab}.log").read_text()


def test_a_directory_that_others_may_enter_is_not_used(held):
    os.mkdir(held.directory, 0o755)
    with pytest.raises(StartFailed, match="0700"):
        held.start(BASH)


def test_viewers_that_never_read_hold_nobody_up_and_cost_little(held):
    terminal = held.start(["/usr/bin/yes", "a line that goes on and on and on and on"])
    stalled = [Client(held.directory, terminal.tab) for _ in range(50)]
    for client in stalled:
        client.attach(None, 80, 24)
    with held.watch(terminal) as view:
        view.attach(None)
        start = view.next_offset or 0
        view.wait(lambda: (view.next_offset or 0) > start + (20 << 20), "20 MiB of output", 60)
        assert pss_bytes(terminal.holder.pid) < 24 << 20
        view.client.type(b"\x03")
        assert view.wait_frame(Exit, 60).status == -signal.SIGINT
    for client in stalled:
        client.close()


def test_a_viewer_that_stalled_gets_a_gap_and_goes_on_exactly(held):
    terminal = held.start([sys.executable, "-c", "for n in range(10**8): print(f'{n:07d}')"])
    with held.watch(terminal) as view, held.watch(terminal) as other:
        view.attach(None)
        other.attach(None)
        other.wait(lambda: (other.next_offset or 0) > 6 << 20, "6 MiB of output elsewhere", 60)
        gap = view.wait_frame(Gap, 60)
        had = len(view.output)
        view.wait(lambda: len(view.output) > had + 100_000, "more after the gap")
        # The program's own offsets say which number stands where.
        after = bytes(view.output[had : had + 90_000])
        assert (
            after
            == b"".join(b"%07d\r\n" % n for n in range(gap.end // 9, gap.end // 9 + 11_000))[gap.end % 9 :][:90_000]
        )


def test_a_slow_viewer_that_is_seen_gets_every_byte(held):
    count = 300_000
    program = f"for n in range({count}): print(f'{{n:07d}}')\nprint('done', flush=True); input()"
    terminal = held.start([sys.executable, "-c", program])
    with held.watch(terminal) as view:
        view.attach(0)
        while b"done" not in view.output:
            view.wait_more(60_000, unless=b"done")
            time.sleep(0.005)
        assert view.last(Gap) is None
        assert bytes(view.output) == b"".join(b"%07d\r\n" % n for n in range(count)) + b"done\r\n"


def test_a_viewer_that_nobody_sees_never_holds_the_program_back(held):
    # It waits until both are there: what came before that is shown as a picture, if there is much of it.
    program = "input(); print('x' * 30_000_000); print('done', flush=True); input()"
    terminal = held.start([sys.executable, "-c", program])
    with held.watch(terminal) as hidden, held.watch(terminal) as view:
        hidden.attach(None, visible=False)
        view.attach(None)
        view.client.type(b"\r")
        view.wait_offset(30_000_000 + len("\r\n\r\ndone\r\n"))
        frames = [frame for frame in view.frames if isinstance(frame, Output)]
        assert sum(len(frame.data) for frame in frames) >= 30_000_000


@pytest.mark.parametrize(
    ("trap", "status"),
    [("", -signal.SIGHUP), ("trap '' HUP;", -signal.SIGTERM), ("trap '' HUP TERM;", -signal.SIGKILL)],
    ids=["HUP", "TERM", "KILL"],
)
def test_a_program_is_ended_step_by_step(held, trap, status):
    terminal = held.start(["/bin/sh", "-c", f"{trap} echo ready; while :; do sleep 0.1; done"])
    with held.watch(terminal) as view:
        view.attach()
        view.wait_text(b"ready")
        view.client.end()
        view.client.end()
        assert view.wait_frame(Exit, 40).status == status
    log = Path(held.directory, f"{terminal.tab}.log").read_text()
    assert [word for word in log.split() if word.startswith("SIG")] == ["SIGHUP", "SIGTERM", "SIGKILL"][
        : log.count("SIG")
    ]


def test_a_stopped_program_is_ended_too(held):
    terminal = held.start(["/bin/sh", "-c", "echo ready; kill -STOP $$; sleep 60"])
    with held.watch(terminal) as view:
        view.attach()
        view.wait_text(b"ready")
        view.client.end()
        assert view.wait_frame(Exit).status == -signal.SIGHUP


def limit_descriptors(terminal: Started, spared: bool) -> None:
    """So that no more fit: with the spare one below the limit, as it is in life, or not even that."""
    fds = sorted(int(fd) for fd in os.listdir(f"/proc/{terminal.holder.pid}/fd"))
    free = next(fd for fd in range(fds[-1] + 2) if fd not in fds)
    hard = resource.prlimit(terminal.holder.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(terminal.holder.pid, resource.RLIMIT_NOFILE, (free if spared else 6, hard))


@pytest.mark.parametrize("spared", [True, False])
def test_without_descriptors_old_viewers_stay_and_new_ones_are_closed(held, spared):
    terminal = held.start(BASH)
    with held.watch(terminal) as view:
        view.attach()
        limit_descriptors(terminal, spared)
        log = Path(held.directory, f"{terminal.tab}.log")
        with connect(held.directory, terminal.tab) as waiting:
            begun = time.monotonic()
            waiting.settimeout(WAIT_SECONDS)
            wait_until(lambda: "could not be accepted" in log.read_text(), "the log to tell")
            view.client.type(b"echo al''ive\n")
            view.wait_text(b"alive")
            if spared:
                assert waiting.recv(1) == b""
            # It does not spin on a connection that it can't take: it tries again every second.
            told = log.read_text().count("could not be accepted")
            assert told <= 3 + time.monotonic() - begun
        hard = resource.prlimit(terminal.holder.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(terminal.holder.pid, resource.RLIMIT_NOFILE, (hard, hard))
        wait_until(lambda: _reaches(held, terminal), "room for another")


def test_a_sixty_fifth_viewer_is_told_that_there_are_too_many(held):
    terminal = held.start(BASH)
    viewers = [Client(held.directory, terminal.tab) for _ in range(64)]
    with pytest.raises(NotReachable, match="64 viewers"):
        Client(held.directory, terminal.tab)
    viewers.pop().close()
    wait_until(lambda: _reaches(held, terminal), "room for another")
    for client in viewers:
        client.close()


def _reaches(held, terminal) -> bool:
    try:
        Client(held.directory, terminal.tab).close()
    except NotReachable:
        return False
    return True


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "tmpfs", place], check=True, timeout=60)
    yield place
    subprocess.run(["umount", "-l", place], check=True, timeout=60)


@pytest.fixture
def held_on_small_disk(small_disk):
    yield from holding(small_disk / "terminals")


def test_a_full_disk_does_not_end_a_program_and_its_status_is_kept_when_there_is_room(small_disk, held_on_small_disk):
    held = held_on_small_disk
    terminal = held.start(BASH)
    filler = small_disk / "filler"
    with open(filler, "wb", buffering=0) as file, pytest.raises(OSError, match="space"):
        while True:
            file.write(b"x" * 4096)
    with pytest.raises(StartFailed, match="space"):
        held.start(BASH)
    with held.watch(terminal) as view:
        view.attach()
        view.client.type(b"echo al''ive\n")
        view.wait_text(b"alive")
        view.client.type(b"exit 6\n")
        assert view.wait_frame(Exit).status == 6
        filler.unlink()
        view.client.resize(90, 30)  # anything that wakes it
        wait_until(lambda: Path(held.directory, f"{terminal.tab}.exit").exists(), "the exit status")
    assert find_terminal(held.directory, terminal.tab).status == 6


def test_the_log_is_bounded(held):
    terminal = held.start(BASH)
    log = Path(held.directory, f"{terminal.tab}.log")
    log.write_bytes(b"x" * (1 << 17))
    with held.watch(terminal) as view:
        view.attach()
        view.client.type(b"exit\n")
        view.wait_frame(Exit)
    wait_until(lambda: 0 < log.stat().st_size < 1000, "a new beginning")


def test_files_are_for_the_user_alone(held):
    held.start(BASH)
    assert os.stat(held.directory).st_mode & 0o777 == 0o700
    assert {os.lstat(path).st_mode & 0o077 for path in Path(held.directory).iterdir() if path.suffix != ".sock"} == {0}


def test_a_quiet_terminal_is_small(held):
    terminal = held.start(["/bin/cat"], env=ENV)
    with held.watch(terminal) as view:
        view.attach()
        view.client.type(b"hello\n")
        view.wait_text(b"hello\r\nhello")
        assert pss_bytes(terminal.holder.pid) < 12 << 20


def test_connections_that_say_nothing_lock_no_terminal(tmp_path):
    """As many as a terminal has viewers, and more; then somebody comes who speaks."""
    directory = str(tmp_path / "terminals")
    started = start_terminal(directory, ("/bin/cat",), cwd="/", env={"PATH": "/usr/bin:/bin"})
    silent: list[socket.socket] = []
    folder = os.open(directory, os.O_RDONLY)
    try:
        for _ in range(2 * MOST_VIEWERS):
            one = socket.socket(socket.AF_UNIX)
            one.connect(f"/proc/self/fd/{folder}/{started.tab}.sock")
            one.settimeout(60)
            silent.append(one)
        with Client(directory, started.tab) as client:
            assert client.ask().fields["tab"] == started.tab
        for one in silent:
            assert one.recv(1) == b"", "those who said nothing are let go of, at the latest by their deadline"
    finally:
        os.close(folder)
        for one in silent:
            one.close()
        for identity in (started.child, started.holder):
            kill(identity)
