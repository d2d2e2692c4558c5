"""What these tests need from the machine: root, mount and strace. What is missing is a failure, no skip."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral import sidecar

SOURCE = str(Path(sidecar.__file__).parents[2])


@pytest.fixture(scope="session")
def strace() -> str:
    """The path of strace."""
    found = shutil.which("strace")
    if found is None:
        pytest.fail("strace is needed to let single system calls fail: install the package strace")
    return found


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mount something on a new directory for the length of a test."""
    if os.geteuid() != 0:
        pytest.fail("mounting needs root (CAP_SYS_ADMIN): run these tests as root")
    if shutil.which("mount") is None:
        pytest.fail("mount is needed: install the package mount (util-linux)")
    mounted: list[Path] = []

    def add(*arguments: str, source: str, name: str = "mounted") -> Path:
        place = tmp_path / name
        place.mkdir(exist_ok=True)
        subprocess.run(["mount", *arguments, source, str(place)], check=True)
        mounted.append(place)
        return place

    yield add
    for place in reversed(mounted):
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def environment() -> dict[str, str]:
    """An environment in which a child imports this very corral and behaves alike each time."""
    return os.environ | {"PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
