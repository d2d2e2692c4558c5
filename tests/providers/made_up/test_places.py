"""A CLI whose home is several directories, which refuses some resumes and destroys a file in others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec import structs

from corral.errors import CorralError
from corral.model.key import Home
from corral.model.known import Known
from corral.model.record import Exchange, SessionRecord
from corral.model.restore import Program, Refusal, Refused, Resume
from corral.providers.contract import Environment, Provider, Transcript
from corral.sessions import read_last_exchanges, report_session
from corral.sessions.watched_places import WatchedPlaces
from corral.state.launches import Launches
from corral.tabs.start import keep_copies
from tests.providers.made_up.stage import CAPABILITIES, NAME, Stage, record

DATA, CONFIG = "data", "config"


def find_homes(env: Environment) -> list[Home]:
    """XDG: state in one place, data in another, the configuration in a third."""
    places = {
        name: env.variables.get(f"XDG_{name.upper()}_HOME", f"{env.home_dir}/.{name}") + f"/{NAME}"
        for name in (DATA, CONFIG)
    }
    return [Home(provider=NAME, path=f"{env.home_dir}/made-up", is_default=True, origin="default", places=places)]


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord]:
    for entry in os.scandir(home.places[DATA]):
        yield record(home.path, entry.name, path=entry.path, work_dir=home.places[CONFIG])


def plan_resume(record: SessionRecord, program: Program, home: Home) -> Resume | Refused:
    if os.path.exists(f"{home.places[CONFIG]}/sweep"):
        return Refused(
            reason=Refusal.UNSAFE_SETTINGS,
            message="its next start deletes old sessions",
            remedy=(f"remove {home.places[CONFIG]}/sweep",),
        )
    keep = (f"{record.path}/history", f"{record.path}/plan")
    return Resume(argv=(program.path, "go-on", record.session_id), cwd=home.places[DATA], env={}, keep=keep)


def read_last(record: SessionRecord, most: int) -> Sequence[Exchange]:
    lines = Path(record.path, "history").read_text().split("\n")[:-1]
    pairs = zip(lines[::2], [*lines[1::2], *[None] * (len(lines) % 2)], strict=True)
    return [Exchange(asked=asked, answered=answered) for asked, answered in pairs][-most:]


@pytest.fixture
def spread(stage: Stage, monkeypatch: pytest.MonkeyPatch, register: Callable[[Provider], Provider]) -> Provider:
    for name in (DATA, CONFIG):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(stage.home.parent / name))
        (stage.home.parent / name / NAME).mkdir(parents=True)
    session = stage.home.parent / DATA / NAME / "first"
    session.mkdir()
    (session / "history").write_text("hello\nhi\nand now?\ndone\nmore\n")
    (session / "plan").write_text("a plan")
    return register(
        stage.provider(
            homes=find_homes,
            list_sessions=list_sessions,
            plan_resume=plan_resume,
            transcript=Transcript(read_last=read_last),
            programs=stage.install(),
            capabilities=structs.replace(CAPABILITIES, restore="resume"),
        )
    )


def test_each_place_is_used_for_what_it_has(stage: Stage, spread: Provider) -> None:
    (session,) = stage.look(spread).sessions
    assert (session.key.home, session.work_dir) == (str(stage.home), str(stage.home.parent / CONFIG / NAME))
    assert isinstance(session.restore, Resume) and session.restore.cwd == str(stage.home.parent / DATA / NAME)


def test_every_place_is_watched(stage: Stage, spread: Provider) -> None:
    places = WatchedPlaces([NAME], [])
    places.follow(NAME, stage.look(spread))
    (stage.home.parent / CONFIG / NAME / "settings").touch()
    assert NAME in places.read().full


def test_what_it_would_destroy_is_named_and_copied_first(stage: Stage, spread: Provider) -> None:
    (session,) = stage.look(spread).sessions
    plan = session.restore
    assert isinstance(plan, Resume) and report_session(session).restore.keep == plan.keep
    copies = keep_copies(session, plan, Launches(str(stage.home.parent / "state")))
    assert [Path(one.copy).read_text() for one in copies] == ["hello\nhi\nand now?\ndone\nmore\n", "a plan"]


def test_it_refuses_with_everything_in_hand(stage: Stage, spread: Provider) -> None:
    (stage.home.parent / CONFIG / NAME / "sweep").touch()
    (session,) = stage.look(spread).sessions
    assert isinstance(session.restore, Refused) and session.restore.reason is Refusal.UNSAFE_SETTINGS


def test_the_last_exchanges_are_read_on_demand(stage: Stage, spread: Provider) -> None:
    (session,) = stage.look(spread).sessions
    found = read_last_exchanges(session, 2)
    assert [(one.asked, one.answered) for one in found] == [("and now?", "done"), ("more", None)]


def test_a_conversation_that_can_not_be_read_is_an_error_of_that_question(stage: Stage, spread: Provider) -> None:
    (session,) = stage.look(spread).sessions
    os.unlink(stage.home.parent / DATA / NAME / "first" / "history")
    with pytest.raises(CorralError, match="could not be read: "):
        read_last_exchanges(session, 2)
