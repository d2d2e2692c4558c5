"""Locks: one holder at a time, also while somebody sweeps them away."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time

from corral.state.locks import sweep_locks, take_lock

FAR = 4e9
SWEPT_IN_BETWEEN = """
import fcntl, os, sys
from corral.state.locks import take_lock
path = os.path.join(sys.argv[1], "one")
others = []

def sweep_and_take_it_first(event, _):
    if event == "fcntl.flock" and not others:
        others.append(-1)
        os.unlink(path)
        others.append(os.open(path, os.O_RDWR | os.O_CREAT))
        fcntl.flock(others[1], fcntl.LOCK_EX)

sys.addaudithook(sweep_and_take_it_first)  # called when the file is open, and before it is locked
print(take_lock(sys.argv[1], "one"), len(others))
"""


def test_an_old_lock_that_nobody_holds_is_swept(tmp_path):
    locks = str(tmp_path / "locks")
    fd = take_lock(locks, "one")
    assert fd is not None
    path = tmp_path / "locks" / "one"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    sweep_locks(locks, before=FAR)
    assert path.exists(), "held"
    os.close(fd)
    sweep_locks(locks, before=time.time() - 60)
    assert path.exists(), "young"
    sweep_locks(locks, before=FAR)
    assert not path.exists()


def test_taking_a_lock_makes_it_young(tmp_path):
    locks = str(tmp_path / "locks")
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "one").touch()
    os.utime(tmp_path / "locks" / "one", (1, 1))
    fd = take_lock(locks, "one")
    assert fd is not None
    os.close(fd)
    sweep_locks(locks, before=time.time() - 60)
    assert (tmp_path / "locks" / "one").exists()


def test_a_lock_on_a_file_that_was_swept_meanwhile_is_not_believed(tmp_path):
    words = [sys.executable, "-c", SWEPT_IN_BETWEEN, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("None 2\n", "")


def test_what_is_no_lock_and_no_directory_at_all_disturb_nobody(tmp_path):
    sweep_locks(str(tmp_path / "nowhere"), before=FAR)
    (tmp_path / "locks" / "deep").mkdir(parents=True)
    os.symlink("/nowhere", tmp_path / "locks" / "link")
    sweep_locks(str(tmp_path / "locks"), before=FAR)
    assert sorted(os.listdir(tmp_path / "locks")) == ["deep", "link"]
