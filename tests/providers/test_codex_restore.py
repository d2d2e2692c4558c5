"""Getting back into a thread of Codex: the command, and what is refused before Codex is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from corral.model.key import Home
from corral.model.record import SessionRecord
from corral.model.restore import Command, Program, Refusal, Refused, Resume, Start
from corral.providers.codex import PROVIDER as codex
from corral.providers.contract import Environment
from tests.providers.codex_support import (
    AGENT,
    COMPACTED,
    FORK,
    NEW_ID,
    PARENT,
    RESUMED_ELSEWHERE,
    WITH_AGENT,
    Place,
    event,
    meta,
)

PROGRAM = Program(provider="codex", path="/usr/bin/codex", version="0.166.0")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def refusal(record: SessionRecord) -> Refused | None:
    return codex.transcript.read_guard(record)


def test_it_is_resumed_in_a_process_of_its_own_where_it_ran_last(place: Place) -> None:
    record = place.records()[RESUMED_ELSEWHERE]
    assert refusal(record) is None
    plan = codex.plan_resume(record, PROGRAM, place.home)
    directory = "/home/dev/projects/other"
    argv = ("/usr/bin/codex", "resume", "--no-daemon", "-C", directory, RESUMED_ELSEWHERE)
    assert plan == Resume(argv=argv, cwd=directory, env={})


def test_another_home_is_named_to_it(place: Place) -> None:
    elsewhere = Home(provider="codex", path="/srv/codex", is_default=False, origin="config")
    plan = codex.plan_resume(place.records()[PARENT], PROGRAM, elsewhere)
    assert isinstance(plan, Resume) and plan.env == {"CODEX_HOME": "/srv/codex"}
    start = codex.plan_start("/srv/app", None, PROGRAM, elsewhere)
    argv = ("/usr/bin/codex", "--no-daemon", "-C", "/srv/app")
    assert start == Start(argv=argv, cwd="/srv/app", env={"CODEX_HOME": "/srv/codex"}, key=None)


@pytest.mark.parametrize("name", ["hello", "01a1e0ad-7d8f-7432-834b-08d7806092c", "../x", PARENT.upper()])
def test_only_a_uuid_reaches_codex(place: Place, name: str) -> None:
    refused = refusal(structs.replace(place.records()[PARENT], session_id=name))
    assert refused is not None and refused.reason is Refusal.IDENTITY_INVALID


def test_a_rollout_that_names_another_thread_is_refused(place: Place) -> None:
    refused = refusal(place.write(meta(PARENT), event("task_started")))
    assert refused is not None and refused.reason is Refusal.IDENTITY_INVALID


def test_an_archived_thread_is_refused_with_the_way_out(place: Place) -> None:
    place.archive(COMPACTED)
    refused = refusal(place.records()[COMPACTED])
    assert refused is not None and refused.reason is Refusal.RESTORE_UNSUPPORTED
    assert refused.remedy == (Command(f"codex unarchive {COMPACTED}"),)


def test_a_sub_agent_is_refused_with_its_parent_named(place: Place) -> None:
    refused = refusal(place.records()[AGENT])
    assert refused is not None and refused.reason is Refusal.RESTORE_UNSUPPORTED
    assert refused.remedy == (Command(f"corral resume {WITH_AGENT}"),)


def test_a_fork_needs_the_rollouts_that_it_comes_from(place: Place) -> None:
    later = place.write(meta(forked_from_id=FORK, history_base={"thread_id": FORK}), event("task_started"))
    assert refusal(place.records()[FORK]) is None and refusal(later) is None
    place.rollout(PARENT).unlink()
    for thread_id in (FORK, NEW_ID):
        refused = refusal(place.records()[thread_id])
        assert refused is not None and refused.reason is Refusal.TRANSCRIPT_MISSING and PARENT in refused.message


def test_forks_that_lead_in_a_circle_end_in_a_refusal(place: Place) -> None:
    refused = refusal(place.write(meta(history_base={"thread_id": NEW_ID}), event("task_started")))
    assert refused is not None and refused.reason is Refusal.TRANSCRIPT_MISSING


@pytest.mark.parametrize(("said", "version"), [("codex-cli 0.166.0", "0.166.0"), ("codex 1.0 of somebody", None)])
def test_a_program_without_a_package_is_asked(tmp_path: Path, said: str, version: str | None) -> None:
    (tmp_path / "codex").write_bytes(b"\x7fELF")
    (tmp_path / "codex").chmod(0o755)
    variables = {"PATH": str(tmp_path)}
    env = Environment(home_dir="/", variables=variables, extra_homes={}, ask_version=lambda path: said)
    program = codex.find_program(env)
    assert (program.version if program else None) == version
