"""Which threads of Codex are listed, each once, and what their rollouts say of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from corral.model.record import SessionRecord, TurnState
from corral.providers.codex.sessions import FOREIGN_ID, TOOL_OR_APPROVAL
from tests.providers.codex_support import (
    ABORTED,
    AGENT,
    COMPACTED,
    DAEMON_KILLED,
    FORK,
    NEW_ID,
    PARENT,
    RESUMED_ELSEWHERE,
    TERMINATED,
    UNUSED,
    WITH_AGENT,
    Place,
    asked,
    call,
    event,
    line,
    meta,
    output,
)
from tests.providers.kimi_support import settle
from tests.providers.reading import Memory


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_every_thread_is_listed_once(place: Place) -> None:
    everyone = [RESUMED_ELSEWHERE, DAEMON_KILLED, COMPACTED, UNUSED, PARENT, FORK, WITH_AGENT, AGENT, ABORTED]
    assert sorted(place.records()) == sorted([*everyone, TERMINATED])
    assert place.skipped() == {}


def test_a_thread_is_known_by_its_rollout(place: Place) -> None:
    found = place.records()[DAEMON_KILLED]
    assert (found.work_dir, found.branch, found.scope) == ("/home/dev/projects/app", "main", "")
    assert found.title == "hello codex interactive"
    assert found.created_at == pytest.approx(1794770769.15)
    assert found.updated_at == found.recorded_at == pytest.approx(1794771387.318)
    assert found.durable and not found.archived and found.notes == ()


def test_a_thread_that_was_resumed_elsewhere_goes_on_there(place: Place) -> None:
    assert place.records()[RESUMED_ELSEWHERE].work_dir == "/home/dev/projects/other"


@pytest.mark.parametrize(
    ("thread_id", "turn", "unfinished"),
    [
        (RESUMED_ELSEWHERE, TurnState.ENDED, None),
        (ABORTED, TurnState.ENDED, None),
        (DAEMON_KILLED, TurnState.OPEN, "DIRECTIVE:SLOW(30)"),
        (TERMINATED, TurnState.OPEN, "DIRECTIVE:SLOW(15)"),
        (UNUSED, TurnState.NONE, None),
    ],
)
def test_what_became_of_the_last_turn(place: Place, thread_id: str, turn: TurnState, unfinished: str | None) -> None:
    found = place.records()[thread_id]
    assert (found.turn, found.unfinished) == (turn, unfinished)
    assert (found.turn_started_at is not None) == (turn is TurnState.OPEN)


def test_a_thread_that_was_never_prompted_is_not_durable(place: Place) -> None:
    found = place.records()[UNUSED]
    assert (found.durable, found.not_durable_reason) == (False, "it was never prompted")


def test_a_fork_and_a_sub_agent_name_where_they_come_from(place: Place) -> None:
    found = place.records()
    assert (found[FORK].forked_from, found[FORK].parent_id) == (PARENT, None)
    assert (found[AGENT].forked_from, found[AGENT].parent_id) == (None, WITH_AGENT)


def test_a_sub_agent_is_one_also_where_only_its_source_says_so(place: Place) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}
    assert place.write(meta(source=source), event("task_started")).parent_id == PARENT
    assert place.write(meta(source={"subagent": "review"}), event("task_started")).parent_id is None


def test_a_fork_that_was_not_prompted_yet_has_what_came_before(place: Place) -> None:
    assert place.write(meta(history_base={"thread_id": PARENT})).durable


def test_a_tool_without_output_runs_or_waits_for_approval(place: Place) -> None:
    begun = (meta(), event("task_started"), asked("go"), call("one"), output("one"))
    assert place.write(*begun).turn is TurnState.OPEN
    found = place.write(*begun, call("two"))
    assert (found.turn, found.unfinished, found.notes) == (TurnState.IN_TOOL, "go", (TOOL_OR_APPROVAL,))
    assert place.write(*begun, call("two"), event("turn_aborted")).turn is TurnState.ENDED


def test_the_oldest_rollouts_have_no_lines_for_turns(place: Place) -> None:
    said = [line("response_item", type="message", role=role, content=[]) for role in ("user", "assistant")]
    assert place.write(meta(), said[0]).turn is TurnState.OPEN
    found = place.write(meta(), event("user_message", message="hello"), *said)
    assert (found.turn, found.title) == (TurnState.ENDED, "hello")


def test_titles_come_from_the_newest_index_where_there_is_one(place: Place) -> None:
    place.index((PARENT, "older", None), name="state_4.sqlite")
    place.index((PARENT, "first prompt", None), (FORK, "first prompt", "a name"))
    found = place.records()
    assert (found[PARENT].title, found[FORK].title) == ("first prompt", "a name")
    assert found[COMPACTED].title == "hello no daemon"
    assert sorted(os.listdir(place.root)) == ["sessions", "state_4.sqlite", "state_5.sqlite", "thread-writer-locks"]


def test_an_index_that_can_not_be_read_costs_titles_only(place: Place) -> None:
    place.index()
    (place.root / "state_6.sqlite").write_bytes(b"not a database" * 100)
    assert place.records()[PARENT].title == "msg after clear"
    assert place.skipped()["state_6.sqlite"].startswith("titles can't be read: ")


def test_archived_threads_are_listed_as_such(place: Place) -> None:
    place.archive(PARENT)
    assert place.records()[PARENT].archived


def test_a_thread_both_active_and_archived_is_listed_once(place: Place) -> None:
    (place.root / "archived_sessions").mkdir()
    shutil.copy(place.rollout(PARENT), place.root / "archived_sessions")
    assert not place.records()[PARENT].archived
    assert "the same thread is at" in place.skipped()[place.rollout(PARENT).name]


def test_what_is_named_otherwise_is_no_rollout(place: Place) -> None:
    for name in ("notes.jsonl", f"rollout-{NEW_ID}.jsonl", "rollout-2026-11-15T20-00-00-not-a-uuid.jsonl"):
        (place.root / "sessions/2026/11/15" / name).write_bytes(meta())
    assert len(place.records()) == 10 and place.skipped() == {}


@pytest.mark.parametrize("first", [b"", b"{}\n", b'{"type":"session_meta"', event("task_started")])
def test_without_its_first_line_a_thread_can_not_be_resumed(place: Place, first: bytes) -> None:
    found = place.write(first)
    assert not found.durable and found.not_durable_reason


def test_a_first_line_of_another_thread_is_told(place: Place) -> None:
    assert FOREIGN_ID in place.write(meta(PARENT), event("task_started")).notes


def test_a_torn_last_line_is_passed_over_and_a_damaged_one_told(place: Place) -> None:
    done = (meta(), event("task_started"), asked("go"), event("task_complete"))
    assert place.write(*done, b'{"timestamp":').notes == ()
    found = place.write(*done, b"garbage\n")
    assert found.turn is TurnState.ENDED and found.notes == ("some lines of its rollout are unreadable",)


def test_a_compressed_rollout_is_told(place: Place) -> None:
    path = place.rollout(PARENT)
    path.rename(f"{path}.zst")
    assert PARENT not in place.records()
    assert place.skipped() == {f"{path.name}.zst": "a compressed rollout is not read"}


def test_what_is_no_file_is_told(place: Place) -> None:
    path = place.rollout(PARENT)
    path.unlink()
    os.mkfifo(path)
    assert list(place.skipped()) == [path.name]


def test_nothing_is_read_twice(place: Place) -> None:
    settle(place.root)
    memory = Memory()
    place.listing(memory)
    assert memory.missed == 10
    place.listing(memory)
    assert memory.missed == 10
    place.index((PARENT, "a title", None))
    titles = {one.title for one in place.listing(memory) if isinstance(one, SessionRecord)}
    assert memory.missed == 10 and "a title" in titles
