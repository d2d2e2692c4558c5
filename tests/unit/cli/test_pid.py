"""`corral pid`: what is said of numbers that no agent has."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from corral.cli.main import main

pytestmark = pytest.mark.usefixtures("own_directories")


@pytest.mark.parametrize("text", ["0", "-1", "abc", "", "4.5", "٣", "4194305", "9" * 5000])
def test_what_can_be_no_process_is_wrong_usage(text, capsys):
    with pytest.raises(SystemExit) as left:
        main(["pid", text])
    assert left.value.code == 2
    assert "is not a process id: a whole number from 1 to 4194304" in capsys.readouterr().err


def test_a_process_that_serves_nothing_and_one_that_is_gone_are_told_apart(capsys):
    assert main(["pid", str(os.getpid())]) == 4
    assert f"no verified claim names pid {os.getpid()}" in capsys.readouterr().err
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert main(["pid", str(ended.pid)]) == 4
    assert f"there is no process {ended.pid}" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["read", "check"])
def test_a_sidecar_that_is_not_there_is_told_in_words(action, tmp_path, capsys):
    assert main(["sidecar", action, str(tmp_path / "nowhere")]) == 4
    assert (
        capsys.readouterr().err == f"corral: {tmp_path}/nowhere can't be read: No such file or directory. [io:ENOENT]\n"
    )
