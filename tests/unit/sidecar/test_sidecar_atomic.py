"""Atomic replacement: what is on disk after success, after failure, and after somebody else's death."""

import errno
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.sidecar import atomic, processes
from corral.sidecar.atomic import Directory, replace, sweep, temp_name
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import LinuxPlatform, own_identity

OWN = own_identity()
assert OWN is not None


@pytest.fixture(params=["by descriptor", "by path"])
def directory(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Directory:
    """An open directory; also as on Windows, where descriptors of directories are not to be had."""
    if request.param == "by path":
        monkeypatch.setattr(os, "supports_dir_fd", set())
    return Directory(str(tmp_path))


def dead_identity() -> ProcessIdentity:
    child = subprocess.Popen(["sleep", "60"])
    identity = processes.read_identity(child.pid)
    child.kill()
    child.wait()
    assert identity is not None
    return identity


def test_the_file_is_private_and_exactly_the_bytes(directory: Directory, tmp_path: Path):
    replace(directory, "f", b"one", OWN)
    replace(directory, "f", b"two", OWN)
    assert os.listdir(tmp_path) == ["f"] and (tmp_path / "f").read_bytes() == b"two"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600


def test_a_directory_that_is_missing_or_none_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    for name in ("missing", "file"):
        with pytest.raises(OSError):
            Directory(str(tmp_path / name))
    monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(OSError):
        Directory(str(tmp_path / "file"))


def fail(monkeypatch: pytest.MonkeyPatch, name: str, error: int, times: int) -> Callable[[], int]:
    """Let the next `times` calls of os.<name> fail; returns how many calls there were."""
    real = getattr(os, name)
    calls = 0

    def call(*arguments: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise OSError(error, os.strerror(error))
        return real(*arguments, **keywords)

    monkeypatch.setattr(os, name, call)
    return lambda: calls


@pytest.mark.parametrize("error", [errno.EPERM, errno.EACCES, errno.EINTR])
def test_a_rename_that_is_refused_for_a_moment_is_tried_again(
    directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
):
    calls = fail(monkeypatch, "replace", error, 3)
    replace(directory, "f", b"new", OWN)
    assert (tmp_path / "f").read_bytes() == b"new" and calls() == 4


def test_a_rename_that_is_refused_for_good_leaves_the_old_file_and_no_temp(
    directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "f").write_bytes(b"old")
    calls = fail(monkeypatch, "replace", errno.EACCES, 99)
    with pytest.raises(PermissionError):
        replace(directory, "f", b"new", OWN)
    assert calls() == 4 and os.listdir(tmp_path) == ["f"] and (tmp_path / "f").read_bytes() == b"old"


@pytest.mark.parametrize("call", ["write", "fsync", "open"])
def test_a_failing_step_leaves_the_old_file_and_no_temp(
    directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
):
    (tmp_path / "f").write_bytes(b"old")
    fail(monkeypatch, call, errno.ENOSPC, 1)
    with pytest.raises(OSError):
        replace(directory, "f", b"new", OWN)
    assert os.listdir(tmp_path) == ["f"] and (tmp_path / "f").read_bytes() == b"old"


def test_short_writes_are_looped(directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    replace(directory, "f", b"0123456789" * 50, OWN)
    assert (tmp_path / "f").read_bytes() == b"0123456789" * 50


def test_a_write_without_progress_is_an_error_and_no_endless_loop(
    directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "write", lambda fd, data: 0)
    with pytest.raises(OSError):
        replace(directory, "f", b"new", OWN)
    assert os.listdir(tmp_path) == []


def test_a_link_planted_at_the_temp_name_is_not_followed(
    directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(os, "urandom", lambda count: b"\0" * count)
    planted = tmp_path / temp_name("f", OWN)
    planted.symlink_to(victim)
    with pytest.raises(FileExistsError):
        replace(directory, "f", b"new", OWN)
    assert victim.read_text() == "precious" and planted.is_symlink() and not (tmp_path / "f").exists()


def test_temps_of_the_dead_are_swept_and_no_others(directory: Directory, tmp_path: Path):
    dead = dead_identity()
    alive = processes.read_identity(os.getppid())
    assert alive is not None and OWN is not None
    gone = [
        temp_name("f", dead),
        temp_name("f", alive._replace(start_ticks=alive.start_ticks + 1)),
        temp_name("f", OWN),
    ]
    kept = [
        temp_name("f", alive),
        temp_name("g", dead),
        temp_name("f", dead._replace(pid_ns=7)),
        temp_name("f", dead._replace(boot_id="another-boot")),
        temp_name("f", None),
        temp_name("f", dead).replace(temp_name("f", dead).split("-")[0], ".f.00000000"),
        f".f.{'9' * 8}-{OWN.boot_id.replace('-', '')}-1-1.{'0' * 16}.tmp",
        temp_name("f", OWN._replace(pid=0)),
        temp_name("f", OWN._replace(pid_ns=10**21)),
        temp_name("f", OWN) + "x",
        temp_name("f", OWN).replace(".tmp", "0.tmp"),
        temp_name("f", OWN).replace(str(OWN.pid), "²"),
        "f.tmp",
        ".f.tmp",
        ".f.1.tmp",
        "notes",
    ]
    for name in gone + kept:
        (tmp_path / name).write_text("x")
    assert sorted(sweep(directory, "f")) == sorted(gone)
    assert sorted(os.listdir(tmp_path)) == sorted(kept)


def test_a_temp_of_an_earlier_boot_is_swept_once_it_is_older_than_this_one(directory: Directory, tmp_path: Path):
    assert OWN is not None
    name = temp_name("f", OWN._replace(boot_id="earlier-boot"))
    (tmp_path / name).write_text("x")
    assert sweep(directory, "f") == []
    before = (LinuxPlatform().booted_at() or 0) - 60
    os.utime(tmp_path / name, (before, before))
    assert sweep(directory, "f") == [name]


def test_a_temp_that_this_process_writes_just_now_is_not_swept(directory: Directory, tmp_path: Path):
    name = temp_name("f", OWN)
    (tmp_path / name).write_text("x")
    atomic._in_flight.add(name)
    try:
        assert sweep(directory, "f") == []
    finally:
        atomic._in_flight.discard(name)


def test_a_directory_of_a_temps_name_stays_and_nothing_is_raised(directory: Directory, tmp_path: Path):
    name = temp_name("f", dead_identity())
    (tmp_path / name).mkdir()
    assert sweep(directory, "f") == []
    assert (tmp_path / name).is_dir()


def test_two_writers_exclude_each_other_and_a_stuck_one_only_delays(tmp_path: Path):
    with Directory(str(tmp_path)) as first, Directory(str(tmp_path)) as second:
        assert first.lock()
        assert not second.lock()
    with Directory(str(tmp_path)) as third:
        assert third.lock()


def test_names_are_resolved_beneath_the_opened_directory(tmp_path: Path):
    (tmp_path / "a").mkdir()
    with Directory(str(tmp_path / "a")) as directory:
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").mkdir()
        replace(directory, "f", b"x", OWN)
    assert (tmp_path / "b" / "f").exists() and not (tmp_path / "a" / "f").exists()
