"""A CLI that fails in one step after another: each costs itself, is told, and ends nothing."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import pytest
from msgspec import structs

from corral.hooks import find_silence, hook_providers, install_hooks, read_statuses
from corral.model.hook_install import Outcome
from corral.model.hook_target import ConfigFormat, HookTarget
from corral.model.key import Home, SessionKey
from corral.model.process import ProcessMode
from corral.model.refusal import RefusedError
from corral.model.restore import Refusal, Refused
from corral.model.session import Survey
from corral.model.usage import UsageSource
from corral.model.verdict import State
from corral.providers.asking import Asker
from corral.providers.contract import Programs, Transcript, Usage
from corral.tabs import start_tab
from corral.usage import parse_query, report_fresh
from tests.providers.made_up.stage import CAPABILITIES, NAME, Stage, record

WHAT = "a thing nobody thought of"


def fail(*words: Any) -> Any:
    raise sqlite3.OperationalError(WHAT)


def target() -> HookTarget:
    events = ("SessionStart", "SessionEnd")
    return HookTarget(provider=NAME, config_name="settings.json", format=ConfigFormat.JSON_HOOKS, events=events)


def fail_midway(home: Home, known: object) -> Any:
    yield record(home.path, "first")
    raise KeyError(WHAT)


STEPS: dict[str, tuple[dict[str, Any], str]] = {
    "homes": ({"homes": fail}, "find its homes"),
    "list_sessions": ({"list_sessions": fail}, "read "),
    "recognise": ({"recognise": fail}, "recognise running processes"),
    "list_claims": ({"list_claims": fail}, "read the claims in "),
    "find_reach": ({"find_reach": fail}, "find what a process reaches"),
    "hooks": ({"hooks": fail}, "find its hooks"),
    "transcript": ({"transcript": Transcript(find_path=fail)}, "plan how to resume "),
    "guard": ({"transcript": Transcript(read_guard=fail)}, "plan how to resume "),
    "program": (
        {"programs": Programs(commands=("python3",), product="x", find_problem=fail, find_update=fail)},
        "find its program",
    ),
}


def look(stage: Stage, **parts: Any) -> Survey:
    stage.add("first", "second")
    if not stage.modes:
        stage.start("", mode=ProcessMode.HEADLESS)
    return stage.look(stage.provider(**parts))


@pytest.mark.parametrize("step", [name for name in STEPS if name != "program"])
def test_a_step_that_raises_is_told_and_the_survey_goes_on(stage: Stage, step: str) -> None:
    parts, words = STEPS[step]
    (told, *more) = [one for one in look(stage, **parts).degraded if one.provider != "corral"]
    assert told.step.startswith(words) and WHAT in told.reason
    assert all(one.step.startswith(words) for one in more)


def test_the_other_steps_still_answer(stage: Stage) -> None:
    survey = look(stage, list_claims=fail)
    assert {one.session_id: one.state for one in survey.sessions} == {"first": State.UNKNOWN, "second": State.UNKNOWN}
    assert len(survey.unattributed) == 1


def test_what_was_listed_before_a_failure_counts(stage: Stage) -> None:
    survey = look(stage, list_sessions=fail_midway)
    assert [one.session_id for one in survey.sessions] == ["first"]
    assert survey.unlisted == (str(stage.home),)


def test_processes_that_could_not_be_told_leave_no_session_idle(stage: Stage) -> None:
    survey = look(stage, recognise=fail)
    assert {one.state for one in survey.sessions} == {State.UNKNOWN}
    assert WHAT in survey.sessions[0].verdict.reason


def test_a_resume_that_could_not_be_planned_is_refused(stage: Stage) -> None:
    stage.add("first")
    (session,) = stage.look(stage.provider(transcript=Transcript(read_guard=fail))).sessions
    assert isinstance(session.restore, Refused) and WHAT in session.restore.message


def deep(*words: Any) -> Any:
    return deep(*words)


@pytest.mark.parametrize("failing", [fail, deep], ids=["sqlite3.Error", "RecursionError"])
def test_a_plan_that_raises_is_a_refusal_of_that_session_alone(stage: Stage, failing: Any) -> None:
    stage.add("first", "second")
    survey = stage.look(stage.provider(plan_resume=failing, programs=stage.install()))
    assert all(isinstance(one.restore, Refused) for one in survey.sessions)
    assert {told.step for told in survey.degraded} == {
        f"plan how to resume made-up:{one}" for one in ("first", "second")
    }


def test_memory_that_is_short_is_not_laid_to_the_provider(stage: Stage) -> None:
    def exhaust(home: Home, known: object) -> Any:
        raise MemoryError

    with pytest.raises(MemoryError):
        look(stage, list_sessions=exhaust)


@pytest.mark.parametrize("part", ["homes", "plan_start", "programs"])
def test_a_start_that_could_not_be_planned_is_refused(stage: Stage, register: Any, part: str) -> None:
    installed = stage.install()
    broken = structs.replace(installed, find_problem=fail)
    register(stage.provider(**({"programs": installed} | {part: broken if part == "programs" else fail})))
    with pytest.raises(RefusedError) as raised:
        start_tab("made-up", str(stage.home), (), size=(80, 24), agree=lambda question: False, report=print)
    assert raised.value.refused.reason is Refusal.PROVIDER_UNSUPPORTED and WHAT in raised.value.message


@pytest.mark.parametrize("part", ["homes", "hooks"])
def test_hooks_of_a_cli_that_fails_are_told_and_those_of_others_are_there(
    stage: Stage, register: Any, part: str
) -> None:
    register(stage.provider(**{"hooks": target, part: fail}))
    assert "made-up" in hook_providers()
    (broken,) = [status for status in read_statuses(None) if status.provider == "made-up"]
    assert WHAT in broken.problems[0]
    (done,) = install_hooks("made-up")
    assert done.outcome is Outcome.REFUSED and WHAT in done.message
    assert {status.provider for status in read_statuses(None)} > {"made-up"}


def test_a_cli_that_fails_to_name_its_hooks_is_not_expected_to_report(stage: Stage, register: Any) -> None:
    needs = structs.replace(CAPABILITIES, needs_hooks=True)
    provider = register(stage.provider(hooks=fail, capabilities=needs))
    assert WHAT in (find_silence(provider, str(stage.home)) or "")


@pytest.mark.parametrize("part", ["list_sources", "read"])
def test_usage_that_could_not_be_read_is_told_and_ends_nothing(stage: Stage, register: Any, part: str) -> None:
    def list_sources(home: Home, visits: object) -> Any:
        yield UsageSource(provider="made-up", home=home.path, scope="", session_id="first", path=f"{home.path}/log")

    (stage.home / "log").write_text("one line\n")
    parts: dict[str, Any] = {"list_sources": list_sources, "read": fail} | {part: fail}
    register(stage.provider(usage=Usage(**parts)))
    report, _ = report_fresh(parse_query(), on_progress=None, on_doubt=lambda: None)
    (skip,) = report.skipped
    assert WHAT in skip.reason and str(stage.home) in skip.path


def test_a_step_that_takes_too_long_is_not_asked_again(stage: Stage) -> None:
    asker, provider = Asker(longest_s=0.05), stage.provider()
    answers = [
        asker.ask(provider, "recognise", lambda: time.sleep(0.03) or "yes", lambda _: "not asked", about=str(number))
        for number in range(4)
    ]
    assert answers == ["yes", "yes", "not asked", "not asked"]
    (told,) = asker.degraded
    assert (told.step, asker.is_broken(provider, "recognise")) == ("recognise", True)


def test_a_listing_without_end_is_cut_off_and_what_came_counts(stage: Stage) -> None:
    def endless() -> Any:
        while True:
            time.sleep(0.01)
            yield SessionKey("made-up", "", "", "x")

    asker, provider = Asker(longest_s=0.05), stage.provider()
    assert list(asker.each(provider, "list", endless))
    assert "not done after" in (asker.find_failure(provider, "list") or "")
    assert asker.is_broken(provider, "list")
