"""What became of every line of a session that looked like usage: counted, merged, skipped, and by which rule."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import astuple

from corral.model.prices import PICOS, ModelRates
from corral.model.usage import TokenUsage, UsageBatch, UsageEvent, UsageSource
from corral.model.usage_report import LossRow
from corral.providers.kit.usage_files import read_source
from corral.providers.settings import read_settings
from corral.usage.gaps import list_losses
from corral.usage.ledger import Ledger
from corral.usage.price_table import read_price_table
from corral.usage.prices import Prices, count_picos
from corral.usage.rows import digest
from corral.usage.session import (
    KnownEvent,
    NamedSession,
    count_actions,
    count_unrecorded,
    events_of,
    find_events,
    find_named,
)

SCHEMA = 1


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
    session = find_named(ledger, name)
    who = (session.provider.name, session.home, session.session_id)
    owned = events_of(ledger.db, *who)
    actions = count_actions(ledger.db, *who)
    states = ledger.source_states()
    lines: list[LineReport] = []
    files: list[FileReport] = []
    seen: set[int] = set()
    for source in session.sources:
        batch = read_source(session.provider.usage.read, source, 0)
        of_file = sorted(_judge(ledger, session, source, batch, owned, seen), key=lambda line: line.offset)
        if of_file or source.session_id == session.session_id:
            state = states.get(source.path)
            files.append(_sum_file(session, source, batch, of_file, state.offset if state else None))
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
        unrecorded=count_unrecorded(ledger.db, *who),
        untraced=session.provider.usage.unrecorded_kinds,
        notice=ledger.notice,
        losses=list_losses(ledger),
    )


def _judge(
    ledger: Ledger,
    session: NamedSession,
    source: UsageSource,
    batch: UsageBatch,
    owned: dict[int, KnownEvent],
    seen: set[int],
) -> Iterator[LineReport]:
    mine = source.session_id == session.session_id
    events = [event for event in batch.events if mine or event.session_id == session.session_id]
    keys = [digest(session.provider.name, event.key) for event in events]
    known = owned | find_events(ledger.db, [key for key in keys if key not in owned])
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
    session: NamedSession, source: UsageSource, event: UsageEvent, known: KnownEvent | None, *, first: bool
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
            owner_is_told=known.is_told,
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
    session: NamedSession, source: UsageSource, batch: UsageBatch, lines: list[LineReport], read_to: int | None
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
        kind=_kind(session, source),
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


def _kind(session: NamedSession, source: UsageSource) -> str:
    if source.session_id == session.session_id:
        return "sub-agent" if source.agent else "session"
    return "fork" if source.session_id else "home"


def _price(events: Iterable[KnownEvent]) -> Iterator[ModelReport]:
    """What the session's requests cost, by model, how it is known, and price."""
    config = read_settings()
    prices = Prices(read_price_table().table, config.prices)
    rate = config.currency.rate if config.currency else Decimal(1)
    currency = config.currency.code if config.currency else "USD"
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
            amount=Decimal(picos) / PICOS * rate if rates else None,
            currency=currency,
            priced_as=rates.listed_as if rates else None,
            source=rates.source if rates else None,
            dated=rates.dated or None if rates else None,
            assumed=rates is not None and rates.assumed,
        )


class CopyRule(StrEnum):
    """How the owner of a copied line was found."""

    SAME_SESSION = "same_session"
    PARENT = "parent"
    JOURNAL = "journal"
    LEAST_ID = "least_id"


def decide_rule(
    line_session_id: str, parent_id: str | None, owner_id: str, *, owner_is_told: bool, ambiguous: bool
) -> CopyRule:
    """The rule by which `owner_id` owns a line that stands in a log of another session too.

    `line_session_id` is the session that the line itself names; `parent_id` the one that the log's session names
    as its origin. `owner_is_told`: an agent had reported the owner to our journal before it spent this. A fork of a
    fork names only its parent, and copies lines of the original too; `ambiguous` are copies of equal standing.
    """
    if owner_id in (line_session_id, parent_id):
        return CopyRule.PARENT
    if owner_is_told:
        return CopyRule.JOURNAL
    return CopyRule.PARENT if parent_id is not None and not ambiguous else CopyRule.LEAST_ID


def decide_repeat(session_id: str, file_session_id: str) -> CopyRule:
    """Why a line of `session_id` that was seen before counts no more: it stands in a fork's file, or in its own."""
    return CopyRule.PARENT if file_session_id and file_session_id != session_id else CopyRule.SAME_SESSION
