"""Claude Code's sessions on disk: what is listed, and what the last turn of each is."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from corral.model.record import TurnState
from tests.providers.claude_support import (
    BRANCH,
    CLEARED,
    DELEGATED,
    FORK,
    NEW_ID,
    NORMAL,
    PRINTED,
    SCOPE,
    SHARED,
    TERMINATED,
    Place,
    answer,
    call,
    line,
)
from tests.providers.reading import Memory, read_bytes

RESULT = line("user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}])
INTERRUPTED = line("user", [{"type": "text", "text": "[Request interrupted by user]"}], interruptedMessageId="msg_1")
REQUEST = line("api-request", querySource="repl_main_thread", id="r1")
LATER_REQUEST = line("api-request", querySource="sdk", id="r2", timestamp="2026-11-15T19:00:01.000Z")
DONE = line("system", subtype="turn_duration")


def test_every_session_of_every_project_is_listed(claude: Place) -> None:
    other = claude.root / "projects" / "-home-dev-other"
    other.mkdir()
    (other / f"{NEW_ID}.jsonl").write_bytes(line(cwd="/home/dev/other") + answer())
    records = claude.records()
    listed = {NORMAL, SHARED, CLEARED, BRANCH, PRINTED, FORK, DELEGATED, TERMINATED, NEW_ID}
    assert set(records) == listed
    assert (records[NEW_ID].scope, records[NEW_ID].work_dir) == ("-home-dev-other", "/home/dev/other")
    assert {record.scope for record in records.values()} == {SCOPE, "-home-dev-other"}


def test_a_record_says_what_its_transcript_says(claude: Place) -> None:
    record = claude.records()[NORMAL]
    assert (record.title, record.work_dir, record.branch) == ("hello interactive", "/home/dev/projects/app", "master")
    assert (record.durable, record.turn, record.notes) == (True, TurnState.ENDED, ())
    assert record.created_at is not None and record.updated_at is not None
    assert record.created_at < record.updated_at == record.recorded_at


def test_a_title_that_a_person_gave_goes_before_all_others(claude: Place) -> None:
    assert claude.records()[BRANCH].title == "after clear msg (Branch)"
    made = [line("custom-title", customTitle="mine"), line("ai-title", aiTitle="made"), answer()]
    assert claude.write(line(), *made).title == "mine"
    assert claude.write(line(), made[1], answer()).title == "made"


def test_a_command_is_no_title(claude: Place) -> None:
    assert claude.records()[CLEARED].title == "after clear msg"


def test_a_fork_by_branch_names_its_source_and_one_at_a_start_does_not(claude: Place) -> None:
    records = claude.records()
    assert (records[BRANCH].forked_from, records[FORK].forked_from) == (CLEARED, None)


def test_its_directory_is_the_one_it_began_in(claude: Place) -> None:
    """Resumed from elsewhere, it goes on in the same transcript."""
    assert b"/home/dev/projects/other" in claude.transcript(PRINTED).read_bytes()
    assert claude.records()[PRINTED].work_dir == "/home/dev/projects/app"


def test_a_run_that_was_terminated_in_its_turn_is_open(claude: Place) -> None:
    record = claude.records()[TERMINATED]
    assert (record.turn, record.unfinished, record.durable) == (TurnState.OPEN, "do SLOW(20)", True)
    assert record.turn_started_at is not None


@pytest.mark.parametrize(
    ("lines", "turn"),
    [
        ([line()], TurnState.OPEN),
        ([line(), answer()], TurnState.ENDED),
        ([line(), answer(), DONE], TurnState.ENDED),
        ([line(), answer(stop_reason=None)], TurnState.OPEN),
        ([line(), answer(stop_reason="tool_use")], TurnState.OPEN),
        ([line(), call()], TurnState.IN_TOOL),
        ([line(), call(), RESULT], TurnState.OPEN),
        ([line(), call(), RESULT, answer(), DONE], TurnState.ENDED),
        ([line(), answer(stop_reason=None), INTERRUPTED], TurnState.ENDED),
        ([REQUEST, line()], TurnState.OPEN),
        ([line(), answer(), DONE, LATER_REQUEST], TurnState.OPEN),
        ([line(), answer(), DONE, REQUEST], TurnState.ENDED),  # its line came behind the end of its own turn
        ([line(), answer(), DONE, line("api-request", querySource="agent:builtin:x")], TurnState.ENDED),
        ([line(), answer(), DONE, line("user", "<command-name>/model</command-name>")], TurnState.ENDED),
        ([line(), answer(), DONE, line("user", "<local-command-stdout>x")], TurnState.ENDED),
        ([line(), answer(), DONE, line("user", "a caveat", isMeta=True)], TurnState.ENDED),
        ([line(), answer(), DONE, line("user", "a summary", isCompactSummary=True)], TurnState.ENDED),
        ([line(), call(), RESULT, line("user", "a summary", isCompactSummary=True)], TurnState.OPEN),
        ([line(), answer(), DONE, line("user", "of an agent", isSidechain=True)], TurnState.ENDED),
        ([line(), answer(), DONE, line("user", "<task-notification>x")], TurnState.OPEN),
        ([line("mode")], TurnState.NONE),
    ],
)
def test_the_state_of_the_last_turn(claude: Place, lines: list[bytes], turn: TurnState) -> None:
    assert claude.write(*lines).turn is turn


def test_a_refused_answer_of_the_server_ends_the_turn(claude: Place) -> None:
    record = claude.write(line(), answer("an error", "stop_sequence", isApiErrorMessage=True))
    assert record.turn is TurnState.ENDED


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "its transcript is empty"), (b"garbage\nmore\n", "its transcript has no message"), (line("mode"), None)],
)
def test_what_has_no_message_can_not_be_resumed(claude: Place, content: bytes, reason: str | None) -> None:
    record = claude.write(content)
    assert not record.durable
    assert record.not_durable_reason == (reason or "its transcript has no message")


def test_a_torn_last_line_costs_nothing_and_a_broken_one_is_noted(claude: Place) -> None:
    torn = claude.write(line(), answer(), DONE, line()[:40])
    assert (torn.turn, torn.notes) == (TurnState.ENDED, ())
    broken = claude.write(line(), b"{broken\n", answer(), DONE)
    assert broken.turn is TurnState.ENDED and len(broken.notes) == 1


def test_one_id_in_two_projects_is_noted_at_both(claude: Place) -> None:
    other = claude.root / "projects" / "-home-dev-other"
    other.mkdir()
    shutil.copy(claude.transcript(NORMAL), other)
    noted = [record for record in claude.listing() if "two sessions" in str(getattr(record, "notes", ""))]
    assert [getattr(record, "session_id", None) for record in noted] == [NORMAL, NORMAL]
    shutil.rmtree(other)
    assert claude.records()[NORMAL].notes == ()


def test_a_transcript_that_was_copied_by_hand_is_noted(claude: Place) -> None:
    shutil.copy(claude.transcript(NORMAL), claude.transcript(NEW_ID))
    assert "another session" in claude.records()[NEW_ID].notes[0]


def test_what_is_no_transcript_is_told_or_known_to_be_none(claude: Place) -> None:
    (claude.project / "notes.jsonl").touch()
    (claude.project / "agent-a1.jsonl").touch()
    (claude.project / "memory").mkdir()
    os.mkfifo(claude.transcript(NEW_ID))
    (claude.root / "projects" / "link").symlink_to(claude.project)
    assert claude.skipped() == {
        "notes.jsonl": "its name is not a session id",
        f"{NEW_ID}.jsonl": "not a regular file",
        "link": "a link in the place of a project",
    }


def test_a_transcript_says_when_claude_may_delete_it(claude: Place) -> None:
    changed_at = claude.transcript(NORMAL).stat().st_mtime
    assert claude.records()[NORMAL].expires_at == pytest.approx(changed_at + 30 * 86400)
    (claude.root / "settings.json").write_text(json.dumps({"cleanupPeriodDays": 90}))
    assert claude.records()[NORMAL].expires_at == pytest.approx(changed_at + 90 * 86400)
    (claude.root / "settings.json").write_text("{")
    assert claude.records()[NORMAL].expires_at == pytest.approx(changed_at + 30 * 86400)


def test_a_listing_reads_only_what_changed(claude: Place) -> None:
    for path in claude.project.glob("*.jsonl"):
        os.utime(path, (1, 1))
    memory = Memory()
    first = claude.listing(memory)
    assert claude.listing(memory) == first
    count = len(list(claude.project.glob("*.jsonl")))
    if len(memory.kept) == count:  # a file whose inode changed a moment ago is not kept
        assert memory.missed == count


def test_a_long_transcript_is_read_at_its_ends(claude: Place) -> None:
    blob = line("api-request-blob", message={"role": "user", "content": "x" * 200_000})
    claude.write(line(), *[blob, answer(), DONE] * 100)
    before = read_bytes()
    assert claude.records()[NEW_ID].turn is TurnState.ENDED
    assert read_bytes() - before < 2_000_000
