"""Getting back into a Claude session: the commands, and what is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from corral.model.key import Home, SessionKey
from corral.model.restore import Program, Refusal, Refused, Resume, Start
from corral.model.verdict import State
from corral.providers.claude_code import PROVIDER as claude_code
from corral.providers.contract import Environment
from tests.providers.claude_support import NEW_ID, NORMAL, PRINTED, Place, install, line

PROGRAM = Program(provider=claude_code.name, path="/usr/bin/claude", version="2.1.325")


def test_a_session_is_resumed_by_its_id_in_the_directory_it_began_in(claude: Place) -> None:
    plan = claude_code.plan_resume(claude.records()[PRINTED], PROGRAM, claude.home)
    assert plan == Resume(argv=("/usr/bin/claude", "--resume", PRINTED), cwd="/home/dev/projects/app", env={})


def test_a_home_of_ones_own_is_named_to_it(claude: Place) -> None:
    elsewhere = Home(provider=claude_code.name, path="/data/claude", is_default=False, origin="config")
    plan = claude_code.plan_resume(claude.records()[PRINTED], PROGRAM, elsewhere)
    assert isinstance(plan, Resume) and plan.env == {"CLAUDE_CONFIG_DIR": "/data/claude"}


def test_a_fresh_session_has_the_id_that_we_pick(claude: Place, tmp_path: Path) -> None:
    work_dir = tmp_path / "an äpp_1.0"
    work_dir.mkdir()
    scope = os.path.realpath(tmp_path).replace("/", "-").replace("_", "-") + "-an--pp-1-0"
    plan = claude_code.plan_start(str(work_dir), NEW_ID, PROGRAM, claude.home)
    assert plan == Start(
        argv=("/usr/bin/claude", "--session-id", NEW_ID),
        cwd=str(work_dir),
        env={},
        key=SessionKey(claude_code.name, claude.home.path, scope, NEW_ID),
    )


def test_where_the_name_of_the_project_is_not_known_it_picks_its_own_id(claude: Place) -> None:
    plan = claude_code.plan_start("/" + "x" * 220, NEW_ID, PROGRAM, claude.home)
    assert isinstance(plan, Start) and (plan.argv, plan.key) == (("/usr/bin/claude",), None)


def test_what_a_child_of_claude_inherits_is_taken_away() -> None:
    assert {"CLAUDE_CODE_CHILD_SESSION", "CLAUDECODE", "CLAUDE_CODE_SESSION_ID"} <= set(claude_code.capabilities.poison)


def test_an_id_in_two_projects_is_refused(claude: Place) -> None:
    other = claude.root / "projects" / "-home-dev-other"
    other.mkdir()
    shutil.copy(claude.transcript(NORMAL), other)
    claude.forget_processes()
    found = [session for session in claude.survey().sessions if session.session_id == NORMAL]
    assert len(found) == 2
    for session in found:
        assert session.record is not None and session.state is State.IDLE
        refused = claude_code.transcript.read_guard(session.record)
        assert refused is not None and refused.reason is Refusal.IDENTITY_INVALID
    assert claude_code.transcript.read_guard(claude.records()[PRINTED]) is None


def test_a_transcript_of_another_session_is_refused(claude: Place) -> None:
    shutil.copy(claude.transcript(NORMAL), claude.transcript(NEW_ID))
    refused = claude_code.transcript.read_guard(claude.records()[NEW_ID])
    assert isinstance(refused, Refused) and refused.reason is Refusal.IDENTITY_INVALID


def test_without_a_directory_it_is_refused(claude: Place) -> None:
    refused = claude_code.transcript.read_guard(claude.write(line(cwd=None)))
    assert isinstance(refused, Refused) and refused.reason is Refusal.WORK_DIR_MISSING


@pytest.mark.parametrize(("version", "usable"), [("2.1.325", True), ("2.2.0", True), ("2.1.324", False)])
def test_only_versions_that_keep_a_whole_registry_are_used(tmp_path: Path, version: str, usable: bool) -> None:
    path = install(tmp_path, version)
    env = Environment(home_dir=str(tmp_path), variables={"PATH": str(path.parent)}, extra_homes={})
    program = claude_code.find_program(env)
    assert program is not None and (program.path, program.version) == (str(path), version)
    assert (program.problem is None) == usable


def test_a_program_that_is_no_package_is_known_by_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "claude").symlink_to(shutil.which("sh") or "/bin/sh")
    for said, found in (("2.1.400 (Claude Code)", "2.1.400"), ("2.1.400", None), ("2.1.400 (Other)", None)):
        env = Environment(
            home_dir=str(tmp_path),
            variables={"PATH": str(tmp_path)},
            extra_homes={},
            ask_version=lambda path, said=said: said,
        )
        program = claude_code.find_program(env)
        assert (program.version if program else None) == found
