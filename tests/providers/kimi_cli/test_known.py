"""What a listing of kimi-cli keeps, and when it reads again."""

from __future__ import annotations

import os
import time
from pathlib import Path

from corral.model.record import SessionRecord
from tests.providers.kimi_cli.support import FORK, NORMAL, listing, wire_line
from tests.providers.kimi_support import settle
from tests.providers.reading import Memory


class TestKnown:
    def test_a_second_listing_reads_nothing_and_says_the_same(self, tree: Path) -> None:
        settle(tree)
        memory = Memory()
        first = listing(tree, memory)
        assert (memory.missed, len(memory.kept)) == (5, 5)
        assert listing(tree, memory) == first
        assert memory.missed == 5

    def test_what_changed_is_read_again(self, tree: Path, bucket: Path) -> None:
        settle(tree)
        memory = Memory()
        listing(tree, memory)
        with (bucket / NORMAL / "wire.jsonl").open("ab") as file:
            file.write(wire_line("TurnBegin", user_input="more"))
        (bucket / FORK / "new.tmp").write_text('{"custom_title": "renamed"}')
        (bucket / FORK / "new.tmp").rename(bucket / FORK / "state.json")
        found = {item.session_id: item for item in listing(tree, memory) if isinstance(item, SessionRecord)}
        assert memory.missed == 7
        assert found[NORMAL].unfinished == "more"
        assert found[FORK].title == "renamed"

    def test_a_lost_entry_in_kimi_json_is_noticed(self, tree: Path) -> None:
        settle(tree)
        memory = Memory()
        listing(tree, memory)
        (tree / "kimi.json").write_text('{"work_dirs": []}')
        assert all(item.work_dir is None for item in listing(tree, memory) if isinstance(item, SessionRecord))

    def test_what_was_just_written_is_not_kept(self, tree: Path, bucket: Path) -> None:
        settle(tree)
        future = time.time() + 60
        os.utime(bucket / NORMAL / "wire.jsonl", (future, future))
        memory = Memory()
        listing(tree, memory)
        assert str(bucket / NORMAL) not in memory.kept
