"""What is looked at again: every log for growth, every directory for names; nothing is listed that has not changed."""

from __future__ import annotations

import os
import time

import pytest

from corral.machine.visits import Visits
from corral.usage.changes import find_changes, load_watch, make_watch, to_memos
from corral.usage.ledger import Ledger

HOUR_NS = 3_600 * 10**9


class Tree:
    """Directories that were listed an hour ago."""

    def __init__(self, root) -> None:
        self.root = root
        for name in ("a", "b"):
            (root / name).mkdir()
            (root / name / "log").write_text("one\n")
        self.age()

    def age(self) -> None:
        old = time.time_ns() - HOUR_NS
        for path in (*self.root.rglob("*"), self.root):
            os.utime(path, ns=(old, old))
        time.sleep(0.1)  # the time of that change itself can't be set

    def watch(self, *, tied: bool = False):
        visits, files = Visits(), {}
        visits.scan_below(str(self.root))
        for name in ("a", "b"):
            log = self.root / name / "log"
            files[str(log)] = log.stat()
            if tied:
                visits.tie(str(self.root / name), str(log))
        return make_watch(files, visits, time.time_ns())


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    root.mkdir()
    return Tree(root)


def test_nothing_changed_is_nothing_to_read(tree):
    watch = tree.watch()
    changes = find_changes(watch)
    assert changes is not None and changes.files == [] and changes.watch == watch


def test_a_log_that_grew_is_named(tree):
    watch = tree.watch()
    with open(tree.root / "a" / "log", "a") as file:
        file.write("two\n")
    changes = find_changes(watch)
    assert changes is not None and changes.files == [str(tree.root / "a" / "log")]
    again = find_changes(changes.watch)
    assert again is not None and again.files == []


def test_a_log_that_was_replaced_by_one_of_the_same_size_and_time_is_named(tree):
    watch = tree.watch()
    log = tree.root / "a" / "log"
    seen = log.stat()
    (tree.root / "new").write_text("eno\n")
    os.replace(tree.root / "new", log)
    os.utime(log, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    changes = find_changes(watch)
    assert changes is not None and changes.files == [str(log)]


@pytest.mark.parametrize("what", ["file", "directory", "gone", "whole directory gone"])
def test_names_that_come_or_go_call_for_a_listing(tree, what):
    watch = tree.watch()
    if what == "file":
        (tree.root / "a" / "other").write_text("")
    elif what == "directory":
        (tree.root / "c").mkdir()
    elif what == "gone":
        os.unlink(tree.root / "a" / "log")
    else:
        os.unlink(tree.root / "a" / "log")
        os.rmdir(tree.root / "a")
    assert find_changes(watch) is None


def test_a_file_that_is_replaced_beside_the_log_calls_for_nothing(tree):
    (tree.root / "a" / "state.json").write_text("{}")
    tree.age()
    watch = tree.watch()
    (tree.root / "a" / "tmp").write_text("{1}")
    os.replace(tree.root / "a" / "tmp", tree.root / "a" / "state.json")
    changes = find_changes(watch)
    assert changes is not None and changes.files == []


def test_a_directory_that_changed_while_it_was_listed_is_looked_at_again(tree):
    (tree.root / "late").mkdir()
    watch = tree.watch()
    os.utime(
        tree.root, ns=(0, (tree.root).stat().st_mtime_ns)
    )  # a change within the clock's grain leaves no other time
    os.rmdir(tree.root / "late")
    assert find_changes(watch) is None


def test_names_beside_a_tied_log_are_compared_when_it_grows(tree):
    watch = tree.watch(tied=True)
    (tree.root / "a" / "subagents").mkdir()
    unseen = find_changes(watch)
    assert unseen is not None and unseen.files == []
    with open(tree.root / "a" / "log", "a") as file:
        file.write("two\n")
    assert find_changes(watch) is None


def test_a_directory_that_did_not_exist_is_noticed_when_it_does(tmp_path):
    visits = Visits()
    visits.scan(str(tmp_path / "sessions"))
    watch = make_watch({}, visits, time.time_ns())
    unchanged = find_changes(watch)
    assert unchanged is not None
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "one").mkdir()
    assert find_changes(watch) is None


def test_it_is_kept_with_names_of_any_bytes(tree, tmp_path):
    odd = os.fsdecode(os.fsencode(str(tree.root)) + b"/\xff\n\xc3\xa4")
    os.mkdir(odd)
    tree.age()
    watch = tree.watch()
    ledger = Ledger(str(tmp_path / "state"))
    ledger.begin_scan()
    ledger.keep_snapshot(to_memos(watch))
    assert load_watch(ledger) == watch
    ledger.keep_snapshot({"watch.stamps": b"torn"})
    assert load_watch(ledger) is None


def test_a_file_that_could_not_be_read_is_looked_at_again(tree):
    visits = Visits()
    visits.scan_below(str(tree.root))
    log = str(tree.root / "a" / "log")
    changes = find_changes(make_watch({log: None}, visits, time.time_ns()))
    assert changes is not None and changes.files == [log]
