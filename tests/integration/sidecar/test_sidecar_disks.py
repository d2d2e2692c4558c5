"""Disks that are full, read-only or out of limits, for real: the old record stays and the caller goes on."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral import sidecar
from corral.sidecar import Refusal, RuntimeRecord, atomic

SOURCE = str(Path(sidecar.__file__).parents[2])


def write(directory: Path, session_id: str = "new") -> RuntimeRecord | Refusal:
    return sidecar.write(directory, session_id=session_id, work_dir="/w", cli="kimi-cli", version="1", best_effort=True)


def fill(directory: Path) -> None:
    """Until not a byte fits any more."""
    fd = os.open(directory / "filler", os.O_WRONLY | os.O_CREAT)
    for size in (4096, 1):
        try:
            while True:
                os.write(fd, b"x" * size)
        except OSError:
            continue
    os.close(fd)


def assert_old_stays(directory: Path, before: bytes, code: str) -> None:
    result = write(directory)
    assert isinstance(result, Refusal) and result.code == code
    assert (directory / "runtime.json").read_bytes() == before
    assert not [name for name in os.listdir(directory) if name.endswith(".tmp")]


def test_a_disk_without_bytes(mount: Callable[..., Path]):
    directory = mount("-t", "tmpfs", "-o", "size=64k", source="tmpfs")
    write(directory, "old")
    before = (directory / "runtime.json").read_bytes()
    fill(directory)
    assert_old_stays(directory, before, "io:ENOSPC")
    (directory / "filler").unlink()
    assert isinstance(write(directory), RuntimeRecord)


def test_a_disk_without_inodes(mount: Callable[..., Path]):
    directory = mount("-t", "tmpfs", "-o", "size=64k,nr_inodes=20", source="tmpfs")
    write(directory, "old")
    before = (directory / "runtime.json").read_bytes()
    with pytest.raises(OSError):
        for number in range(30):
            (directory / str(number)).touch()
    assert_old_stays(directory, before, "io:ENOSPC")
    assert isinstance(sidecar.clear(directory, best_effort=True), type(None)), "clearing needs no space"


def test_a_read_only_disk(mount: Callable[..., Path], tmp_path: Path):
    real = tmp_path / "real"
    real.mkdir()
    write(real, "old")
    before = (real / "runtime.json").read_bytes()
    directory = mount("--bind", source=str(real), name="readonly")
    subprocess.run(["mount", "-o", "remount,ro,bind", str(directory)], check=True)
    assert_old_stays(directory, before, "io:EROFS")
    claim = sidecar.claim(directory, session_id="new", work_dir="/w", cli="kimi-cli", version="1")
    assert claim.problem is not None and claim.problem.code == "io:EROFS"
    problem = claim.release(remove=True)
    assert problem is not None and problem.code == "io:EROFS"
    assert (real / "runtime.json").read_bytes() == before


def test_a_device_that_is_always_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, "old")
    before = (tmp_path / "runtime.json").read_bytes()
    real = os.open

    def open_full(path: str, flags: int, *arguments: object, **keywords: object) -> int:
        fd = real(path, flags, *arguments, **keywords)  # type: ignore[arg-type]
        if flags & os.O_EXCL:
            full = real("/dev/full", os.O_WRONLY)
            os.dup2(full, fd, inheritable=False)
            os.close(full)
        return fd

    monkeypatch.setattr(atomic.os, "open", open_full)
    assert_old_stays(tmp_path, before, "io:ENOSPC")


LIMITED = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
from corral import sidecar
from corral.sidecar import processes
import fcntl
limit = getattr(resource, sys.argv[3])
resource.setrlimit(limit, (int(sys.argv[4]), resource.getrlimit(limit)[1]))
result = sidecar.write(sys.argv[2], session_id="new", work_dir="/w", cli="x", version="1", best_effort=True)
print(result.code if isinstance(result, sidecar.Refusal) else "ok")
"""


@pytest.mark.parametrize(
    ("limit", "value", "code"),
    [("RLIMIT_FSIZE", 100, "io:EFBIG"), ("RLIMIT_NOFILE", 3, "io:EMFILE"), ("RLIMIT_NOFILE", 4, "io:EMFILE")],
)
def test_a_process_at_its_limits(tmp_path: Path, limit: str, value: int, code: str):
    assert hasattr(resource, limit)
    dead = subprocess.Popen(["sleep", "60"])
    sidecar.write(tmp_path, session_id="old", work_dir="/w", cli="x", version="1", process=dead.pid)
    dead.kill()
    dead.wait()
    before = (tmp_path / "runtime.json").read_bytes()
    command = [sys.executable, "-I", "-c", LIMITED, SOURCE, str(tmp_path), limit, str(value)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.strip() == code, (done.stdout, done.stderr)
    assert (tmp_path / "runtime.json").read_bytes() == before and os.listdir(tmp_path) == ["runtime.json"]


def test_a_directory_of_another_user(tmp_path: Path):
    if os.geteuid() != 0:
        pytest.fail("changing the user needs root: run these tests as root")
    write(tmp_path, "old")
    before = (tmp_path / "runtime.json").read_bytes()
    tmp_path.chmod(0o755)
    inside = os.open(tmp_path, os.O_RDONLY)
    here = os.open(".", os.O_RDONLY)
    try:
        os.fchdir(inside)
        os.seteuid(65534)
        result = sidecar.write(".", session_id="new", work_dir="/w", cli="x", version="1", best_effort=True)
    finally:
        os.seteuid(0)
        os.fchdir(here)
        os.close(here)
        os.close(inside)
    assert isinstance(result, Refusal) and result.code == "io:EACCES"
    assert (tmp_path / "runtime.json").read_bytes() == before
    assert json.loads(before)["session_id"] == "old"
