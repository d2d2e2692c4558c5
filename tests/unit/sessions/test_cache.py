"""cache.db: valid only for an equal fingerprint, private, disposable, never in the way."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading

import msgspec

from corral.sessions.cache import Cache
from tests.unit.sessions.decide.facts import identity, record


def test_a_record_is_known_only_for_an_equal_fingerprint(tmp_path):
    cache = Cache(str(tmp_path / "cache"))
    known = cache.known("kimi-cli", "/h")
    assert known.find("/p", (1, 2)) is None
    known.keep("/p", (1, 2), record())
    cache.keep(known)
    again = Cache(str(tmp_path / "cache")).known("kimi-cli", "/h")
    assert again.find("/p", (1, 2)) == record()
    assert again.find("/p", (1, 3)) is None
    assert Cache(str(tmp_path / "cache")).known("kimi-cli", "/other").find("/p", (1, 2)) is None


def test_what_a_listing_no_longer_meets_is_forgotten(tmp_path):
    cache = Cache(str(tmp_path))
    known = cache.known("kimi-cli", "/h")
    for name in ("/a", "/b"):
        known.keep(name, (1,), record())
    cache.keep(known)
    second = cache.known("kimi-cli", "/h")
    assert second.find("/a", (1,)) is not None
    cache.keep(second)
    third = cache.known("kimi-cli", "/h")
    assert third.find("/b", (1,)) is None


def test_pins_are_found_by_file_pid_and_time(tmp_path):
    cache = Cache(str(tmp_path))
    cache.keep_pins([("/r", 5.0, identity(10))])
    assert cache.find_pin("/r", 10, 5.0) == identity(10)
    assert cache.find_pin("/r", 10, 6.0) is None
    cache.keep_pins([("/r", 6.0, identity(10, ticks=7))])
    assert cache.find_pin("/r", 10, 5.0) is None
    assert cache.find_pin("/r", 10, 6.0) == identity(10, ticks=7)


def test_a_death_keeps_the_time_when_it_was_first_seen(tmp_path):
    one, other = identity(10), identity(11)
    assert Cache(str(tmp_path)).note_deaths({one}, 5.0) == {one: 5.0}
    assert Cache(str(tmp_path)).note_deaths({one, other}, 6.0) == {one: 5.0, other: 6.0}
    long_after = 6.0 + 50 * 86_400
    assert Cache(str(tmp_path)).note_deaths({identity(12)}, long_after) == {identity(12): long_after}
    assert Cache(str(tmp_path)).note_deaths({one}, long_after) == {one: long_after}  # its journal is long gone


def test_a_programs_word_holds_for_that_very_file(tmp_path):
    program = tmp_path / "kimi"
    program.write_text("one")
    cache = Cache(str(tmp_path / "cache"))
    cache.keep_version(str(program), "2.1.0")
    assert cache.find_version(str(program)) == "2.1.0"
    program.unlink()
    assert cache.find_version(str(program)) is None
    (tmp_path / "another").write_text("two")
    os.rename(tmp_path / "another", program)
    assert cache.find_version(str(program)) is None


def test_nobody_else_can_read_it(tmp_path):
    directory = tmp_path / "cache"
    cache = Cache(str(directory))
    cache.keep_pins([("/r", 5.0, identity(10))])
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for path in directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_broken_file_is_replaced(tmp_path):
    for content in (b"not a database", b"SQLite format 3\0" + b"\xff" * 5000, b""):
        (tmp_path / "cache.db").write_bytes(content)
        cache = Cache(str(tmp_path))
        assert cache.problem is None
        cache.keep_pins([("/r", 5.0, identity(10))])
        assert cache.find_pin("/r", 10, 5.0) == identity(10)
        cache.close()


def test_a_record_of_another_shape_is_not_known(tmp_path):
    cache = Cache(str(tmp_path))
    known = cache.known("kimi-cli", "/h")
    known.keep("/p", (1,), record())
    cache.keep(known)
    with sqlite3.connect(tmp_path / "cache.db") as db:
        db.execute("UPDATE records SET resting = ?", (msgspec.msgpack.encode([["/p", 1, {"provider": 3}]]),))
    assert Cache(str(tmp_path)).known("kimi-cli", "/h").find("/p", (1,)) is None


def test_another_versions_file_starts_afresh(tmp_path):
    cache = Cache(str(tmp_path))
    cache.keep_pins([("/r", 5.0, identity(10))])
    cache.close()
    with sqlite3.connect(tmp_path / "cache.db") as db:
        db.execute("UPDATE about SET shape = 'older'")
    assert Cache(str(tmp_path)).find_pin("/r", 10, 5.0) is None


def test_without_a_place_nothing_is_known_and_nothing_fails(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = Cache(str(tmp_path / "file" / "cache"))
    assert cache.problem is not None
    known = cache.known("kimi-cli", "/h")
    known.keep("/p", (1,), record())
    cache.keep(known)
    cache.keep_pins([("/r", 5.0, identity(10))])
    assert cache.find_pin("/r", 10, 5.0) is None


def test_several_at_once_do_not_disturb_each_other(tmp_path):
    problems: list[object] = []

    def survey(number: int) -> None:
        cache = Cache(str(tmp_path))
        for turn in range(20):
            known = cache.known("kimi-cli", f"/h{number}")
            known.keep(f"/p{number}", (turn,), record())
            cache.keep(known)
            if cache.known("kimi-cli", f"/h{number}").find(f"/p{number}", (turn,)) is None and cache.problem is None:
                problems.append(turn)

    threads = [threading.Thread(target=survey, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
