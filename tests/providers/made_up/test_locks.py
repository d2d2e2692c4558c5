"""A CLI that locks the sessions it has open: one process may have several, and says which is in front."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from corral.machine.processes import ProcessTable
from corral.model.claim import Claim
from corral.model.key import Home, SessionKey
from corral.model.process import ProcessIdentity, ProcessMode
from corral.model.restore import Refusal, Refused
from corral.model.verdict import State
from corral.providers.contract import Evidence
from corral.providers.kit.lock_claims import list_lock_claims
from corral.sidecar.processes import read_identity
from corral.tabs.kill import decide_end
from corral.tabs.listing import list_shared
from corral.tabs.plan import decide_last_session
from tests.providers.made_up.stage import CAPABILITIES, NAME, Stage

LOCK = "import fcntl\nheld = [open(path) for path in sys.argv[1:]]\n[fcntl.flock(file, fcntl.LOCK_EX) for file in held]"
FRONT = "front"


def list_claims(home: Home, table: ProcessTable) -> Iterator[Claim]:
    """Every session that is locked; `front` names the one that its process shows."""
    front = os.path.join(home.path, FRONT)
    shown = Path(front).read_text() if os.path.exists(front) else None
    for name in os.listdir(f"{home.path}/sessions"):
        key = SessionKey(NAME, home.path, "", name)
        for claim in list_lock_claims(f"{home.path}/sessions/{name}", key, table):
            yield msgspec.structs.replace(claim, many=True, foreground=name == shown if shown else None)


@pytest.fixture
def locking(stage: Stage):
    complete = Evidence(modes=(ProcessMode.INTERACTIVE,), within_s=0.0)
    return stage.provider(
        list_claims=list_claims, capabilities=msgspec.structs.replace(CAPABILITIES, evidence=(complete,))
    )


def lock(stage: Stage, *session_ids: str) -> int:
    return stage.start(LOCK, *(str(stage.home / "sessions" / one) for one in session_ids))


def test_a_lock_says_which_process_has_a_session_and_looking_takes_none(stage: Stage, locking) -> None:
    stage.add("open", "closed")
    pid = lock(stage, "open")
    for _ in range(2):
        found = stage.sessions(locking)
        assert (found["open"].state, found["open"].pid) == (State.LIVE, pid)
        assert found["closed"].state is State.IDLE


def test_the_lock_of_a_process_that_ended_is_no_claim(stage: Stage, locking) -> None:
    stage.add("open")
    lock(stage, "open")
    stage.end()
    assert stage.sessions(locking)["open"].state is State.IDLE


def test_one_process_has_several_sessions_and_one_of_them_in_front(stage: Stage, locking) -> None:
    stage.add("one", "two", "three")
    pid = lock(stage, "one", "two")
    (stage.home / FRONT).write_text("two")
    found = stage.sessions(locking)
    assert {name: one.pid for name, one in found.items()} == {"one": pid, "two": pid, "three": None}
    (process,) = found["two"].verdict.processes
    chosen = decide_last_session([process], list(found.values()))
    assert not isinstance(chosen, str) and chosen.session_id == "two"


def test_without_a_word_about_the_front_none_of_several_is_chosen(stage: Stage, locking) -> None:
    stage.add("one", "two")
    lock(stage, "one", "two")
    found = stage.sessions(locking)
    (process,) = found["two"].verdict.processes
    assert decide_last_session([process], list(found.values())) == "it had 2 sessions open"


def test_where_the_evidence_is_complete_a_process_without_any_serves_nothing(stage: Stage, locking) -> None:
    stage.add("idle")
    quiet = stage.start("")
    survey = stage.look(locking)
    assert [one.pid for one in survey.no_session_yet] == [quiet] and not survey.unattributed
    assert survey.sessions[0].state is State.IDLE


def test_in_another_mode_it_may_have_any(stage: Stage, locking) -> None:
    stage.add("idle")
    headless = stage.start("", mode=ProcessMode.HEADLESS)
    survey = stage.look(locking)
    assert [one.pid for one in survey.unattributed] == [headless]
    assert survey.sessions[0].state is State.UNKNOWN


def test_a_window_of_a_server_has_no_session_itself(stage: Stage, locking) -> None:
    stage.add("idle")
    window = stage.start("", mode=ProcessMode.CLIENT)
    survey = stage.look(locking)
    assert [one.pid for one in survey.no_session_yet] == [window] and not survey.unattributed
    assert survey.sessions[0].state is State.IDLE


def test_evidence_that_could_not_be_read_is_not_complete(stage: Stage, locking) -> None:
    def broken(home: Home, table: ProcessTable) -> Iterator[Claim]:
        raise ValueError("a lock nobody has seen")
        yield

    stage.add("idle")
    stage.start("")
    survey = stage.look(msgspec.structs.replace(locking, list_claims=broken))
    assert survey.sessions[0].state is State.UNKNOWN and not survey.no_session_yet


def test_what_serves_other_sessions_too_is_not_ended(stage: Stage, locking) -> None:
    stage.add("one", "two", "alone")
    shared, own = lock(stage, "one", "two"), lock(stage, "alone")
    survey = stage.look(locking)
    keys = {one.session_id: one.key for one in survey.sessions}
    refused = decide_end(keys["one"], survey.sessions)
    assert isinstance(refused, Refused) and refused.reason is Refusal.SERVES_OTHERS
    assert "made-up:two" in refused.message and "made-up:one" in refused.message
    found = decide_end(keys["alone"], survey.sessions)
    assert not isinstance(found, Refused) and found.pid == own
    table = ProcessTable()
    shares = {pid: list_shared(identify(pid), survey, table) for pid in (shared, own)}
    assert sorted(one.session_id for one in shares[shared]) == ["one", "two"] and shares[own] == []


def identify(pid: int) -> ProcessIdentity:
    found = read_identity(pid)
    assert found is not None
    return found
