"""What a Qwen Code transcript says: its turn, its title, its parent, and whether two wrote it."""

from __future__ import annotations

import pytest

from corral.model.record import TurnState
from corral.providers.kit.conversations import TOOL_OR_APPROVAL, TWO_WRITERS
from tests.providers.qwen_support import CANCELLED, FORK, KILLED_IN_TOOL, TWICE_OPENED, WITH_TOOL, Place, record


def test_a_cancelled_turn_has_ended(place: Place) -> None:
    found = place.write(*place.lines(CANCELLED)[:4])
    assert found.turn is TurnState.ENDED


def test_a_prompt_without_answer_is_an_open_turn(place: Place) -> None:
    lines = place.lines(CANCELLED)[:7]
    found = place.write(*lines)
    assert found.turn is TurnState.OPEN
    assert found.unfinished == "SLOW20 esc meRUN:sleep 100"
    assert found.turn_started_at == pytest.approx(1794770963.5, abs=1)


def test_a_call_without_result_is_open_and_what_it_waits_for_is_not_told(place: Place) -> None:
    found = place.write(*place.lines(KILLED_IN_TOOL)[:4])
    assert (found.turn, found.unfinished) == (TurnState.IN_TOOL, "RUN:python3 /home/dev/bin/nap.py;")
    assert TOOL_OR_APPROVAL in found.notes
    assert found.waits_for is None


def test_a_tool_result_leaves_the_turn_open(place: Place) -> None:
    found = place.write(*place.lines(WITH_TOOL)[:7])
    assert (found.turn, found.unfinished) == (TurnState.OPEN, "RUN:env | grep -c QWEN; go")
    assert TOOL_OR_APPROVAL not in found.notes


def test_a_failed_call_to_the_model_does_not_end_the_turn(place: Place) -> None:
    error = {"subtype": "ui_telemetry", "systemPayload": {"uiEvent": {"event.name": "qwen-code.api_error"}}}
    assert place.write(record(), record("system", None, **error)).turn is TurnState.OPEN


@pytest.mark.parametrize("subtype", ["turn_result", "rewind"])
def test_some_system_records_end_the_turn(place: Place, subtype: str) -> None:
    assert place.write(record(), record("system", None, subtype=subtype)).turn is TurnState.ENDED


def test_a_notification_opens_a_turn_and_is_no_prompt(place: Place) -> None:
    found = place.write(
        record(text="the prompt"),
        record("assistant", "done"),
        record(text="<task-notification>", subtype="notification"),
    )
    assert (found.turn, found.unfinished, found.title) == (TurnState.OPEN, "the prompt", "the prompt")


def test_only_system_records_are_no_turn(place: Place) -> None:
    found = place.write(record("system", None, subtype="session_model"))
    assert (found.turn, found.durable) == (TurnState.NONE, True)


def test_a_fork_names_its_parent(place: Place) -> None:
    found = place.records()[FORK]
    assert found.forked_from == TWICE_OPENED
    assert TWO_WRITERS not in found.notes


def test_two_writers_are_told(place: Place) -> None:
    found = place.records()[TWICE_OPENED]
    assert found.notes == (TWO_WRITERS,)
    assert found.turn is TurnState.ENDED


def test_a_rewind_is_not_a_second_writer(place: Place) -> None:
    found = place.write(
        record(uuid="a"),
        record("assistant", "b", uuid="b", parentUuid="a"),
        record(uuid="c", parentUuid="b"),
        record("system", None, uuid="r", parentUuid="b", subtype="rewind"),
        record(uuid="d", parentUuid="r"),
        record("assistant", "e", uuid="e", parentUuid="d"),
    )
    assert found.notes == ()


def test_the_title_a_person_gave_wins(place: Place) -> None:
    titled = record("system", None, subtype="custom_title", systemPayload={"customTitle": "My\x1b[31m title"})
    assert place.write(record(), record("assistant", "hi"), titled).title == "My [31m title"


def test_the_title_is_what_was_typed_not_what_a_hook_added(place: Place) -> None:
    shown = record(text="typed\n\nadded by a hook", systemPayload={"displayText": "typed"})
    assert place.write(shown).title == "typed"


@pytest.mark.parametrize(
    ("text", "title"), [("/approval-mode default", "next"), ("/srv/app is slow", "/srv/app is slow")]
)
def test_a_slash_command_is_no_title_and_a_path_is(place: Place, text: str, title: str) -> None:
    assert place.write(record(text=text), record(text="next")).title == title


def test_the_branch_is_the_one_that_the_last_message_names(place: Place) -> None:
    said = [
        record(gitBranch="main"),
        record("assistant", "done", gitBranch="fix/rounding\x1b[31m"),
        record("system", None, subtype="custom_title", systemPayload={"customTitle": "Renamed"}),
    ]
    assert place.write(*said[:1]).branch == "main"
    assert place.write(*said).branch == "fix/rounding [31m"
    assert place.write(*said, record()).branch is None
