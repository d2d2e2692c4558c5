"""Known records: a directory is known as a whole while nothing in it changed, and never longer."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from corral.model.key import Home
from corral.model.record import Resting, SessionRecord, SidecarHint, TurnState
from corral.providers.registry import find_provider
from corral.sessions.cache import BrokenCache, Cache
from tests.providers.kimi_support import FIXTURES, settle
from tests.unit.sessions.decide.facts import record

FINGERPRINT = b"as it looked"


def fill(cache: Cache) -> None:
    known = cache.known("kimi-cli", "/h")
    known.keep("/d/idle", (1,), record(session_id="idle"))
    known.keep("/d/lost", (2,), record(session_id="lost", turn=TurnState.OPEN))
    known.keep("/d/claimed", (3,), record(session_id="claimed", sidecar=SidecarHint("/d/runtime.json", 7, "host")))
    known.settle("/d", FINGERPRINT)
    cache.keep(known)


def test_idle_sessions_stay_undecoded_and_the_others_are_there(tmp_path):
    cache = Cache(str(tmp_path))
    fill(cache)
    found = cache.known("kimi-cli", "/h").find_settled("/d", FINGERPRINT)
    assert found is not None
    records = {one.session_id for one in found if isinstance(one, SessionRecord)}
    (resting,) = [one for one in found if isinstance(one, Resting)]
    assert records == {"lost", "claimed"}
    assert list(resting.ids) == ["idle"]
    assert [one.session_id for one in resting.load()] == ["idle"]


def test_another_look_is_not_settled_and_each_is_asked_for(tmp_path):
    cache = Cache(str(tmp_path))
    fill(cache)
    known = cache.known("kimi-cli", "/h")
    assert known.find_settled("/d", b"as it looks now") is None
    assert known.find("/d/idle", (1,)) == record(session_id="idle")
    assert known.find("/d/lost", (9,)) is None
    cache.keep(known)
    again = cache.known("kimi-cli", "/h")
    assert again.find_settled("/d", FINGERPRINT) is None, "a directory that was not settled has no fingerprint"
    assert again.find("/d/idle", (1,)) is not None
    assert again.find("/d/lost", (2,)) is None


def test_a_settled_directory_is_kept_as_it_is_and_one_that_went_is_forgotten(tmp_path):
    cache = Cache(str(tmp_path))
    fill(cache)
    known = cache.known("kimi-cli", "/h")
    assert known.find_settled("/d", FINGERPRINT) is not None
    assert known.changes() == {}
    assert cache.known("kimi-cli", "/h").changes() == {"/d": None}


def test_what_no_one_wrote_is_told_and_not_believed(tmp_path):
    cache = Cache(str(tmp_path))
    fill(cache)
    with sqlite3.connect(tmp_path / "cache.db") as db:
        db.execute("UPDATE records SET resting = x'c1'")
    found = cache.known("kimi-cli", "/h").find_settled("/d", FINGERPRINT)
    assert found is not None
    (resting,) = [one for one in found if isinstance(one, Resting)]
    with pytest.raises(BrokenCache):
        resting.load()


@pytest.mark.parametrize("name", ["kimi-cli", "kimi-code"])
def test_every_change_on_disk_is_seen_through_the_cache(tmp_path: Path, name: str):
    """Whatever is changed, a listing that knows the earlier one gives what a listing that knows nothing gives."""
    tree = tmp_path / "home"
    shutil.copytree(FIXTURES / name, tree, symlinks=True)
    settle(tree)
    provider = find_provider(name)
    home = Home(provider=name, path=str(tree), is_default=False, origin="test")
    logs = sorted(tree.rglob("wire.jsonl"))
    assert logs

    def listing(cache: Cache) -> list[str]:
        known = cache.known(name, str(tree))
        found: list[SessionRecord] = []
        for entry in provider.list_sessions(home, known):
            if isinstance(entry, Resting):
                found += entry.load()
            elif isinstance(entry, SessionRecord):
                found.append(entry)
        cache.keep(known)
        return sorted(repr(one) for one in found)

    kept = Cache(str(tmp_path / "cache"))
    changes = [
        lambda: logs[0].write_bytes(logs[0].read_bytes() + b'{"type": "turn.begin"}\n'),
        lambda: logs[-1].write_bytes(b""),
        lambda: logs[0].unlink(),
        lambda: (logs[-1].parent / "beside.json").write_text("{}"),
        lambda: shutil.rmtree(logs[-1].parent),
        lambda: None,
    ]
    for number, change in enumerate(changes):
        listing(kept)
        settled = listing(kept)
        assert settled == listing(Cache(str(tmp_path / f"settled{number}")))
        change()
        assert listing(kept) == listing(Cache(str(tmp_path / f"changed{number}")))
        settle(tree)
