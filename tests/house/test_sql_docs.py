"""The page about SQL is made from the views, and the views are as they are described."""

from __future__ import annotations

import runpy
from pathlib import Path

from corral.usage.ledger import Ledger
from corral.usage.sql import GuardedLedger, list_views

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_what_the_tool_makes_of_the_views():
    tool = runpy.run_path(str(ROOT / "tools" / "make_sql_docs.py"))
    assert tool["PAGE"].read_text(encoding="utf-8") == tool["build_page"](), "run python tools/make_sql_docs.py"


def test_every_view_has_the_columns_that_are_described(tmp_path):
    ledger = Ledger(str(tmp_path))
    ledger.close()
    guarded = GuardedLedger(ledger.path, lambda *_: None, 10)
    for view in list_views():
        found = guarded.execute(f"SELECT * FROM {view.name}").description
        assert [column[0] for column in found] == [column.name for column in view.columns]
        assert view.meaning.endswith(".")
    guarded.close()
