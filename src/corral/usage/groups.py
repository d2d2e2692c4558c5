"""Sums of the ledger by the keys of a query: added up by SQLite from quarters of an hour, with local names of times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise

from corral.model.usage_report import TIME_KEYS, UsageQuery
from corral.usage.checks import DAY, QUARTER_S, SUMS, Damaged
from corral.usage.ledger import Ledger
from corral.usage.rows import Row

SUMMED = SUMS[3:]
"""All but what they are added up by."""
NOT_OF_TURNS = frozenset({"model", "branch"})
"""No provider records these of a turn."""
_OF_SESSIONS = frozenset({"session", "project", "provider"})
_LONGEST_DAYS = 4_000
_COLUMNS = {
    "session": ("provider", "session_id"),
    "project": ("work_dir",),
    "model": ("nullif(labels.model, '')",),
    "provider": ("provider",),
    "branch": ("nullif(labels.branch, '')",),
}
_CUT = f"""
SELECT CAST(at / {QUARTER_S} AS INTEGER) AS quarter, session,
    (
        SELECT id FROM labels NOT INDEXED
        WHERE model = coalesce(events.model, '') AND branch = coalesce(events.branch, '')
    ) AS label,
    0 AS turns, 1 AS events, input, cache_read, cache_write, cache_write_1h, output, reasoning,
    coalesce(dollars, 0) AS dollars, coalesce(picos, 0) AS picos, dollars IS NULL AS unpriced, assumed
FROM events WHERE session IN (SELECT session FROM quarters WHERE quarter = ?) AND at >= ? AND at < ?
UNION ALL SELECT CAST(at / {QUARTER_S} AS INTEGER), session,
    (SELECT id FROM labels NOT INDEXED WHERE model = '' AND branch = ''), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM actions
WHERE session IN (SELECT session FROM quarters WHERE quarter = ?) AND at >= ? AND at < ? AND kind = 'turn'"""
"""Of a quarter that the query cuts in two: the events and turns themselves, as rows of sums."""

_WHOLE = "(SELECT * FROM quarters WHERE quarter >= ? AND quarter < ?)"
_LAST_QUARTER = 281_000_000
"""That of the year 9989; clocks of the standard library end soon after."""

Sums = dict[tuple[str | None, ...], list[int]]
_Piece = tuple[str, list[int | float], int]
"""What to add up, as SQL, its values, and a quarter whose local name is that of all of it."""


def add_up(ledger: Ledger, query: UsageQuery) -> Sums:
    """By the query's keys: what `SUMMED` names. Turns mean nothing where a key or filter is not known of them."""
    columns = list(dict.fromkeys(column for name in query.by for column in _COLUMNS.get(name, ())))
    group = f" GROUP BY {', '.join(columns)}" if columns else ""
    rows = list(_select(ledger, query, ", ".join((*columns, *(f"sum({name})" for name in SUMMED))), group))
    rows = [row for row in rows if row[-1] is not None]  # else nothing was there to add up
    if any(type(number) is not int for row in rows for number in row[-len(SUMMED) :]):
        raise Damaged("sums are no numbers")
    labels = Labels(query.zone)
    found: Sums = {}
    for quarter, *row in rows:
        named = dict(zip(columns, row, strict=False))
        key = tuple(_name(part, named, labels, quarter) for part in query.by)
        sums, known = row[len(columns) :], found.get(key)
        found[key] = [*sums] if known is None else [one + other for one, other in zip(known, sums, strict=True)]
    return found


def list_models(ledger: Ledger, query: UsageQuery) -> set[str]:
    """The models of the requests that a query is about, as far as they are known."""
    rows = _select(ledger, query._replace(by=("model",)), "DISTINCT labels.model", "")
    return {model for _, model in rows if model}


