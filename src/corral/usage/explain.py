"""What became of every line of a session that looked like usage: counted, merged, skipped, and by which rule."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import astuple

from corral.errors import Ambiguous, NotFound
from corral.machine import places
from corral.model.key import spoken_id
from corral.model.money import Currency
from corral.model.prices import PICOS, ModelRates
from corral.model.usage import TokenUsage, UsageBatch, UsageEvent, UsageSource
from corral.model.usage_report import LossRow, UsageQuery
from corral.providers.asking import Asker
from corral.providers.contract import Provider
from corral.providers.kit.usage_files import read_source
from corral.providers.registry import all_providers
from corral.providers.settings import read_settings
from corral.sessions.cache import Cache
from corral.sessions.gather import environment
from corral.sessions.naming import Name, parse_name
from corral.usage.families import Ties
from corral.usage.homes import ReportedSessions, list_logs
from corral.usage.ledger import Ledger
from corral.usage.price_table import read_price_table
from corral.usage.prices import Prices, count_picos
from corral.usage.report import list_losses
from corral.usage.rows import REPORTED, digest, storable

SCHEMA = 1


class CopyRule(StrEnum):
    """How the owner of a copied line was found."""

    SAME_SESSION = "same_session"
    PARENT = "parent"
    JOURNAL = "journal"
    LEAST_ID = "least_id"


class LineReport(Struct, frozen=True, kw_only=True):
    """One line. `outcome`: counted, merged, skipped, unrecorded, or unread (the ledger does not have it yet)."""

    path: str
    offset: int
    outcome: str
    reason: str
    at: float | None = None
    agent: str | None = None
    tokens: TokenUsage | None = None
    model: str | None = None
    owner: str | None = None
    """Of a merged line: the session on which it counts."""
    rule: CopyRule | None = None
    ambiguous: bool = False


class FileReport(Struct, frozen=True, kw_only=True):
    """One file, and how many of its lines became what."""

    path: str
    kind: str
    """"session", "sub-agent", "home" (a file of all sessions) or "fork" (of another session, with copies)."""
    size: int
    read_to: int | None
    """How far the ledger has read it, in bytes."""
    counted: int
    merged: int
    skipped: int
    unrecorded: int
    unread: int
    turns: int
    tool_calls: int


class ModelReport(Struct, frozen=True, kw_only=True):
    """Requests of one model at one price: how the model is known, who says what it costs, and since when."""

    model: str | None
    known_by: str
    """recorded, journal, config, unknown."""
    events: int
    tokens: TokenUsage
    amount: Decimal | None
    currency: str
    priced_as: str | None = None
    source: str | None = None
    dated: str | None = None
    assumed: bool = False
    """The rate is that of another model, by the rule for hidden models."""


class KeptEvent(Struct, frozen=True, kw_only=True):
    """A request that the ledger has and no line shows any more."""

    at: float
    model: str | None
    tokens: TokenUsage
    agent: str | None = None


class UsageExplanation(Struct, frozen=True, kw_only=True):
    """`corral usage --explain SESSION --json`."""

    schema: int
    session: str
    provider: str
    home: str
    scope: str
    session_id: str
    work_dir: str | None
    events: int
    """Requests that count for this session."""
    turns: int
    tool_calls: int
    files: tuple[FileReport, ...]
    lines: tuple[LineReport, ...]
    kept: tuple[KeptEvent, ...]
    models: tuple[ModelReport, ...]
    unrecorded: dict[str, int]
    untraced: tuple[str, ...]
    """Kinds of calls that this CLI never writes down."""
    notice: str | None = None
    losses: tuple[LossRow, ...] = ()


def explain_usage(ledger: Ledger, name: str) -> UsageExplanation:
    """Everything about one session's count. Raises NotFound or Ambiguous."""
    ledger.checks.tables("sessions", "homes", "events", "actions", "unrecorded")
    session = _find_named(ledger, name)
    who = (session.provider.name, session.home, session.session_id)
    owned = _read_events(ledger.db, "homes.provider = ? AND homes.path = ? AND sessions.session_id = ?", who)
    actions = _count(ledger.db, "actions", who)
    states = ledger.read_sources()
    lines: list[LineReport] = []
    files: list[FileReport] = []
    seen: set[int] = set()
    for source in session.sources:
        batch = read_source(session.provider.usage.read, source, 0)
        of_file = sorted(_judge(ledger, session, source, batch, owned, seen), key=lambda line: line.offset)
        if of_file or source.session_id == session.session_id:
            state = states.get(storable(source.path))
            files.append(_sum_file(session, source, batch, of_file, state[1].offset if state else None))
            lines += of_file
    kept = sorted((event for key, event in owned.items() if key not in seen), key=lambda event: event.at)
    return UsageExplanation(
        schema=SCHEMA,
        session=session.name,
        provider=session.provider.name,
        home=session.home,
        scope=session.scope,
        session_id=session.session_id,
        work_dir=session.work_dir,
        events=len(owned),
        turns=actions.get("turn", 0),
        tool_calls=actions.get("tool", 0),
        files=tuple(files),
        lines=tuple(lines),
        kept=tuple(KeptEvent(at=e.at, model=e.model, tokens=TokenUsage(*e.tokens), agent=e.agent) for e in kept),
        models=tuple(_price(owned.values())),
        unrecorded=_count(ledger.db, "unrecorded", who),
        untraced=session.provider.usage.unrecorded_kinds,
        notice=ledger.notice,
        losses=list_losses(ledger),
    )


