"""What a listing of kimi-code keeps, and when it reads again."""

from __future__ import annotations

import json
from pathlib import Path

from corral.model.record import SessionRecord
from tests.providers.kimi_code.support import NORMAL, listing
from tests.providers.kimi_support import settle
from tests.providers.reading import Memory


class TestKnown:
    def test_a_second_listing_reads_nothing_and_a_change_is_read(self, tree: Path, bucket: Path) -> None:
        settle(tree)
        memory = Memory()
        first = listing(tree, memory)
        assert (memory.missed, len(memory.kept)) == (6, 6)
        assert listing(tree, memory) == first
        assert memory.missed == 6
        # As kimi-code writes it: a new file in the place of the old one.
        (bucket / NORMAL / "state.json.tmp").write_text(json.dumps({"id": NORMAL, "cwd": "/elsewhere"}))
        (bucket / NORMAL / "state.json.tmp").rename(bucket / NORMAL / "state.json")
        found = {item.session_id: item for item in listing(tree, memory) if isinstance(item, SessionRecord)}
        assert (memory.missed, found[NORMAL].work_dir) == (7, "/elsewhere")
