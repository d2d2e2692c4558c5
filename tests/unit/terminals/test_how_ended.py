"""How a program ended: in words that a person can use."""

from __future__ import annotations

import pytest

from corral.terminals.directory import say_end


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "ended"),
        (0, "ended with exit status 0"),
        (3, "ended with exit status 3"),
        (127, "ended with exit status 127 (usually: a program was not found)"),
        (-1, "ended by signal 1 (SIGHUP): it was hung up"),
        (-11, "ended by signal 11 (SIGSEGV): it crashed"),
        (-13, "ended by signal 13 (SIGPIPE)"),
        (-63, "ended by signal 63"),
    ],
)
def test_each_end_has_its_words(status, words):
    assert say_end(status) == words
