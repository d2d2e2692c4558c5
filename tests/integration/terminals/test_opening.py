"""Opening a session in a terminal: what would be started is asked about, and a no leaves nothing behind."""

from __future__ import annotations

import os

import pytest
from msgspec import structs

from corral.demo.conversation import Home, Session, take_turn
from corral.model.key import SessionKey
from corral.model.refusal import RefusedError
from corral.model.restore import Refusal, Refused
from corral.model.tab import Agreement
from corral.sessions.naming import find_session
from corral.state.launches import Launches
from corral.tabs.start import Starting
from corral.terminals.directory import list_terminals


@pytest.fixture
def key(world, monkeypatch):
    """An idle session in this world, which is this process's own."""
    for variable, value in world.env.items():
        monkeypatch.setenv(variable, value)
    home = Home(world.root / ".kimi", str(world.work))
    assert home.prepare() is None
    session = Session(home, "00000000-0000-4000-8000-000000000001").create("Idle")
    take_turn(session, "hello")
    home.register(session.id)
    return find_session(f"kimi-cli:{session.id}").key


def resume(key: SessionKey, agree, said: list[str]) -> str:
    with Starting(key, "it is not resumed", agree=agree, report=said.append) as starting:
        return starting.resume_in_terminal(starting.look(), (80, 24), None)


def test_the_directory_is_agreed_to_or_nothing_is_left_behind(world, key):
    asked: list[Refused] = []

    def refuse(question: Refused) -> bool:
        asked.append(question)
        return False

    with pytest.raises(RefusedError) as raised:
        resume(key, refuse, [])
    assert [one.reason for one in asked] == [Refusal.ASK_TRUST] and str(world.work) in asked[0].message
    assert raised.value.refused == asked[0]
    assert list_terminals(str(world.state / "terminals")) == []
    assert resume(key, Agreement(trust=True), [])  # nobody holds its lease any more


def test_it_is_looked_at_again_after_a_wait_for_its_turn(world, key):
    """Whoever had the turn may have changed what is true: here, the person is asked a second time."""
    turn = Launches(str(world.state)).lock_home(key, 0.0)
    assert turn is not None

    asked: list[Refusal] = []
    said: list[str] = []

    def agree(question: Refused) -> bool:
        asked.append(question.reason)
        return len(asked) == 1

    def hear(text: str) -> None:
        said.append(text)
        os.close(turn)

    with (
        pytest.raises(RefusedError),
        Starting(key, "it is not resumed", agree=agree, report=hear) as starting,
    ):
        starting.resume_in_terminal(starting.look(), (80, 24), None)
    assert asked == [Refusal.ASK_TRUST] * 2
    assert said == ["waiting: Kimi CLI can't be started twice at once"]
    assert list_terminals(str(world.state / "terminals")) == []


def test_what_is_gone_is_said_to_be_gone(world, key):
    other = structs.replace(key, session_id="00000000-0000-4000-8000-000000000002")
    with pytest.raises(RefusedError) as raised:
        resume(other, Agreement(trust=True), [])
    assert raised.value.refused.reason is Refusal.NO_SUCH_SESSION and raised.value.exit_code == 4


def test_two_starts_of_one_session_are_one_too_many(world, key):
    with (
        Starting(key, "it is not resumed", agree=Agreement(), report=print),
        pytest.raises(RefusedError, match="another corral") as raised,
    ):
        resume(key, Agreement(trust=True), [])
    assert raised.value.refused.reason is Refusal.ALREADY_LIVE
