"""Makes docs/sql.md from the views that `corral sql` offers."""

from __future__ import annotations

import textwrap
from pathlib import Path

from corral.usage.sql import View, list_views

PAGE = Path(__file__).resolve().parents[1] / "docs" / "sql.md"
_INTRODUCTION = """\
# Questions in SQL

`corral sql "SELECT …"` queries the [ledger](usage.md#the-ledger) in SQLite's dialect. Query the
views below; the tables beneath them may change.

```console
$ corral sql "SELECT day, sum(tokens) AS tokens, round(sum(cost_usd), 2) AS usd FROM usage_events GROUP BY day"
day          tokens    usd
2026-11-14  8120441   4.06
2026-11-15  6204518   3.10
$ corral sql "SELECT tool, program, count(*) AS n FROM tool_calls GROUP BY 1, 2 ORDER BY n DESC LIMIT 3"
tool       program    n
Shell      git      412
ReadFile   –        388
Shell      npm      120
$ corral sql --json "SELECT session_id, cost_usd FROM usage_sessions ORDER BY cost_usd DESC LIMIT 10"
```

- **A query can't change anything.** The file is opened read-only, and a query may only read these
  views: no other tables, no `ATTACH`, no `PRAGMA`, no extensions.
- **Logs are read first**, as `corral usage` does, so that the answer is up to date; `--stale`
  queries the ledger as it is.
- **All rows of the tables that a query reads are checked first.** A ledger that is not as it was
  written is [rebuilt](usage.md#the-ledger) before the query runs, and corral says so. Every answer
  says what was lost.
- **A query has ten seconds**; `--timeout S` gives it more or less.
- **Money**: `cost_usd` is computed per request with the same [prices](prices.md) as everywhere, as
  a floating-point number of US dollars. `corral usage` adds up exactly and knows your currency.
- **Times**: `at` is in epoch seconds; `time` and `day` are local. For another zone:
  `date(at + 8 * 3600, 'unixepoch')`.
- A table shows the first 1,000 rows; `--csv` and `--json` give all.

`python tools/make_sql_docs.py` makes this page from the definitions of the views
(`src/corral/usage/views.sql`); `corral sql --schema` prints the same.
"""


def build_page() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *map(_describe, list_views())])


def _describe(view: View) -> str:
    rows = [f"| `{column.name}` | {column.meaning} |" for column in view.columns]
    meaning = textwrap.fill(view.meaning, 100, break_long_words=False, break_on_hyphens=False)
    return "\n".join([f"## {view.name}", "", meaning, "", "| Column | Means |", "|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(build_page(), encoding="utf-8")
