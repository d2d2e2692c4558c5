"""Opening a session in a terminal: what would be started is asked about, and a no leaves nothing behind."""

from __future__ import annotations

import pytest

from corral.demo.conversation import Home, Session, take_turn
from corral.engine.opening import open_resumed
from corral.terminals.directory import list_terminals


class No(Exception):
    """The person does not agree."""


@pytest.fixture
def name(world, monkeypatch):
    """An idle session in this world, which is this process's own."""
    for variable, value in world.env.items():
        monkeypatch.setenv(variable, value)
    home = Home(world.root / ".kimi", str(world.work))
    assert home.prepare() is None
    session = Session(home, "00000000-0000-4000-8000-000000000001").create("Idle")
    take_turn(session, "hello")
    home.register(session.id)
    return f"kimi-cli:{session.id}"


@pytest.mark.parametrize("times", [1, 2])
def test_the_directory_is_agreed_to_before_and_after_the_wait_for_a_turn(world, name, times):
    asked: list[str] = []

    def agree(work_dir: str) -> None:
        asked.append(work_dir)
        if len(asked) == times:
            raise No

    words = {"anyway": False, "size": (80, 24), "tell": lambda text: None}
    with pytest.raises(No):
        open_resumed(name, **words, agree=agree)
    assert asked == [str(world.work)] * times
    assert list_terminals(str(world.state / "terminals")) == []
    assert open_resumed(name, **words).child.pid  # nobody holds its lease any more
