"""What the machine tells about itself: every process, the host, mounts; and signals that miss strangers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from corral.machine.host import is_on_network, parse_mountinfo, read_host_facts
from corral.machine.probe import NotSent, Sent, probe, send_signal
from corral.machine.processes import ProcessTable
from corral.model.process import ProcessState
from tests.integration.liveness.machine import NOBODY, identity_of, need, need_root, running, wait_until


def test_every_process_of_the_machine_can_be_asked_everything() -> None:
    table = ProcessTable()
    now = time.time()
    assert table.find(os.getpid()) is not None
    for process in table:
        assert process.comm and len(process.state) == 1
        assert table.boot_offset - 1 < process.started_at < now + 1
        assert process.identity is None or process.identity.start_ticks == process.start_ticks
        assert isinstance(process.arguments, tuple) and isinstance(process.environ, dict)
        assert process.terminal is None or process.terminal.startswith("/dev/pts/")
        list(process.descriptors()), list(process.mapped_files())
        assert process.pid not in [each.pid for each in table.ancestors(process)]


def test_the_table_and_a_look_agree_on_who_a_process_is() -> None:
    host = read_host_facts()
    compared: set[int] = set()
    for process in ProcessTable():
        before = _look(process.pid)
        identity, uid = process.identity, process.uid
        if before != _look(process.pid):
            continue  # it ended meanwhile, or became another user's
        state, pid_ns, start_ticks, owner = before
        if state in (ProcessState.RUNNING, ProcessState.KERNEL) and identity is not None:
            assert (pid_ns, start_ticks) == (identity.pid_ns, process.start_ticks)
            assert owner == uid
            assert identity.boot_id == host.boot_id
            compared.add(process.pid)
    assert os.getpid() in compared


def _look(pid: int) -> tuple[ProcessState, int | None, int | None, int | None]:
    facts = probe(pid, time.time())
    return facts.state, facts.pid_ns, facts.start_ticks, facts.uid


def test_own_process_as_others_would_see_it() -> None:
    own = ProcessTable().find(os.getpid())
    assert own is not None
    assert own.cwd == os.getcwd() and own.uid == os.geteuid() and own.parent_pid == os.getppid()
    assert own.program == os.path.realpath(sys.executable)
    assert own.environ.get("PATH") == os.environ.get("PATH")


def test_descendants_are_found_through_all_generations() -> None:
    script = "sh -c 'sleep 300 & echo ready; wait'; true"
    with running(need("sh"), "-c", script, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        try:
            # The shell says so before its child has become `sleep`.
            wait_until(lambda: _names_below(child.pid) == ["sh", "sleep"], "the grandchild starts")
        finally:
            for process in reversed(list(ProcessTable().descendants(child.pid))):
                if process.identity is not None:
                    send_signal(process.identity, signal.SIGKILL)
    assert list(ProcessTable().descendants(4_194_000)) == []


def _names_below(pid: int) -> list[str]:
    return [process.comm for process in ProcessTable().descendants(pid)]


def test_another_users_process_has_an_identity_without_privileges() -> None:
    """A user may not read the namespace of root's processes; their numbers say that it is the same."""
    need_root()
    reader, writer = os.pipe()
    parent = os.getpid()
    expected = identity_of(parent)
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        seen = probe(parent, time.time()).pid_ns == expected.pid_ns and identity_of(parent) == expected
        os.write(writer, b"same" if seen else b"other")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 10) == b"same"
    os.close(reader)


def test_a_signal_reaches_the_very_process() -> None:
    with running() as child:
        identity = identity_of(child.pid)
        assert send_signal(identity, signal.SIGTERM) == Sent(identity)
        assert child.wait(60) == -signal.SIGTERM
        assert isinstance(send_signal(identity, signal.SIGTERM), NotSent)


def test_a_signal_reaches_nobody_when_the_identity_is_another() -> None:
    with running() as child:
        identity = identity_of(child.pid)
        strangers = [
            identity._replace(start_ticks=identity.start_ticks - 1),
            identity._replace(boot_id="another"),
            identity._replace(boot_id=""),
            identity._replace(pid_ns=1),
        ]
        for stranger in strangers:
            assert isinstance(send_signal(stranger, signal.SIGKILL), NotSent)
        assert isinstance(send_signal(identity, 4096), NotSent)
        assert child.poll() is None
        os.kill(child.pid, signal.SIGKILL)
        wait_until(lambda: probe(child.pid, None).state is ProcessState.ZOMBIE, "the process ends")
        assert isinstance(send_signal(identity, signal.SIGKILL), NotSent)


def test_network_filesystems_are_told_from_local_ones() -> None:
    table = parse_mountinfo(
        "36 35 98:0 / / rw,noatime shared:1 - ext4 /dev/root rw\n"
        "37 36 0:45 / /home rw - nfs4 server:/home rw,vers=4.2\n"
        "38 36 0:46 / /mnt/my\\040share rw master:2 - fuse.sshfs host:/x rw\n"
        "39 36 0:47 / /tmp rw - tmpfs tmpfs rw\n"
        "a line of another shape\n"
    )
    assert table == {
        os.makedev(98, 0): False,
        os.makedev(0, 45): True,
        os.makedev(0, 46): True,
        os.makedev(0, 47): False,
    }
    assert not is_on_network("/proc") and not is_on_network("/does/not/exist") and not is_on_network("\0")


def test_on_another_platform_the_answer_is_unknown_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    for pid in (os.getpid(), 1, 0, -1, 2**40):
        assert probe(pid, time.time()).state is ProcessState.NO_PROC
    assert read_host_facts().pid_ns_is_initial
    assert isinstance(send_signal(identity_of(os.getpid()), 0), NotSent)


def test_numbers_that_are_no_pids_are_gone_and_nothing_fails() -> None:
    for pid in (0, -1, 2**31, 2**64):
        assert probe(pid, time.time()).state is ProcessState.GONE
