"""Launch records, copies and locks: durable before the start, and honest after it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from corral.model.key import SessionKey
from corral.state.launches import Launch, Launches, find_damage
from tests.unit.sessions.decide.facts import identity

KEY = SessionKey("kimi-cli", "/h/.kimi", "bucket", "s1")


def launch(launches: Launches, original, **changes: object) -> Launch:
    copies = (launches.keep_copy(KEY, str(original)),)
    fields: dict[str, object] = {
        "key": KEY,
        "identity": tuple(identity(10)),
        "launched_at": 100.0,
        "argv": ("kimi",),
        "cwd": "/",
        "copies": copies,
    }
    return Launch(**{**fields, **changes})  # pyright: ignore[reportArgumentType]


@pytest.fixture
def launches(tmp_path):
    return Launches(str(tmp_path / "state"))


@pytest.fixture
def original(tmp_path):
    path = tmp_path / "context.jsonl"
    path.write_bytes(b"the earlier conversation\n")
    return path


def test_a_record_is_read_back(launches, original):
    written = launch(launches, original)
    launches.write(written)
    (found,) = launches.read_all()
    assert found.key == KEY and found.process == identity(10)
    assert os.path.dirname(found.path).endswith("launches")


def test_torn_and_foreign_records_are_nobodys_evidence(launches, original, tmp_path):
    launches.write(launch(launches, original))
    (place,) = (tmp_path / "state" / "launches").iterdir()
    whole = place.read_bytes()
    for length in range(len(whole)):
        place.write_bytes(whole[:length])
        assert launches.read_all() == []
    place.unlink()
    os.mkfifo(place)
    assert launches.read_all() == []


def test_growth_is_no_damage(launches, original):
    kept = launch(launches, original)
    original.write_bytes(b"the earlier conversation\nand more\n")
    assert find_damage(kept) is None


@pytest.mark.parametrize("after", [b"", b"the earlier conv", b"THE earlier conversation\nand more\n"])
def test_a_lost_beginning_is_damage_and_names_the_copy(launches, original, after):
    kept = launch(launches, original)
    original.write_bytes(after)
    assert kept.copies[0].copy in (find_damage(kept) or "")
    original.unlink()
    assert kept.copies[0].copy in (find_damage(kept) or "")


def test_copies_are_private_exact_and_few(launches, original):
    copies = [launches.keep_copy(KEY, str(original)).copy for _ in range(6)]
    left = [path for path in copies if os.path.exists(path)]
    assert left == copies[-3:]
    for path in left:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert Path(path).read_bytes() == original.read_bytes()


def test_one_start_per_session_and_per_home(launches):
    lease = launches.lock_session(KEY)
    assert lease is not None
    assert launches.lock_session(KEY) is None
    assert launches.lock_session(SessionKey("kimi-cli", "/h/.kimi", "bucket", "s2")) is not None
    os.close(lease)
    assert launches.lock_session(KEY) is not None
    turn = launches.lock_home(KEY, 0.0)
    assert turn is not None
    assert launches.lock_home(SessionKey("kimi-cli", "/h/.kimi", "other", "s9"), 0.1) is None


def test_old_records_are_forgotten_unless_they_tell_a_problem(launches, original):
    launches.write(launch(launches, original))
    launches.write(launch(launches, original, identity=tuple(identity(11)), problem="lost"))
    launches.sweep(now=100.0 + 86_400 * 29)
    assert len(launches.read_all()) == 2
    launches.sweep(now=100.0 + 86_400 * 31)
    assert [one.problem for one in launches.read_all()] == ["lost"]