def _select(ledger: Ledger, query: UsageQuery, what: str, group: str) -> Iterator[Row]:
    """Rows of all pieces, each after the quarter of its piece. All of it is checked before. Raises Damaged."""
    filters = (
        ("provider", query.provider),
        ("work_dir", query.project),
        ("session_id", query.session),
        ("labels.model", query.model),
    )
    terms = ["1", *(f"{column} = ?" for column, value in filters if value is not None)]
    values = [value for _, value in filters if value is not None]
    joined = ""
    if query.model is not None or not NOT_OF_TURNS.isdisjoint(query.by):
        joined += " CROSS JOIN labels NOT INDEXED ON labels.id = label"
        terms.append("events > 0")
    if query.provider or query.project or query.session or not _OF_SESSIONS.isdisjoint(query.by):
        joined += " CROSS JOIN sessions NOT INDEXED ON sessions.id = session"
        joined += " CROSS JOIN homes NOT INDEXED ON homes.id = sessions.home"
        ledger.checks.tables("sessions", "homes")
    ledger.checks.sums(*(None if at is None else int(at // QUARTER_S) for at in (query.since, query.until)))
    pieces = list(_list_pieces(ledger, query))
    for source, given, _ in pieces:
        if source != _WHOLE:
            sessions = ledger.db.execute("SELECT DISTINCT session FROM quarters WHERE quarter = ?", (given[0],))
            ledger.checks.sessions([session for (session,) in sessions.fetchall()])
    for source, given, quarter in pieces:
        rows = ledger.db.execute(
            f"SELECT {what} FROM {source}{joined} WHERE {' AND '.join(terms)}{group}", (*given, *values)
        )
        yield from ((quarter, *row) for row in rows)


def _name(key: str, named: dict[str, str | None], labels: Labels, quarter: int) -> str | None:
    if key in TIME_KEYS:
        return labels.find(key, quarter * QUARTER_S)
    parts = [named[column] for column in _COLUMNS[key]]
    return parts[0] if len(parts) == 1 else ":".join(part or "" for part in parts)


def _list_pieces(ledger: Ledger, query: UsageQuery) -> Iterator[_Piece]:
    """What is to be added up, each piece with a quarter whose local name is that of all of it.

    SQLite goes through the quarters of one day faster than it sorts all of them by day.
    """
    ((least,),) = ledger.db.execute("SELECT min(quarter) FROM quarters").fetchall()
    ((most,),) = ledger.db.execute("SELECT max(quarter) FROM quarters").fetchall()
    if least is None:
        return
    if not (isinstance(least, int) and isinstance(most, int) and 0 <= least <= most < _LAST_QUARTER):
        ledger.checks.sums()  # some log has such times, or somebody else
    since = 0.0 if query.since is None else query.since
    until = float((most + 1) * QUARTER_S) if query.until is None else query.until
    first, last = -int(-since // QUARTER_S), int(until // QUARTER_S)
    times = [name for name in query.by if name in TIME_KEYS]
    begin, end = max(first, least), min(last, most + 1)
    cuts = _list_cuts(ledger, query.zone, begin, end, 4 if "hour" in times else DAY) if times else [begin, end]
    for one, other in pairwise(cuts):
        yield _WHOLE, [one, other], one
    for quarter in {first - 1, last}:
        bounds = [max(since, quarter * QUARTER_S), min(until, (quarter + 1) * QUARTER_S)]
        if not first <= quarter < last and bounds[0] < bounds[1] and least <= quarter <= most:
            yield f"({_CUT})", [quarter, *bounds, quarter, *bounds], quarter


def _list_cuts(ledger: Ledger, zone: tzinfo, begin: int, end: int, unit: int) -> list[int]:
    """Where local days (or hours: `unit` is in quarters) begin and end."""
    days = range(begin // DAY, (end - 1) // DAY + 1)
    stretches: list[Sequence[int]] = [days] if days else []
    if len(days) > _LONGEST_DAYS:  # some log has a time from far away: between days that nothing has, nothing is cut
        found = ledger.db.execute(f"SELECT DISTINCT quarter / {DAY} FROM quarters ORDER BY 1")
        stretches = [[day] for (day,) in found]
    cuts = {begin, end}
    for stretch in stretches:
        last = (stretch[-1] + 1) * DAY
        cuts.add(last)
        for (start, offset), (stop, _) in pairwise([*_list_offsets(zone, stretch), (last, 0)]):
            cuts.add(start)
            cuts.update(range(start + (-start - offset) % unit, stop, unit))
    return sorted(cut for cut in cuts if begin <= cut <= end)


def _list_offsets(zone: tzinfo, days: Sequence[int]) -> Iterator[tuple[int, int]]:
    """From which quarter on which offset holds, for some days (UTC)."""

    def offset_at(quarter: int) -> int:
        delta = datetime.fromtimestamp(quarter * QUARTER_S, zone).utcoffset()
        return int(delta.total_seconds() // QUARTER_S) if delta is not None else 0

    known: int | None = None
    for day in days:
        begin, end = day * DAY, (day + 1) * DAY
        first = offset_at(begin)
        if first != known:
            yield begin, first
        known = offset_at(end - 1)
        if first != known:
            yield _find_turn(offset_at, begin, end - 1), known


def _find_turn(offset_at: Callable[[int], int], begin: int, end: int) -> int:
    """The first quarter that has the offset of `end`, where that of `begin` is another."""
    first = offset_at(begin)
    while end - begin > 1:
        middle = (begin + end) // 2
        begin, end = (middle, end) if offset_at(middle) == first else (begin, middle)
    return end


class Labels:
    """Local names of times, worked out once per quarter of an hour."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._known: dict[tuple[str, int], str] = {}

    def find(self, kind: str, at: float) -> str:
        slot = int(at // QUARTER_S)
        if (kind, slot) not in self._known:
            self._known[kind, slot] = _name_time(kind, datetime.fromtimestamp(slot * QUARTER_S, self._zone))
        return self._known[kind, slot]


def _name_time(kind: str, local: datetime) -> str:
    match kind:
        case "day":
            return local.date().isoformat()
        case "week":
            return (local.date() - timedelta(days=local.weekday())).isoformat()
        case "month":
            return local.date().isoformat()[:7]
        case _:
            # When clocks go back an hour comes twice: the second one says so.
            return f"{local.date().isoformat()} {local.hour:02}:00" + (" (again)" if local.fold else "")
