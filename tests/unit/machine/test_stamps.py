"""Stamps: the same by one process and by two, also when the child dies."""

from __future__ import annotations

import os
import threading

import pytest

from corral.machine import stamps
from corral.machine.stamps import FIELDS, Group, read_stamps, unpack


@pytest.fixture
def groups(tmp_path):
    for number in range(5):
        (tmp_path / f"bucket{number}").mkdir()
        for name in range(7):
            (tmp_path / f"bucket{number}" / f"file{name}").write_text("x" * name)
        (tmp_path / f"bucket{number}" / "link").symlink_to("file0")
    names = [*(f"file{name}" for name in range(7)), "link", "missing", "nul\0byte"]
    return [
        *(Group(str(tmp_path / f"bucket{number}"), names) for number in range(5)),
        Group(str(tmp_path / "gone"), names),
    ]


def look(groups):
    return [unpack(packed) for packed in read_stamps(groups, lambda: None)]


def plainly(groups):
    found = []
    for group in groups:
        numbers = []
        for name in group.names:
            try:
                seen = os.lstat(os.path.join(group.directory, name))
                numbers += [seen.st_mtime_ns, seen.st_size, seen.st_ino, seen.st_mode, seen.st_ctime_ns]
            except (OSError, ValueError):
                numbers += [-1] * FIELDS
        found.append(numbers)
    return found


def test_one_process_sees_what_is_there(groups):
    assert look(groups) == plainly(groups)


def test_two_processes_see_the_same(groups, monkeypatch):
    monkeypatch.setattr(stamps, "_WORTH_FORKING", 1)
    children = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: children.append(pid := fork()) or pid)
    monkeypatch.setattr(stamps, "may_fork", lambda: True)
    assert look(groups) == plainly(groups)
    assert len(children) == 1


def test_a_child_that_dies_is_made_up_for(groups, monkeypatch):
    monkeypatch.setattr(stamps, "_WORTH_FORKING", 1)
    monkeypatch.setattr(stamps, "may_fork", lambda: True)
    fork = os.fork

    def dying() -> int:
        pid = fork()
        if pid == 0:
            os._exit(9)
        return pid

    monkeypatch.setattr(os, "fork", dying)
    assert look(groups) == plainly(groups)


def test_a_process_with_threads_is_never_forked():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    assert not stamps.may_fork()
    stop.set()
    thread.join()


def test_nothing_to_look_at_is_nothing_seen():
    assert read_stamps([], lambda: None) == []
    assert read_stamps([Group("/", [])], lambda: None) == [b""]
