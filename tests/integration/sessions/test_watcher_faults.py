"""A watcher whose survey fails: it says so, goes on with the others, and makes up for it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from corral.model.change import SessionChange, Troubles, WatchEvent
from corral.model.session import Degraded
from corral.providers.contract import Provider
from corral.providers.registry import find_provider
from corral.sessions.watcher import Watcher

KIMI_SESSION, QWEN_SESSION = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"


class Faulty:
    """A provider of which a bug can be switched on."""

    def __init__(self, real: Provider) -> None:
        self._real = real
        self.broken = False

    def list_sessions(self, *words: Any, **named: Any) -> object:
        if self.broken:
            raise KeyError("a field nobody thought of")
        return self._real.list_sessions(*words, **named)

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


@pytest.fixture
def arrived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> queue.Queue[WatchEvent]:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"CORRAL_{name}_DIR", str(tmp_path / name.lower()))
    return queue.Queue()


def add_kimi_session(home: Path) -> None:
    session = home / ".kimi" / "sessions" / ("0" * 32) / KIMI_SESSION
    session.mkdir(parents=True)
    (session / "context.jsonl").write_text('{"role": "user", "content": "hello"}\n')


def add_qwen_session(home: Path) -> None:
    log = home / ".qwen" / "projects" / "-app" / "chats" / f"{QWEN_SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    record = f'{{"uuid": "u", "sessionId": "{QWEN_SESSION}", "type": "user", "cwd": "/app", "timestamp": '
    log.write_text(record + '"2026-11-16T09:00:00.000Z", "message": {"role": "user", "parts": [{"text": "hello"}]}}\n')


def test_a_survey_that_fails_is_told_harms_no_other_provider_and_is_made_up_for(
    tmp_path: Path, arrived: queue.Queue[WatchEvent]
) -> None:
    def wait_for(*wanted: Callable[[WatchEvent], bool]) -> None:
        """All of them, in any order."""
        left = list(wanted)
        while left:
            event = arrived.get(timeout=60)
            left = [one for one in left if not one(event)]

    def is_told(degraded: Sequence[Degraded]) -> bool:
        # Homes of other agents on this machine have this trouble too, and may have troubles of their own.
        return {one.provider for one in degraded if "nobody thought of" in one.reason} == {"kimi-cli"}

    def take(events: Sequence[WatchEvent]) -> None:
        for one in events:
            arrived.put(one)

    for name in (".kimi/sessions", ".qwen/projects"):
        (tmp_path / name).mkdir(parents=True)
    faulty = Faulty(find_provider("kimi-cli"))
    providers = [cast(Provider, faulty), find_provider("qwen-code")]
    watcher = Watcher(take, providers=providers)
    watcher.start()
    try:
        faulty.broken = True
        add_kimi_session(tmp_path)
        watcher.ask()
        wait_for(lambda one: isinstance(one, Troubles) and is_told(one.degraded))
        assert is_told(watcher.look().degraded)
        add_qwen_session(tmp_path)
        wait_for(lambda one: isinstance(one, SessionChange) and one.session.session_id == QWEN_SESSION)
        faulty.broken = False
        wait_for(
            lambda one: isinstance(one, SessionChange) and one.session.session_id == KIMI_SESSION,
            lambda one: isinstance(one, Troubles) and not is_told(one.degraded),
        )
    finally:
        watcher.stop()


def test_less_than_a_whole_survey_does_not_end_the_trouble_of_one_that_failed(
    tmp_path: Path, arrived: queue.Queue[WatchEvent]
) -> None:
    (tmp_path / ".kimi" / "sessions").mkdir(parents=True)
    faulty = Faulty(find_provider("kimi-cli"))
    watcher = Watcher(lambda events: [arrived.put(one) for one in events], providers=[cast(Provider, faulty)])

    def look(ids: set[str] | None) -> list[str]:
        watcher._try_survey("kimi-cli", lambda: watcher._survey("kimi-cli", ids))
        return [one.step for one in watcher._failed.values()]

    assert look(None) == []
    faulty.broken = True
    assert look(None) == ["look again"]
    faulty.broken = False
    assert look({KIMI_SESSION}) == ["look again"]
    assert look(None) == []
