"""What the README says corral never does: a listing runs no agent, writes nothing of an agent's, and calls nobody."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.providers.kimi_support import picture

FIXTURES = Path(__file__).resolve().parents[2] / "providers" / "fixtures"
HOMES = {".kimi": "kimi-cli", ".kimi-code": "kimi-code", ".qwen": "qwen-code/home"}
LISTINGS = [
    ["ps", "--all"],
    ["ps", "--all", "--json"],
    ["ps", "--all", "--usage"],
    ["show", "{session}"],
    ["explain", "{session}"],
    ["usage", "--by", "model"],
    ["usage", "--check"],
    ["sql", "select count(*) from usage_events"],
    ["statusline"],
    ["top", "--once"],
    ["terminals"],
    ["prices"],
    ["hooks", "status"],
    ["doctor"],
]


class Place:
    """A HOME with sessions of every CLI, whose programs leave a mark when they are run."""

    def __init__(self, root: Path) -> None:
        self.root, self.home, self.mark = root, root / "home", root / "mark"
        for name, fixture in HOMES.items():
            shutil.copytree(FIXTURES / fixture, self.home / name)
        programs = root / "bin"
        programs.mkdir()
        for name in ("kimi", "qwen"):
            (programs / name).write_text(f"#!/bin/sh\necho $0 >> '{self.mark}'\n")
            (programs / name).chmod(0o755)
        self.env = {"HOME": str(self.home), "PATH": f"{programs}:/usr/bin:/bin", "LANG": "C.UTF-8"}
        state = next(self.home.glob(".kimi-code/sessions/*/*/state.json"))
        self.session = f"kimi-code@{self.home}/.kimi-code:{state.parent.parent.name}/{state.parent.name}"

    def trace(self, words: list[str]) -> str:
        """The programs that a command runs, and the addresses that it calls."""
        found = shutil.which("strace")
        if found is None:
            pytest.fail("strace is needed to see what corral calls: install the package strace")
        told = self.root / "trace"
        watch = [found, "-f", "-qq", "-o", str(told), "-e", "trace=execve,connect,sendto,sendmsg"]
        argv = [sys.executable, "-m", "corral", *(word.format(session=self.session) for word in words)]
        done = subprocess.run([*watch, *argv], env=self.env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return told.read_text()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("never"))


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_a_listing_writes_nothing_of_an_agent_s_and_calls_nobody(place: Place, words: list[str]) -> None:
    before = {name: picture(place.home / name) for name in HOMES}
    place.mark.unlink(missing_ok=True)
    trace = place.trace(words)
    assert trace.count("execve(") >= 1, "it was watched"
    assert not re.search(r"AF_INET", trace), trace
    assert {name: picture(place.home / name) for name in HOMES} == before
    if words[0] == "ps":
        assert trace.count("execve(") == 1 and not place.mark.exists(), "it ran a program"
