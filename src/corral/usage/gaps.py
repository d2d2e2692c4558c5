"""What is not in a report: lines and logs that were skipped, calls without tokens, and what was lost."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator

from corral.model.usage_report import LossRow, SkipRow, UnrecordedRow, UsageQuery
from corral.usage.ledger import Ledger
from corral.usage.rows import Row

_PLACED = (
    ("provider", "json_extract(described, '$.provider')"),
    ("project", "json_extract(described, '$.work_dir')"),
    ("session", "nullif(json_extract(described, '$.session_id'), '')"),
)
"""What is known of a whole file, by filter. A file of a whole home names no project and no session."""


def list_skips(ledger: Ledger, query: UsageQuery) -> tuple[list[SkipRow], list[str]]:
    """What was skipped of what is asked about, each once; and the filters of which not all of it is known."""
    _check_skips(ledger)
    asked = [(name, column, value) for name, column in _PLACED if (value := getattr(query, name)) is not None]
    known = "".join(f", {column} IS NULL" for _, column, _ in asked)
    where = " AND ".join(f"coalesce({column}, ?) = ?" for _, column, _ in asked)
    rows = ledger.db.execute(
        f"SELECT path, skips.offset, reason{known} FROM skips CROSS JOIN sources ON sources.id = source"
        f"{where and ' WHERE '}{where} ORDER BY 1, 2",
        [value for _, _, value in asked for _ in range(2)],
    ).fetchall()
    vague = [name for place, (name, _, _) in enumerate(asked, 3) if any(row[place] for row in rows)]
    if rows and (query.since, query.until) != (None, None):
        vague.append("time")
    if rows and query.model is not None:
        vague.append("model")
    return list(_name_once(rows)), vague


def _check_skips(ledger: Ledger) -> None:
    """Also the files in which something was skipped. Raises Damaged."""
    ledger.checks.tables("skips")
    sources = ledger.db.execute("SELECT DISTINCT source FROM skips").fetchall()
    ledger.checks.rows("sources", (source for (source,) in sources))


def _name_once(rows: Iterable[Row]) -> Iterator[SkipRow]:
    """A log that is reached by two names, as a linked directory gives it, is one log."""
    places: dict[str, str] = {}
    seen: set[tuple[str, str, int]] = set()
    for path, offset, reason, *_ in rows:
        directory, name = os.path.split(path)
        if directory not in places:
            places[directory] = os.path.realpath(directory)
        if (one := (places[directory], name, offset)) not in seen:
            seen.add(one)
            yield SkipRow(path=path, offset=offset, reason=reason)


def where_clause(query: UsageQuery, table: str) -> tuple[str, list[object]]:
    """The filters of a query as SQL over one of the tables that have a time."""
    filters = (
        (f"{table}.at >= ?", query.since),
        (f"{table}.at < ?", query.until),
        ("homes.provider = ?", query.provider),
        ("work_dir = ?", query.project),
        ("session_id = ?", query.session),
    )
    terms = [term for term, value in filters if value is not None]
    return (" WHERE " + " AND ".join(terms) if terms else ""), [value for _, value in filters if value is not None]


def list_unrecorded(ledger: Ledger, query: UsageQuery) -> list[UnrecordedRow]:
    """Calls that left a trace and no tokens, of any model: none is recorded of them."""
    where, values = where_clause(query, "unrecorded")

    ledger.checks.tables("unrecorded", "homes")
    owners = ledger.db.execute("SELECT DISTINCT session FROM unrecorded").fetchall()
    ledger.checks.rows("sessions", (session for (session,) in owners))
    rows = ledger.db.execute(
        "SELECT homes.provider, kind, count(*) FROM unrecorded"
        " CROSS JOIN sessions NOT INDEXED ON sessions.id = session"
        f" CROSS JOIN homes NOT INDEXED ON homes.id = sessions.home{where} GROUP BY 1, 2 ORDER BY 1, 2",
        values,
    )
    return [UnrecordedRow(provider=provider, kind=kind, events=count) for provider, kind, count in rows]


def say_vague(query: UsageQuery, unrecorded: list[UnrecordedRow], vague: list[str]) -> Iterator[str]:
    """Why more is named than was asked about."""
    if vague:
        yield f"what was skipped is named whatever its {' and '.join(vague)}: that is not known of all of it"
    if unrecorded and query.model is not None:
        yield "calls without tokens are named whatever their model: it is not recorded"


def list_concerned(ledger: Ledger, query: UsageQuery) -> set[str]:
    """The providers that have anything to do with what is asked about."""
    ledger.checks.tables("homes")
    if query.project is None and query.session is None:
        return {name for (name,) in ledger.db.execute("SELECT provider FROM homes") if query.provider in (None, name)}
    ledger.checks.tables("sessions")
    where, values = where_clause(query._replace(since=None, until=None), "")
    rows = ledger.db.execute(
        "SELECT DISTINCT provider FROM sessions NOT INDEXED CROSS JOIN homes NOT INDEXED"
        f" ON homes.id = sessions.home{where}",
        values,
    )
    return {name for (name,) in rows}


def list_losses(ledger: Ledger) -> tuple[LossRow, ...]:
    """Those that nobody has acknowledged. Raises Damaged."""
    if ledger.read_only:
        return ()
    ledger.checks.tables("losses")
    rows = ledger.db.execute(
        "SELECT noticed_at, what, rows, since, until FROM losses WHERE NOT acknowledged ORDER BY id"
    )
    return tuple(LossRow(*row) for row in rows)


def say_loss(loss: LossRow) -> str:
    """With the period that it concerns, in local days."""
    count = "an unknown number of" if loss.events is None else f"{loss.events:,}"
    maybe = " may be" if loss.events is None else " are"
    until = None if loss.until is None else _day(loss.until)
    if loss.since is None:
        period = "" if until is None else f" from before {until}"
    else:
        since = _day(loss.since)
        period = f" of {since}" if until in (None, since) else f" from {since} to {until}"
    return (
        f"{count} {loss.what}{period}{maybe} missing: they could not be saved when the ledger was found damaged on"
        f" {_day(loss.noticed_at)} (corral usage --acknowledge ends this note)"
    )


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
