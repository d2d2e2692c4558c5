"""How a Qwen Code session is resumed, and what would lose something and is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.model.key import Home
from corral.model.restore import Program, Refusal
from corral.providers.qwen_code import PROVIDER as qwen_code
from corral.providers.qwen_code.homes import encode_project, find_resume_dir
from tests.providers.qwen_support import FORK, NEW_ID, SCOPE, WITH_TOOL, Place, record


class Project(Place):
    """A home with one whole session of a directory that exists."""

    def __init__(self, root: Path) -> None:
        super().__init__(root / ".qwen")
        self.work_dir = Path(os.path.realpath(root)) / "app"
        self.work_dir.mkdir()
        self.chats = self.root / "projects" / encode_project(str(self.work_dir)) / "chats"
        self.chats.mkdir(parents=True)
        cwd = str(self.work_dir)
        self.whole = [
            record(uuid="a", cwd=cwd),
            record("system", None, uuid="s", parentUuid="a", subtype="ui_telemetry", cwd=cwd),
            record("assistant", "one", uuid="b", parentUuid="s", cwd=cwd),
            record(text="again", uuid="c", parentUuid="b", cwd=cwd),
            record("assistant", "two", uuid="d", parentUuid="c", cwd=cwd),
        ]

    def guard(self, *lines: bytes) -> Refusal | None:
        refused = qwen_code.transcript.read_guard(self.write(*lines))
        return refused.reason if refused else None


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize(
    ("work_dir", "name"),
    [
        ("/home/dev/projects/app", SCOPE),
        ("/x/My App_v1.2/süb", "-x-My-App-v1-2-s-b"),
        ("/x/\N{PILE OF POO}", "-x---"),
    ],
)
def test_a_project_is_named_as_qwen_names_it(work_dir: str, name: str) -> None:
    assert encode_project(work_dir) == name


def test_a_session_of_a_worktree_is_resumed_from_the_repository() -> None:
    assert find_resume_dir("/repo/.qwen/worktrees/fix", "-repo") == "/repo"
    assert find_resume_dir("/repo/.qwen/worktrees/fix", "-repo--qwen-worktrees-fix") == "/repo/.qwen/worktrees/fix"
    assert find_resume_dir("/other", "-repo") is None


def test_a_whole_session_may_be_resumed(project: Project) -> None:
    assert project.guard(*project.whole) is None


def test_a_destroyed_record_is_refused_since_qwen_would_drop_all_before_it(project: Project) -> None:
    for number in range(len(project.whole) - 1):
        lines = [*project.whole[:number], b"garbage\n", *project.whole[number + 1 :]]
        assert project.guard(*lines) is Refusal.TRANSCRIPT_MISSING, number
        assert project.records()[NEW_ID].durable


def test_foreign_lines_glued_records_and_a_torn_end_cost_nothing(project: Project) -> None:
    whole = project.whole
    assert project.guard(*whole[:2], b"garbage\n", *whole[2:]) is None
    assert project.guard(whole[0].rstrip(b"\n") + whole[1], *whole[2:]) is None
    assert project.guard(*whole, record(uuid="e", parentUuid="d")[:-30]) is None


def test_a_damaged_file_with_records_of_two_sessions_is_refused(project: Project) -> None:
    lines = [*project.whole, b"garbage\n", record(uuid="x", parentUuid="d", sessionId=FORK)]
    assert project.guard(*lines) is Refusal.IDENTITY_INVALID


def test_a_transcript_in_another_project_is_refused(project: Project) -> None:
    assert project.guard(record(cwd="/elsewhere")) is Refusal.WORK_DIR_UNREGISTERED


def test_a_directory_that_became_a_link_is_refused(project: Project) -> None:
    project.work_dir.rename(project.work_dir.with_name("moved"))
    project.work_dir.symlink_to(project.work_dir.with_name("moved"))
    assert project.guard(*project.whole) is Refusal.WORK_DIR_UNREGISTERED


def test_a_transcript_without_directory_is_refused(project: Project) -> None:
    assert project.guard(record(cwd=None)) is Refusal.WORK_DIR_MISSING


@pytest.mark.parametrize(
    ("is_default", "data_path", "env"),
    [
        (True, None, {}),
        (False, None, {"QWEN_HOME": "/h"}),
        (True, "/d", {"QWEN_RUNTIME_DIR": "/d"}),
        (False, "/d", {"QWEN_HOME": "/h", "QWEN_RUNTIME_DIR": "/d"}),
    ],
)
def test_the_resume_command(place: Place, is_default: bool, data_path: str | None, env: dict[str, str]) -> None:
    home = Home(
        provider=qwen_code.name,
        path="/h",
        is_default=is_default,
        origin="x",
        places={"runtime": data_path} if data_path else {},
    )
    program = Program(provider=qwen_code.name, path="/bin/qwen", version="0.24.4")
    resume = qwen_code.plan_resume(place.records()[WITH_TOOL], program, home)
    assert resume.argv == ("/bin/qwen", "--resume", WITH_TOOL)
    assert (resume.cwd, resume.env) == ("/home/dev/projects/app", env)
