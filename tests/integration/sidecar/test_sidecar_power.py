"""What a power cut leaves: the image of a disk, copied right after a write, holds the new record whole."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corral import sidecar
from corral.sidecar import Refusal, RuntimeRecord


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The image of an empty ext4."""
    if shutil.which("mkfs.ext4") is None:
        pytest.fail("mkfs.ext4 is needed to make a disk: install the package e2fsprogs")
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-qF", str(image)], check=True)
    return image


def write(directory: Path, session_id: str) -> RuntimeRecord | Refusal:
    return sidecar.write(directory, session_id=session_id, work_dir="/w", cli="kimi-cli", version="1", best_effort=True)


def fill(path: Path) -> None:
    """Until not a byte fits any more, and the disk knows it."""
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1024, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                os.fsync(file.fileno())


def test_after_a_power_cut_the_record_is_there(mount: Callable[..., Path], disk: Path, tmp_path: Path):
    directory = mount("-o", "loop", source=str(disk), name="disk")
    for number in range(5):
        assert isinstance(write(directory, f"s{number}"), RuntimeRecord)
        copy = tmp_path / f"copy{number}.img"
        subprocess.run(["cp", "--sparse=always", str(disk), str(copy)], check=True)
        after = mount("-o", "loop", source=str(copy), name=f"after{number}")
        record = sidecar.read(after / "runtime.json")
        assert isinstance(record, RuntimeRecord) and record.session_id == f"s{number}"


def test_a_full_ext4_keeps_the_old_record(mount: Callable[..., Path], disk: Path):
    directory = mount("-o", "loop", source=str(disk), name="disk")
    write(directory, "old")
    before = (directory / "runtime.json").read_bytes()
    fill(directory / "filler")
    result = write(directory, "new")
    assert isinstance(result, Refusal) and result.code == "io:ENOSPC"
    assert (directory / "runtime.json").read_bytes() == before
    assert sorted(os.listdir(directory)) == ["filler", "lost+found", "runtime.json"]
