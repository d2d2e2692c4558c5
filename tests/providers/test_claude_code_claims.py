"""What Claude Code publishes about its processes: its registry, whole or bad, and what a survey makes of it."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from corral.model.claim import BadClaim, Claim
from corral.model.verdict import Activity, State
from corral.providers.claude_code import PROVIDER as claude_code
from tests.providers.claude_support import NEW_ID, NORMAL, SHARED, TERMINATED, Place, Runs

CANARY = "CANARY-NOT-A-SECRET"


def claim_of(place: Place, pid: int) -> Claim:
    return next(claim for claim in place.claims() if isinstance(claim, Claim) and claim.pid == pid)


def test_the_registry_gives_pid_ticks_and_namespace(claude: Place) -> None:
    claim = claim_of(claude, 3515)
    assert (claim.session_id, claim.start_ticks, claim.pid_ns, claim.boot_id) == (SHARED, 80859, 4026531836, None)
    assert claim.written_at == pytest.approx(1794770551.230)
    assert (claim.version, claim.scope, claim.owner_uid, claim.many) == ("2.1.325", None, os.getuid(), False)


def test_the_status_says_what_the_process_does_and_what_it_waits_for(claude: Place) -> None:
    said = {pid: (claim_of(claude, pid).activity, claim_of(claude, pid).waits_for) for pid in (3515, 12376, 14352)}
    assert said == {3515: ("waiting", "permission prompt"), 12376: ("busy", None), 14352: ("ready", None)}


def test_a_process_that_has_not_chosen_its_session_claims_none(claude: Place) -> None:
    assert claude.register(status=...) is None


def test_a_record_of_another_machine_is_said_to_be(claude: Place) -> None:
    claim = claude.register(pidDomain=f"linux:{'f' * 32}:pid:[4026531836]")
    assert isinstance(claim, Claim) and claim.hostname == f"machine-{'f' * 32}"


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": True},
        {"pid": "4242"},
        {"pid": -1},
        {"pid": 4243},
        {"pid": ...},
        {"procStart": None},
        {"procStart": ""},
        {"procStart": "12:13"},
        {"procStart": 73402},
        {"pidDomain": None},
        {"pidDomain": "darwin:x"},
        {"pidDomain": "linux::pid:[x]"},
        {"sessionId": "../../etc/passwd"},
        {"sessionId": 5},
        {"startedAt": "now"},
        {"startedAt": -1},
        {"cwd": None},
        {"status": 5},
    ],
)
def test_a_record_of_another_shape_is_bad(claude: Place, changes: dict[str, Any]) -> None:
    claim = claude.register(**changes)
    assert isinstance(claim, BadClaim) and claim.reason


@pytest.mark.parametrize("name", ["0.json", "042.json", "x.json", "-4242.json"])
def test_a_record_with_another_name_is_bad(claude: Place, name: str) -> None:
    assert isinstance(claude.register(name), BadClaim)


@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "large", "torn", "nested"])
def test_what_is_no_record_is_bad(claude: Place, kind: str) -> None:
    path, whole = claude.registry / "4242.json", (claude.registry / "3515.json").read_bytes()
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to(claude.registry / "3515.json")
        case "directory":
            path.mkdir()
        case "large":
            path.write_bytes(whole + b" " * (1 << 17))
        case "torn":
            path.write_bytes(whole[:-20])
        case _:
            path.write_bytes(b"[" * 60000)
    assert isinstance(next(claim for claim in claude.claims() if claim.path == str(path)), BadClaim)


def test_neither_key_nor_socket_is_in_anything_returned(claude: Place) -> None:
    assert any(CANARY in path.read_text() for path in claude.registry.glob("*.key"))
    claude.register(token=CANARY)
    claude.register("4243.json", pid=CANARY, sessionId=CANARY)
    said = repr(claude.claims()) + msgspec.json.encode(claude.claims()).decode()
    assert CANARY not in said and "cc-socks" not in said


@pytest.fixture
def here(claude: Place) -> Place:
    """The home with no process registered."""
    claude.forget_processes()
    return claude


def test_the_record_of_another_machine_can_not_be_checked_from_here(claude: Place) -> None:
    assert claude.sessions()[NORMAL].state is State.ELSEWHERE


def test_a_registered_process_that_runs_makes_its_session_live(here: Place, claude_runs: Runs) -> None:
    pid = claude_runs.start("word")
    here.register_process(pid, NORMAL, status="waiting", waitingFor="permission prompt")
    session = here.sessions()[NORMAL]
    assert (session.state, session.pid, session.activity) == (State.LIVE, pid, Activity.WAITING)
    assert session.waits_for == "permission prompt"
    here.register_process(pid, NORMAL)
    session = here.sessions()[NORMAL]
    assert (session.activity, session.waits_for) == (Activity.READY, None)


def test_a_process_follows_its_record_to_another_session(here: Place, claude_runs: Runs) -> None:
    pid = claude_runs.start("word")
    here.register_process(pid, NORMAL)
    assert here.sessions()[NORMAL].state is State.LIVE
    here.register_process(pid, SHARED)
    sessions = here.sessions()
    assert (sessions[NORMAL].state, sessions[SHARED].state) == (State.IDLE, State.LIVE)


@pytest.mark.parametrize("reused", [False, True])
def test_what_a_kill_left_says_busy_and_is_not(here: Place, claude_runs: Runs, reused: bool) -> None:
    pid = claude_runs.start("word")
    here.register_process(pid, TERMINATED, status="busy")
    assert here.sessions()[TERMINATED].activity is Activity.BUSY
    claude_runs.stop()
    if reused:  # the number has come to another process, ours
        left = json.loads((here.registry / f"{pid}.json").read_text())
        (here.registry / f"{pid}.json").unlink()
        (here.registry / f"{os.getpid()}.json").write_text(json.dumps(left | {"pid": os.getpid()}))
    session = here.sessions()[TERMINATED]
    assert (session.state, session.activity, session.pids) == (State.ORPHANED, None, ())


def test_a_record_from_before_the_boot_is_of_no_process_of_today(here: Place) -> None:
    """It names no boot: PID and ticks may recur."""
    before = (time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - 3600) * 1000
    here.register_process(os.getpid(), NORMAL, startedAt=before, updatedAt=before)
    assert here.sessions()[NORMAL].state is State.IDLE


def test_a_process_served_by_two_shows_both(here: Place, claude_runs: Runs) -> None:
    pids = [claude_runs.start("word"), claude_runs.start("word")]
    for pid in pids:
        here.register_process(pid, NORMAL)
    assert set(here.sessions()[NORMAL].pids) == set(pids)


def test_a_live_id_that_two_projects_have_is_doubt_at_both(here: Place, claude_runs: Runs) -> None:
    other = here.root / "projects" / "-home-dev-other"
    other.mkdir()
    shutil.copy(here.transcript(NORMAL), other)
    here.register_process(claude_runs.start("word"), NORMAL)
    found = [session for session in here.survey().sessions if session.session_id == NORMAL]
    assert [session.state for session in found] == [State.UNKNOWN, State.UNKNOWN]


def test_a_session_of_which_nothing_is_written_yet_is_live(here: Place, claude_runs: Runs) -> None:
    pid = claude_runs.start("word")
    here.register_process(pid, NEW_ID)
    session = here.sessions()[NEW_ID]
    assert (session.state, session.pid, session.durable) == (State.LIVE, pid, False)


@pytest.mark.parametrize("version", ["2.1.325", "2.1.100"])
def test_a_process_without_a_record_serves_nothing_if_its_version_would_have_said_so(
    here: Place, claude_runs: Runs, version: str
) -> None:
    package = Path(os.path.realpath(claude_runs.command)).parents[1] / "package.json"
    package.write_text(json.dumps({"name": "@anthropic-ai/claude-code", "version": version}))
    pid = claude_runs.start("word")
    survey = here.survey()
    assert [process.pid for process in survey.unattributed] == [pid]  # it has only begun
    (evidence,) = claude_code.capabilities.evidence
    at_once = replace(claude_code.capabilities, evidence=(replace(evidence, within_s=0.0),))
    survey = here.survey(replace(claude_code, capabilities=at_once))
    assert [process.pid for process in survey.unattributed] == ([] if version == "2.1.325" else [pid])
    states = {session.state for session in survey.sessions}
    assert states == ({State.IDLE, State.ORPHANED} if version == "2.1.325" else {State.UNKNOWN})