def _judge(
    ledger: Ledger,
    session: _Named,
    source: UsageSource,
    batch: UsageBatch,
    owned: dict[int, _KnownEvent],
    seen: set[int],
) -> Iterator[LineReport]:
    mine = source.session_id == session.session_id
    events = [event for event in batch.events if mine or event.session_id == session.session_id]
    keys = [digest(session.provider.name, event.key) for event in events]
    known = owned | _find_events(ledger.db, [key for key in keys if key not in owned])
    for event, key in zip(events, keys, strict=True):
        yield _judge_event(session, source, event, known.get(key), first=key not in seen)
        seen.add(key)
    for trace in batch.unrecorded:
        if mine or trace.session_id == session.session_id:
            reason = f"{trace.kind}: the CLI wrote down no tokens"
            yield LineReport(path=source.path, offset=trace.offset, outcome="unrecorded", reason=reason, at=trace.at)
    if mine:
        for skip in batch.skipped:
            yield LineReport(path=skip.path, offset=skip.offset, outcome="skipped", reason=skip.reason)


def _judge_event(
    session: _Named, source: UsageSource, event: UsageEvent, known: _KnownEvent | None, *, first: bool
) -> LineReport:
    outcome, reason = "counted", "the first line with this event id"
    owner = rule = None
    if known is None:
        outcome, reason = "unread", "the ledger does not have it yet"
    elif known.session_id != session.session_id:
        scope = f"{known.scope}/" if known.scope else ""
        owner = f"{known.provider}:{scope}{known.session_id}"
        rule = decide_rule(
            event.session_id,
            source.parent_id,
            known.session_id,
            owner_is_reported=known.rank == REPORTED,
            ambiguous=known.ambiguous,
        )
        outcome, reason = "merged", f"the same request counts for {owner}, {_say_rule(rule)}"
    elif not first:
        owner, rule = session.name, decide_repeat(session.session_id, source.session_id)
        outcome, reason = "merged", "a line before has the same event id: " + _say_repeat(rule)
    elif known.ambiguous:
        reason = "counted here, though another session holds the same: " + _say_rule(CopyRule.LEAST_ID)
    elif known.tokens != astuple(event.tokens):
        reason = "counted as it was first read; the line has other tokens now"
    return LineReport(
        path=source.path,
        offset=event.offset,
        outcome=outcome,
        reason=reason,
        at=event.at,
        agent=event.agent,
        tokens=event.tokens,
        model=known.model if known else event.model,
        owner=owner,
        rule=rule,
        ambiguous=known is not None and known.ambiguous and rule in (None, CopyRule.LEAST_ID),
    )


def _say_rule(rule: CopyRule) -> str:
    match rule:
        case CopyRule.PARENT | CopyRule.SAME_SESSION:
            return "by the provider's own word on what was forked from what"
        case CopyRule.JOURNAL:
            return "by corral's journal: its agent had reported that session before"
        case CopyRule.LEAST_ID:
            return "by the rule of the least id: nobody says which is the original (ambiguous)"


def _say_repeat(rule: CopyRule) -> str:
    if rule is CopyRule.PARENT:
        return "this is a fork's copy of it"
    return "this repeats it, as a mirror of a sub-agent's log does"


def _sum_file(
    session: _Named, source: UsageSource, batch: UsageBatch, lines: list[LineReport], read_to: int | None
) -> FileReport:
    outcomes = Counter(line.outcome for line in lines)
    mine = source.session_id == session.session_id
    actions = Counter(action.kind for action in batch.actions if mine or action.session_id == session.session_id)
    try:
        size = os.stat(source.path).st_size
    except OSError:
        size = batch.next_offset
    return FileReport(
        path=source.path,
        kind=("sub-agent" if source.agent else "session") if mine else "fork" if source.session_id else "home",
        size=size,
        read_to=read_to,
        counted=outcomes["counted"],
        merged=outcomes["merged"],
        skipped=outcomes["skipped"],
        unrecorded=outcomes["unrecorded"],
        unread=outcomes["unread"],
        turns=actions["turn"],
        tool_calls=actions["tool"],
    )


