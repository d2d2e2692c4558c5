"""Agents of other users and of containers: they count for a home of ours only if they can be at work there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.sessions.users import COLLEAGUE, GROUP, OWNER, STRANGER, Users

RESTING = {"idle", "orphaned", "empty"}


@pytest.fixture
def users() -> Iterator[Users]:
    made = Users()
    yield made
    made.end()


def test_nobody_running_leaves_sessions_resting(users: Users) -> None:
    assert users.states() <= RESTING and users.states(0) <= RESTING


def test_a_colleague_in_a_shared_home_may_have_any_session_open(users: Users) -> None:
    users.give(users.data, OWNER, GROUP, 0o070)
    users.home.chmod(0o770)
    shared = next(users.data.rglob("state.json"))
    os.chown(shared, COLLEAGUE, GROUP)
    pid = users.start(COLLEAGUE)
    survey = users.ps()
    assert {(row["state"], tuple(row["maybe_pids"])) for row in survey["sessions"]} == {("unknown", (pid,))}
    (silent,) = survey["unattributed"]
    assert silent["pid"] == pid and "hooks install" not in silent["advice"]
    one = survey["sessions"][0]["session_id"]
    refused = users.corral(OWNER, "resume", one)
    assert refused.returncode == 1 and "maybe_open" in refused.stderr


def test_a_stranger_who_may_not_write_there_raises_no_doubt(users: Users) -> None:
    users.start(STRANGER)
    assert users.states() <= RESTING


def test_an_agent_of_root_that_left_nothing_there_raises_no_doubt(users: Users) -> None:
    users.start(0, home=users.root)
    assert users.states() <= RESTING


def test_an_agent_of_root_that_left_something_there_does(users: Users) -> None:
    os.chown(next(users.data.rglob("wire.jsonl")), 0, 0)
    pid = users.start(0)
    survey = users.ps()
    assert {(row["state"], tuple(row["maybe_pids"])) for row in survey["sessions"]} == {("unknown", (pid,))}
    assert "root" in survey["unattributed"][0]["advice"]


@pytest.mark.parametrize("uid", [OWNER, 0], ids=["as a user", "as root"])
def test_a_container_of_root_that_has_the_home_mounted_elsewhere(users: Users, uid: int) -> None:
    os.chown(next(users.data.rglob("wire.jsonl")), 0, 0)
    inside = users.root / "container"
    (inside / ".kimi-code").mkdir(parents=True)
    mounted = f'mount --bind "{users.data}" "{inside}/.kimi-code" && exec "$@"'
    contained = ["unshare", "-m", "-p", "-f", "--mount-proc", "sh", "-c", mounted, "sh"]
    pid = users.start(0, *contained, home=inside)
    survey = users.ps(uid)
    assert {(row["state"], tuple(row["maybe_pids"])) for row in survey["sessions"]} == {("unknown", (pid,))}


def test_a_container_with_a_home_of_its_own_raises_no_doubt_though_its_path_is_ours(users: Users) -> None:
    other = users.root / "other"
    (other / ".kimi-code").mkdir(parents=True)
    mounted = f'mount --bind "{other}" "{users.home}" && exec "$@"'
    users.start(0, "unshare", "-m", "-p", "-f", "--mount-proc", "sh", "-c", mounted, "sh")
    assert users.states(0) <= RESTING
    assert users.states() <= RESTING


def test_a_directory_of_another_name_is_the_same_home(users: Users) -> None:
    link = users.root / "link"
    link.symlink_to(users.home)
    pid = users.start(OWNER, home=Path(link))
    assert {tuple(row["maybe_pids"]) for row in users.ps()["sessions"]} == {(pid,)}
