"""What the shell is offered: commands, the options of one, and names that only corral knows."""

from __future__ import annotations

import pytest

from corral.cli.main import main

pytestmark = pytest.mark.usefixtures("own_directories")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["us"], ["usage"]),
        (["ps", "--st"], ["--state"]),
        (["ps", "-p", "kimi"], ["kimi-cli", "kimi-code"]),
        (["hooks", "in"], ["install"]),
        (["hooks", "install", "qwen"], ["qwen-code"]),
        (["sidecar", "c"], ["check", "clear"]),
        (["sidecar", "write", "--w"], ["--work-dir"]),
        (["nonsense", ""], []),
    ],
)
def test_the_last_word_is_completed_from_those_before_it(typed, offered, capsys):
    assert main(["completion", "words", "--", *typed]) == 0
    assert capsys.readouterr().out.split() == offered