def _price(events: Iterable[_KnownEvent]) -> Iterator[ModelReport]:
    """What the session's requests cost, by model, how it is known, and price."""
    config = read_settings()
    prices = Prices(read_price_table().table, config.prices)
    currency = config.currency or Currency()
    groups: dict[tuple[str | None, str, ModelRates | None], tuple[int, TokenUsage, int]] = {}
    for event in sorted(events, key=lambda event: event.at):
        rates = prices.resolve(event.model, event.at)
        tokens = TokenUsage(*event.tokens)
        key = (event.model, event.model_source, rates)
        count, sum_of, picos = groups.get(key, (0, TokenUsage(), 0))
        groups[key] = (count + 1, sum_of + tokens, picos + (count_picos(rates, tokens) if rates else 0))
    for (model, known_by, rates), (count, tokens, picos) in groups.items():
        yield ModelReport(
            model=model,
            known_by=known_by,
            events=count,
            tokens=tokens,
            amount=Decimal(picos) / PICOS * currency.rate if rates else None,
            currency=currency.code,
            priced_as=rates.listed_as if rates else None,
            source=rates.source if rates else None,
            dated=rates.dated or None if rates else None,
            assumed=rates is not None and rates.assumed,
        )


def decide_rule(
    line_session_id: str, parent_id: str | None, owner_id: str, *, owner_is_reported: bool, ambiguous: bool
) -> CopyRule:
    """The rule by which `owner_id` owns a line that is in a log of another session too.

    `line_session_id` is the session that the line itself names; `parent_id` the one that the log's session names
    as its origin. `owner_is_reported`: an agent had reported the owner to our journal before it spent this. A fork of a
    fork names only its parent, and copies lines of the original too; `ambiguous` are copies of equal standing.
    """
    if owner_id in (line_session_id, parent_id):
        return CopyRule.PARENT
    if owner_is_reported:
        return CopyRule.JOURNAL
    return CopyRule.PARENT if parent_id is not None and not ambiguous else CopyRule.LEAST_ID


def decide_repeat(session_id: str, file_session_id: str) -> CopyRule:
    """Why a line of `session_id` that was seen before does not count: it is in a fork's file, or in its own."""
    return CopyRule.PARENT if file_session_id and file_session_id != session_id else CopyRule.SAME_SESSION


# --- the session that is named


class _Named(NamedTuple):
    """One session and the files in which its usage can be."""

    provider: Provider
    home: str
    scope: str
    session_id: str
    work_dir: str | None
    sources: tuple[UsageSource, ...]
    """Its own logs, then files of the whole home, then those of its forks: they hold copies."""

    @property
    def name(self) -> str:
        scope = f"{self.scope}/" if self.scope else ""
        return f"{self.provider.name}:{scope}{self.session_id}"


_Known = tuple[str, str, str, str, str | None]
"""Provider, home, scope, session id, work_dir."""


def _find_named(ledger: Ledger, name: str) -> _Named:
    """The one session of that name, on disk or in the ledger alone. Raises NotFound or Ambiguous."""
    wanted = parse_name(name)
    sources = {provider.name: _list_sources(ledger, provider, wanted) for provider in all_providers()}
    listed: list[_Known] = [
        (one.provider, one.home, one.scope, one.session_id, one.work_dir)
        for some in sources.values()
        for one in some
        if one.session_id
    ]
    scopes: dict[tuple[str, str, str], dict[str, str | None]] = {}
    for provider, home, scope, session_id, work_dir in (*_list_sessions(ledger), *listed):
        if _fits(wanted, provider, home, scope, session_id):
            found = scopes.setdefault((provider, home, session_id), {})
            found[scope] = work_dir or found.get(scope)
    # A file of the whole home names a session without its container.
    candidates = {
        (*key, scope): work_dir or found.get("")
        for key, found in scopes.items()
        for scope, work_dir in found.items()
        if scope or len(found) == 1
    }
    exact = {key: one for key, one in candidates.items() if wanted.session_id in (key[2], spoken_id(key[2]))}
    candidates = exact or candidates
    if not candidates:
        hint = "corral usage --by session lists those that used anything"
        raise NotFound(f"no session named {name!r}", hint=hint)
    if len(candidates) > 1:
        names = [f"{key[0]}@{key[1]}:{key[3]}/{key[2]}".replace(":/", ":") for key in sorted(candidates)]
        raise Ambiguous(f"{name!r} could be any of {len(candidates)} sessions:", names)
    (((provider, home, session_id, scope), work_dir),) = candidates.items()
    chosen = tuple(_choose(sources[provider], home, scope, session_id))
    return _Named(
        next(one for one in all_providers() if one.name == provider), home, scope, session_id, work_dir, chosen
    )


