"""Claims that do not say in which container their session lies, joined to those that do."""

from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec import structs

from corral.model.claim import ClaimKind
from corral.model.key import Home
from corral.model.process import NOTHING, WHOLE_HOME
from corral.model.record import SessionRecord
from corral.model.verdict import ClaimVerdict, Liveness
from corral.sessions.entries import Reaching, _decide_id
from corral.sessions.gather import HomeFacts
from tests.unit.sessions.decide.facts import BOOT, judged, process, record

HOME = Home(provider="kimi-cli", path="/h/.kimi", is_default=True, origin="default")
EXACT = {"boot_id": BOOT, "pid_ns": 4026531836, "start_ticks": 1000}


class Named:
    """All that is asked of a provider here."""

    name = "kimi-cli"


def decide(records: list[SessionRecord], verdicts: list[ClaimVerdict]) -> list[tuple[str, str, list[int]]]:
    facts = HomeFacts(provider=cast(Any, Named()), home=HOME, records=records, resting=[], claims=[], bad_claims=[])
    nobody = Reaching(HOME.path, [])
    rows = _decide_id(facts, "s1", records, verdicts, [], nobody, nobody, None)
    return sorted((key.scope, str(verdict.state), [one.pid for one in verdict.processes]) for key, _, verdict in rows)


def adrift(pid: int = 10, **changed: object) -> ClaimVerdict:
    return judged(Liveness.LIVE, pid, **({"scope": None, "kind": ClaimKind.REGISTRY, **EXACT} | changed))


def placed(scope: str, pid: int = 10, liveness: Liveness = Liveness.LIVE) -> ClaimVerdict:
    return judged(liveness, pid, scope=scope, **EXACT)


def test_two_words_of_one_process_are_one_session_before_anything_is_on_disk() -> None:
    assert decide([], [adrift(), placed("p")]) == [("p", "live", [10])]
    assert decide([], [placed("p"), adrift()]) == [("p", "live", [10])]


def test_alone_it_is_a_session_of_no_known_place() -> None:
    assert decide([], [adrift()]) == [("", "live", [10])]


def test_it_goes_where_its_own_process_says_also_beside_another_session_of_that_id() -> None:
    rows = decide([record(scope="q")], [adrift(), placed("p")])
    assert rows == [("p", "live", [10]), ("q", "idle", [])]


def test_it_goes_to_the_only_session_of_that_id() -> None:
    assert decide([record(scope="q")], [adrift()]) == [("q", "live", [10])]
    assert decide([], [adrift(11), placed("p", liveness=Liveness.STALE)]) == [("p", "live", [11])]


@pytest.mark.parametrize("on_disk", [True, False])
def test_of_two_it_could_be_either_and_makes_no_third(on_disk: bool) -> None:
    records = [record(scope="p"), record(scope="q")] if on_disk else []
    claims = [] if on_disk else [placed("p", 20, Liveness.STALE), placed("q", 30, Liveness.STALE)]
    assert decide(records, [adrift(), *claims]) == [("p", "unknown", []), ("q", "unknown", [])]


def test_a_resume_waits_for_one_that_has_just_started_only_within_its_reach_and_no_state_changes() -> None:
    facts = HomeFacts(provider=cast(Any, Named()), home=HOME, records=[], resting=[], claims=[], bad_claims=[])
    nobody = Reaching(HOME.path, [])
    for reach, awaited in ((WHOLE_HOME, (10,)), (NOTHING, ())):
        young = Reaching(HOME.path, [structs.replace(process(10), reach=reach)])
        ((_, _, verdict),) = _decide_id(facts, "s1", [record()], [], [], nobody, young, None)
        assert (verdict.state, verdict.awaited_pids) == ("idle", awaited)
