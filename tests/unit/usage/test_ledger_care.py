"""How the ledger survives: copies of it, a first reading that is killed, pages that are torn, a disk that is full."""

from __future__ import annotations

import os
import random
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from corral.usage.checks import Damaged
from corral.usage.ledger import COPIES, Ledger
from corral.usage.rebuild import rebuild as rebuild_in
from corral.usage.report import list_losses
from corral.usage.rows import digest
from corral.usage.salvage import keep_damaged
from corral.usage.schema import SCHEMA
from tests.unit.usage.readings import MadeUpPricer, check_all, kept_sums, reading, set_schema, to_schema_4, true_sums
from tests.usage_truth.world import dump

DAY = 86_400


@pytest.fixture(autouse=True)
def no_logs(tmp_path, monkeypatch):
    """What is in the ledger is known to it alone."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def rebuild(place: Path) -> Ledger:
    return rebuild_in(str(place), "a torn page", os.stat(place / "ledger.db"))


def fill(ledger: Ledger, sessions: int = 30) -> None:
    for number in range(sessions):
        events = [(f"{number}-{key}", 1_000.0 * key, 10, "m") for key in range(60)]
        ledger.store([reading(f"s{number}", events)], MadeUpPricer())


class TestBackup:
    def test_there_are_at_most_so_many_and_one_a_day(self, tmp_path):
        ledger = Ledger(str(tmp_path))
        fill(ledger, 2)
        now = os.stat(ledger.path).st_mtime
        made = []
        for half_day in range(12):
            if ledger.back_up(now + half_day * DAY / 2):
                made.append(half_day)
                os.utime(f"{ledger.path}.1", (now + half_day * DAY / 2,) * 2)
        assert made == [0, 2, 4, 6, 8, 10]
        assert sorted(path.name for path in tmp_path.glob("ledger.db.*[0-9]")) == [
            f"ledger.db.{number}" for number in range(1, COPIES + 1)
        ]

    def test_a_copy_is_whole_and_private(self, tmp_path):
        ledger = Ledger(str(tmp_path))
        fill(ledger, 3)
        assert ledger.back_up()
        copy = sqlite3.connect(f"{ledger.path}.1")
        assert copy.execute("SELECT count(*) FROM events").fetchone() == (180,)
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert stat.S_IMODE(os.stat(f"{ledger.path}.1").st_mode) == 0o600

    def test_a_copy_that_fails_leaves_the_older_ones(self, tmp_path, monkeypatch):
        ledger = Ledger(str(tmp_path))
        fill(ledger, 1)
        assert ledger.back_up()
        os.utime(f"{ledger.path}.1", (0, 0))
        ledger.db.close()
        with pytest.raises(sqlite3.ProgrammingError):
            ledger.back_up()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.db", "ledger.db.1"]


class TestBuiltAside:
    def test_it_appears_only_when_it_is_published(self, tmp_path):
        ledger = Ledger(str(tmp_path), aside=True)
        fill(ledger, 2)
        assert not (tmp_path / "ledger.db").exists()
        ledger.publish()
        assert [path.name for path in tmp_path.glob("ledger.db*") if "-" not in path.name] == ["ledger.db"]
        assert Ledger(str(tmp_path)).db.execute("SELECT count(*) FROM events").fetchone() == (120,)
        ledger.store([reading("more", [("x", 1.0, 1, "m")])], MadeUpPricer())
        assert kept_sums(ledger) == true_sums(ledger)

    def test_what_is_not_published_leaves_nothing(self, tmp_path):
        ledger = Ledger(str(tmp_path), aside=True)
        fill(ledger, 1)
        ledger.close()
        assert list(tmp_path.iterdir()) == []

    def test_the_first_of_two_wins_and_the_other_goes_on_with_it(self, tmp_path):
        one, two = (Ledger(str(tmp_path), aside=True) for _ in range(2))
        two._aside = f"{two._aside}-other"  # as in another process
        two.db.close()
        two.db = two._open()
        one.store([reading("one", [("a", 1.0, 1, "m")])], MadeUpPricer())
        two.store([reading("two", [("b", 1.0, 1, "m")])], MadeUpPricer())
        one.publish()
        two.publish()
        assert two.db.execute("SELECT key FROM events").fetchall() == [(digest("kimi-code", "a"),)]
        two.store([reading("two", [("b", 1.0, 1, "m")])], MadeUpPricer())
        assert one.db.execute("SELECT count(*) FROM events").fetchone() == (2,)

    def test_what_a_killed_one_left_is_removed_a_day_later(self, tmp_path):
        left, running = tmp_path / "ledger.db.new-1", tmp_path / "ledger.db.new-2"
        for path in (left, running):
            path.write_text("x")
        os.utime(left, (0, 0))
        Ledger(str(tmp_path), aside=True).close()
        assert not left.exists() and running.exists()


class TestBroken:
    def break_pages(self, path, share: float) -> None:
        """Overwrite some pages in the middle, as a torn write does."""
        data = bytearray(path.read_bytes())
        middle = int(len(data) * share) // 4096 * 4096
        data[middle : middle + 4 * 4096] = b"\xa5" * (4 * 4096)
        path.write_bytes(bytes(data))

    @pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.85])
    def test_pages_torn_in_the_middle_cost_only_what_was_on_them_and_that_is_said(self, tmp_path, share):
        ledger = Ledger(str(tmp_path))
        fill(ledger)
        ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ledger.close()
        self.break_pages(tmp_path / "ledger.db", share)
        again = rebuild(tmp_path)
        (events, actions) = again.db.execute("SELECT count(*), (SELECT count(*) FROM actions) FROM events").fetchone()
        assert events > 0
        assert kept_sums(again) == true_sums(again)
        check_all(again)
        said = {loss.what: loss for loss in list_losses(again)}
        for name, count in (("requests", events), ("turns and calls of tools", actions)):
            if count < 30 * 60:
                assert said[name].events == 30 * 60 - count
            else:
                assert name not in said

    @pytest.mark.parametrize("share", [0.0, 0.15, 0.5])
    def test_what_the_damage_took_comes_back_from_a_copy(self, tmp_path, share):
        ledger = Ledger(str(tmp_path))
        fill(ledger)
        assert ledger.back_up()
        ledger.store([reading("late", [("late", 1.0, 1, "m")])], MadeUpPricer())
        ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ledger.close()
        self.break_pages(tmp_path / "ledger.db", share)
        again = rebuild(tmp_path)
        late = digest("kimi-code", "late")
        assert again.db.execute("SELECT count(*) FROM events WHERE key != ?", (late,)).fetchone() == (30 * 60,)
        assert again.db.execute("SELECT count(*) FROM sessions WHERE session_id != 'late'").fetchone() == (30,)
        assert kept_sums(again) == true_sums(again)
        check_all(again)

    @pytest.mark.parametrize("seed", range(12))
    def test_damage_to_the_first_hundred_bytes_costs_nothing(self, tmp_path, seed):
        chance = random.Random(seed)
        ledger = Ledger(str(tmp_path))
        fill(ledger, 3)
        ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ledger.close()
        path = tmp_path / "ledger.db"
        data = bytearray(path.read_bytes())
        begin = chance.randrange(100) if seed else 0
        end = min(100, begin + (chance.randrange(1, 60) if seed else 50))
        data[begin:end] = bytes(byte ^ chance.randrange(1, 256) for byte in data[begin:end])
        path.write_bytes(bytes(data))
        new = rebuild(tmp_path)
        assert new.db.execute("SELECT count(*), (SELECT count(*) FROM actions) FROM events").fetchone() == (180, 180)
        assert kept_sums(new) == true_sums(new) and list_losses(new) == ()
        assert [kept.read_bytes() for kept in tmp_path.glob("ledger.db.broken-*[0-9]")] == [bytes(data)]
        assert not list(tmp_path.rglob("ledger.db.new-*"))

    @pytest.mark.parametrize("in_log", [False, True])
    def test_a_ledger_with_a_lost_header_goes_on_with_all_it_had(self, tmp_path, in_log):
        ledger = Ledger(str(tmp_path / "old"))
        fill(ledger, 3)
        ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if in_log:
            ledger.store([reading("late", [("late", 1.0, 1, "m")])], MadeUpPricer())
        shutil.copytree(tmp_path / "old", tmp_path / "new")  # as a crash leaves it
        ledger.close()
        path = tmp_path / "new" / "ledger.db"
        damaged = random.Random(1).randbytes(50) + path.read_bytes()[50:]
        path.write_bytes(damaged)
        again = rebuild(tmp_path / "new")
        assert again.db.execute("SELECT count(*) FROM events").fetchone() == (180 + in_log,)
        assert [kept.read_bytes() for kept in path.parent.glob("ledger.db.broken-*[0-9]")] == [damaged]
        assert kept_sums(again) == true_sums(again)

    def test_a_lost_wal_costs_the_last_transactions_only(self, tmp_path):
        ledger = Ledger(str(tmp_path / "old"))
        fill(ledger, 3)
        ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ledger.store([reading("late", [("late", 1.0, 1, "m")])], MadeUpPricer())
        (tmp_path / "new").mkdir()
        shutil.copy(ledger.path, tmp_path / "new" / "ledger.db")
        again = Ledger(str(tmp_path / "new"))
        assert again.notice is None
        assert again.db.execute("SELECT count(*) FROM events").fetchone() == (180,)
        again.store([reading("late", [("late", 1.0, 1, "m")])], MadeUpPricer())
        assert again.db.execute("SELECT count(*) FROM events").fetchone() == (181,)
        assert kept_sums(again) == true_sums(again)


class TestDisk:
    def test_a_full_disk_leaves_what_was_there(self, tmp_path):
        """A limit on the size of files stands for the disk: SQLite gets the same kind of error."""
        ledger = Ledger(str(tmp_path))
        fill(ledger, 2)
        ledger.close()
        code = (
            "import sys, sqlite3\n"
            "from tests.unit.usage.test_ledger_care import fill\n"
            "from corral.usage.ledger import Ledger\n"
            "try:\n    fill(Ledger(sys.argv[1]), 400)\n"
            "except sqlite3.OperationalError as error:\n    print(error)\n    sys.exit(7)\n"
        )
        limit = os.path.getsize(tmp_path / "ledger.db") + 100_000
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 7, done.stderr
        again = Ledger(str(tmp_path))
        assert again.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert again.db.execute("SELECT count(*) FROM events").fetchone()[0] >= 120
        assert kept_sums(again) == true_sums(again)

    def test_without_a_place_it_lives_in_memory_and_begins_with_what_can_be_read(self, tmp_path):
        ledger = Ledger(str(tmp_path))
        fill(ledger, 2)
        ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ledger.close()
        before = (tmp_path / "ledger.db").read_bytes()
        memory = Ledger(str(tmp_path), unwritable="Read-only file system")
        memory.store([reading("new", [("n", 1.0, 1, "m")])], MadeUpPricer())
        assert memory.db.execute("SELECT count(*) FROM events").fetchone() == (121,)
        assert "Read-only file system" in (memory.notice or "")
        memory.publish()
        assert not memory.back_up()
        memory.close()
        assert (tmp_path / "ledger.db").read_bytes() == before


class TestReadOnly:
    def test_a_ledger_that_can_not_be_written_is_refused_and_read_into_memory(self):
        place = tempfile.mkdtemp()  # others may enter it, unlike pytest's own
        try:
            ledger = Ledger(place)
            fill(ledger, 2)
            ledger.close()
            os.chmod(ledger.path, 0o444)
            os.chmod(place, 0o555)
            child = os.fork()
            if child == 0:
                os._exit(_open_as_a_stranger(place))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        finally:
            os.chmod(place, 0o700)
            shutil.rmtree(place)

    def test_a_path_with_the_signs_of_a_uri_is_read_all_the_same(self, tmp_path):
        place = tmp_path / "50%41 #1?"
        ledger = Ledger(str(place))
        fill(ledger, 1)
        ledger.close()
        set_schema(ledger.path, 99)
        newer = Ledger(str(place))
        assert newer.read_only and newer.db.execute("SELECT count(*) FROM events").fetchone() == (60,)
        newer.close()
        set_schema(ledger.path, 3)
        saved = rebuild(place)
        assert saved.db.execute("SELECT count(*) FROM events").fetchone() == (60,)
        saved.close()


class TestMigration:
    """From schema 4, which 0.1.0 made."""

    def test_nothing_is_read_again(self, tmp_path):
        ledger = Ledger(str(tmp_path))
        fill(ledger, 3)
        before = dump(ledger.path)
        ledger.close()
        to_schema_4(ledger.path)
        again = Ledger(str(tmp_path))
        check_all(again)
        assert again.notice is None and dump(again.path) == before
        assert again.db.execute("SELECT schema FROM about").fetchone() == (SCHEMA,)
        again.store([reading("late", [("late", 1.0, 1, "m")])], MadeUpPricer())
        check_all(again)

    @pytest.mark.parametrize("damage", ["UPDATE sources SET offset = 1", "DELETE FROM seals WHERE name = 'deeds'"])
    def test_damage_is_not_sealed_as_right(self, tmp_path, damage):
        ledger = Ledger(str(tmp_path))
        fill(ledger, 3)
        ledger.close()
        to_schema_4(ledger.path)
        with sqlite3.connect(ledger.path) as db:
            db.execute(damage)
        db.close()
        with pytest.raises(Damaged):
            Ledger(str(tmp_path))
        again = rebuild(tmp_path)
        assert again.db.execute("SELECT count(*) FROM events").fetchone() == (180,)
        assert again.db.execute("SELECT count(*) FROM actions").fetchone() == (180,)
        assert list_losses(again) == ()

    def test_where_nothing_can_be_written_it_is_read_all_the_same(self, tmp_path):
        ledger = Ledger(str(tmp_path))
        fill(ledger, 2)
        ledger.close()
        to_schema_4(ledger.path)
        before = (tmp_path / "ledger.db").read_bytes()
        memory = Ledger(str(tmp_path), unwritable="Read-only file system")
        assert memory.db.execute("SELECT count(*) FROM actions").fetchone() == (120,)
        memory.close()
        assert (tmp_path / "ledger.db").read_bytes() == before


def _open_as_a_stranger(place: str) -> int:
    """0 if all is as it should be. Root is asked for nothing, so it becomes somebody else."""
    try:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        try:
            Ledger(place)
        except OSError:
            memory = Ledger(place, unwritable="read-only")
            return 0 if memory.db.execute("SELECT count(*) FROM events").fetchone() == (120,) else 3
        return 2
    except BaseException:  # a child of the test's process must end here
        return 4


def test_a_second_set_aside_in_one_second_overwrites_nothing(tmp_path):
    path = str(tmp_path / "ledger.db")
    names = set()
    for number in range(3):
        with open(path, "w") as file:
            file.write(str(number))
        names.add(keep_damaged(path))
        os.unlink(path)
    assert sorted(Path(name).read_text() for name in names) == ["0", "1", "2"]
