"""A CLI whose process keeps a log of its own open, and says there which session it has and shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from corral.machine.processes import ProcessTable
from corral.model.claim import Claim, ClaimKind
from corral.model.key import Home, SessionKey
from corral.model.process import ProcessMode
from corral.model.verdict import State
from corral.providers.contract import Evidence
from corral.providers.kit.lock_claims import claim_by
from corral.sessions import report_survey
from tests.providers.made_up.stage import CAPABILITIES, NAME, Stage

KEEP_OPEN = "log = open(sys.argv[1], 'a')\nlog.write('\\n'.join(sys.argv[2:]) + '\\n')\nlog.flush()"
COMPLETE = Evidence(modes=(ProcessMode.INTERACTIVE, ProcessMode.HEADLESS), within_s=0.0)


def list_claims(home: Home, table: ProcessTable) -> Iterator[Claim]:
    """Each line of a log names a session that its process has opened; the last one is in front."""
    for process in table:
        for path in {path for _, path in process.descriptors() if path.startswith(f"{home.path}/logs/")}:
            *behind, front = Path(path).read_text().split()
            for session_id in (*behind, front):
                key = SessionKey(NAME, home.path, "", session_id)
                yield claim_by(process, key, ClaimKind.LOG, path, many=True, foreground=session_id == front)


@pytest.fixture
def logging(stage: Stage):
    (stage.home / "logs").mkdir()
    capabilities = msgspec.structs.replace(CAPABILITIES, identified_by=("log",), evidence=(COMPLETE,))
    return stage.provider(list_claims=list_claims, capabilities=capabilities)


def test_a_log_that_a_process_keeps_open_says_which_sessions_it_has(stage: Stage, logging) -> None:
    stage.add("one", "two", "three")
    pid = stage.start(KEEP_OPEN, str(stage.home / "logs" / "a"), "one", "two")
    found = stage.sessions(logging)
    assert {name: one.pid for name, one in found.items()} == {"one": pid, "two": pid, "three": None}
    assert found["one"].verdict.evidence[0].rule == "exact"


def test_the_json_says_which_one_is_in_front(stage: Stage, logging) -> None:
    stage.add("one", "two", "three")
    stage.start(KEEP_OPEN, str(stage.home / "logs" / "a"), "one", "two")
    report = report_survey(stage.look(logging))
    assert {one.session_id: one.foreground for one in report.sessions} == {"one": False, "two": True, "three": None}


def test_a_log_that_nobody_has_open_says_nothing(stage: Stage, logging) -> None:
    stage.add("one")
    stage.start(KEEP_OPEN, str(stage.home / "logs" / "a"), "one")
    stage.end()
    assert stage.sessions(logging)["one"].state is State.IDLE


def test_its_evidence_is_complete_for_some_modes_only(stage: Stage, logging) -> None:
    stage.add("one")
    quiet = stage.start("", mode=ProcessMode.HEADLESS)
    server = stage.start("", mode=ProcessMode.SERVER)
    survey = stage.look(logging)
    assert [one.pid for one in survey.no_session_yet] == [quiet]
    assert [one.pid for one in survey.unattributed] == [server]
    assert survey.sessions[0].state is State.UNKNOWN