def narrow_to_session(ledger: Ledger, query: UsageQuery) -> UsageQuery:
    """The query with the whole id, and the provider, of the one session that it names. Raises Ambiguous.

    A name that the ledger does not know stays: such a session has used nothing.
    """
    wanted = parse_name(query.session or "")
    known = {
        (provider, session_id)
        for provider, home, scope, session_id, _ in _list_sessions(ledger)
        if query.provider in (None, provider) and _fits(wanted, provider, home, scope, session_id)
    }
    exact = {one for one in known if wanted.session_id in (one[1], spoken_id(one[1]))}
    found = sorted(exact or known)
    if len(found) > 1:
        listed = [f"{provider}:{session_id}" for provider, session_id in found]
        raise Ambiguous(f"{query.session!r} could be any of {len(found)} sessions:", listed)
    return query._replace(provider=found[0][0], session=found[0][1]) if found else query


def _list_sources(ledger: Ledger, provider: Provider, wanted: Name) -> list[UsageSource]:
    if wanted.provider not in (None, provider.name):
        return []
    env = environment(read_settings(), Cache(places.cache_dir()))
    listed = list_logs(provider, env, ledger, ReportedSessions(places.state_dir()), Asker())
    return Ties(ledger, provider.name, listed).sources


def _list_sessions(ledger: Ledger) -> Iterable[_Known]:
    """Every session that was ever counted, also those whose logs are gone."""
    ledger.checks.tables("sessions", "homes")
    return ledger.db.execute(
        "SELECT homes.provider, homes.path, scope, session_id, work_dir FROM sessions NOT INDEXED"
        " CROSS JOIN homes NOT INDEXED ON homes.id = sessions.home"
    )


def _fits(wanted: Name, provider: str, home: str, scope: str, session_id: str) -> bool:
    return (
        wanted.provider in (None, provider)
        and (wanted.home is None or os.path.realpath(wanted.home) == home)
        and wanted.scope in (None, scope)
        and (session_id.startswith(wanted.session_id) or spoken_id(session_id).startswith(wanted.session_id))
    )


def _choose(sources: list[UsageSource], home: str, scope: str, session_id: str) -> list[UsageSource]:
    """Own logs first: of equal lines the first is the one that counts."""
    here = [one for one in sources if one.home == home]
    return [
        *(one for one in here if one.session_id == session_id and one.scope == (scope or one.scope)),
        *(one for one in here if not one.session_id),
        *(one for one in here if one.session_id not in ("", session_id) and one.parent_id == session_id),
    ]


# --- what the ledger has of it

_KEYS_AT_ONCE = 500
_WHOSE = (
    "NOT INDEXED CROSS JOIN sessions NOT INDEXED ON sessions.id = session"
    " CROSS JOIN homes NOT INDEXED ON homes.id = home"
)
"""By numbers, which were checked: an index may miss what its table has."""


class _KnownEvent(NamedTuple):
    """A request as the ledger has it, and the session that owns it."""

    key: int
    """See `digest`."""
    provider: str
    scope: str
    session_id: str
    rank: int
    at: float
    agent: str | None
    model: str | None
    model_source: str
    ambiguous: bool
    """Several sessions of equal standing hold it: nobody says which is the original."""
    tokens: tuple[int, ...]


def _find_events(db: sqlite3.Connection, keys: Sequence[int]) -> dict[int, _KnownEvent]:
    """Events by their keys, whoever owns them."""
    found: dict[int, _KnownEvent] = {}
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[start : start + _KEYS_AT_ONCE]
        found |= _read_events(db, f"events.key IN ({', '.join('?' * len(some))})", some)
    return found


def _read_events(db: sqlite3.Connection, where: str, values: Sequence[object]) -> dict[int, _KnownEvent]:
    rows = db.execute(
        "SELECT key, provider, scope, session_id, rank, at, agent, model, model_source, ambiguous, input, cache_read,"
        f" cache_write, cache_write_1h, output, reasoning FROM events {_WHOSE} WHERE {where}",
        values,
    )
    return {row[0]: _KnownEvent(*row[:9], ambiguous=bool(row[9]), tokens=tuple(row[10:])) for row in rows}


def _count(db: sqlite3.Connection, table: str, session: tuple[str, str, str]) -> dict[str, int]:
    """How many actions or unrecorded calls one session has, by kind."""
    rows = db.execute(
        f"SELECT kind, count(*) FROM {table} {_WHOSE}"
        " WHERE homes.provider = ? AND homes.path = ? AND sessions.session_id = ? GROUP BY 1 ORDER BY 1",
        session,
    )
    return dict(rows)
