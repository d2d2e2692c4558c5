"""Journals are read strictly: whole or with a reason, whatever lies there."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.hooks.journal import read_journal, read_journals
from corral.model.journal import Journal
from corral.model.record import Skipped

GOOD = {
    "schema": 1,
    "provider": "kimi-cli",
    "boot_id": "b",
    "pid_ns": 4026531836,
    "pid": 77,
    "start_ticks": 1234,
    "hostname": "host",
    "home": "/h/.kimi",
    "version": None,
    "many": False,
    "events": [
        {"event": "start", "session_id": "s1", "at": 1.5, "boottime": 0.5, "source": "startup",
         "work_dir": "/w", "scope": "x", "model": "k2", "model_source": "config.toml"},
        {"event": "end", "session_id": "s1", "at": 2.5, "boottime": 1.5, "reason": "exit"},
    ],
    "dropped_events": 0,
    "runtime_files": [],
}  # fmt: skip
BYTES = json.dumps(GOOD).encode()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("journals") / "77-1234.json"


def read(place, data: bytes):
    place.write_bytes(data)
    return read_journal(str(place), "kimi-cli")


def test_a_good_journal_is_read(place):
    journal = read(place, BYTES)
    assert isinstance(journal, Journal)
    assert journal.identity == ("b", 4026531836, 77, 1234)
    assert [event.session_id for event in journal.events] == ["s1", "s1"]
    assert journal.owner_uid == os.getuid()


def test_cut_at_any_byte_it_is_refused_with_a_reason(place):
    for length in range(len(BYTES)):
        found = read(place, BYTES[:length])
        assert isinstance(found, Skipped) and found.reason, length


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_are_refused_with_a_reason(place, data):
    found = read(place, data)
    assert isinstance(found, Skipped) and found.reason


@given(st.integers(0, len(BYTES) - 1), st.integers(0, 255))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=500)
def test_a_changed_byte_never_crashes_the_reader(place, position, byte):
    found = read(place, BYTES[:position] + bytes([byte]) + BYTES[position + 1 :])
    assert isinstance(found, Journal) or found.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": 2}, "schema 2"),
        ({"schema": True}, "not a journal"),
        ({"provider": "kimi-code"}, "journal of 'kimi-code'"),
        ({"pid": 0}, "no valid process"),
        ({"pid": True}, "not a journal"),
        ({"pid": 78}, "not the one in its name"),
        ({"start_ticks": -1}, "no valid process"),
        ({"boot_id": ""}, "no valid process"),
        (
            {"events": [{"event": "start", "session_id": "../x", "at": 1, "boottime": 1}]},
            "invalid session id",
        ),
        ({"events": [{"event": "pause", "session_id": "x", "at": 1, "boottime": 1}]}, "not a journal"),
        ({"events": {}}, "not a journal"),
    ],
)
def test_a_wrong_field_is_named(place, change, reason):
    found = read(place, json.dumps({**GOOD, **change}).encode())
    assert isinstance(found, Skipped) and reason in found.reason


def test_unknown_fields_of_a_later_corral_are_accepted(place):
    assert isinstance(read(place, json.dumps({**GOOD, "later": [1]}).encode()), Journal)


@pytest.mark.parametrize(
    "data",
    [b"[" * 100_000, b'{"schema":1,"x":' * 5000, b"\xff\xfe", b"\xef\xbb\xbf" + BYTES, b"null", b'"x"', b""],
)
def test_bombs_and_foreign_encodings_are_refused(place, data):
    assert isinstance(read(place, data), Skipped)


def test_a_directory_holds_good_and_bad_ones_side_by_side(tmp_path):
    directory = tmp_path / "journal" / "kimi-cli"
    directory.mkdir(parents=True)
    (directory / "77-1234.json").write_bytes(BYTES)
    (directory / "77-9.json").write_bytes(BYTES)
    (directory / ".77-1234.json.x.tmp").write_bytes(b"half")
    (directory / "link.json").symlink_to(directory / "77-1234.json")
    os.mkfifo(directory / "fifo.json")
    (directory / "folder.json").mkdir()
    found = read_journals(str(tmp_path), "kimi-cli")
    assert [type(one).__name__ for one in found] == ["Journal", *["Skipped"] * 4]


def test_no_directory_is_no_journal(tmp_path):
    assert read_journals(str(tmp_path), "kimi-cli") == []
