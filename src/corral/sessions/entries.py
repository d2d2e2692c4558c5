"""Claims joined to the sessions they name, each session given its state, and those kept that were asked for."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, structs

from corral.machine.processes import identify
from corral.model.claim import BadClaim, Claim
from corral.model.key import SessionKey
from corral.model.process import Reach, Recognised
from corral.model.record import SessionRecord
from corral.model.selection import Selection
from corral.model.verdict import ClaimVerdict, SessionVerdict, State
from corral.sessions.decide.attribution import Attribution, is_explained
from corral.sessions.decide.state import decide_resting, decide_state
from corral.sessions.gather import Facts, HomeFacts


class Entry(Struct, frozen=True, kw_only=True):
    """One selected session, judged, with the home it is in."""

    key: SessionKey
    record: SessionRecord | None
    verdict: SessionVerdict
    facts: HomeFacts


class _Join:
    """Claims by the session they name."""

    def __init__(self, judged: Sequence[ClaimVerdict], bad: Iterable[BadClaim]) -> None:
        self.by_id: Mapping[tuple[str, str, str], list[ClaimVerdict]] = defaultdict(list)
        for verdict in judged:
            claim = verdict.claim
            self.by_id[claim.provider, claim.home, claim.session_id].append(verdict)
        self.bad_by_id: Mapping[tuple[str, str, str], list[BadClaim]] = defaultdict(list)
        for claim in bad:
            if claim.session_id is not None:
                self.bad_by_id[claim.provider, claim.home, claim.session_id].append(claim)

    def claimed_ids(self, provider: str, home: str) -> list[str]:
        """The ids that a claim in this home names."""
        return [session_id for (p, h, session_id) in self.by_id if (p, h) == (provider, home)]

    def ids_in(self, provider: str, home: str) -> set[str]:
        """The same, and those that an unreadable claim names."""
        bad = (session_id for (p, h, session_id) in self.bad_by_id if (p, h) == (provider, home))
        return {*self.claimed_ids(provider, home), *bad}


def select_entries(
    facts: Facts,
    judged: Sequence[ClaimVerdict],
    attribution: Attribution,
    selection: Selection,
    counts: Counter[State],
    unseen: str | None,
) -> Iterable[Entry]:
    join = _Join(judged, (bad for home in facts.homes for bad in home.bad_claims))
    for home in facts.homes:
        name, path = home.provider.name, home.home.path
        hidden = unseen or facts.unseen.get(name)
        reaching = Reaching(path, [one for one in attribution.unattributed if one.provider == name])
        young = Reaching(path, [one for one in attribution.young if one.provider == name and selection.is_narrow])
        named = join.ids_in(name, path)
        claimed: dict[str, list[SessionRecord]] = defaultdict(list)
        in_doubt = bool(young or hidden)
        everywhere, idle_too = selection.under is None, selection.wants_state(State.IDLE)
        apart = named | selection.besides
        records = list(home.records)
        # Most sessions are idle and not asked for: they are only counted.
        idle = 0
        for group in home.resting:
            may_matter = not reaching.is_empty_handed or group.recorded_at >= reaching.began
            if may_matter or in_doubt or idle_too or not everywhere or not apart.isdisjoint(group.ids):
                records += group.load()
            else:
                idle += len(group.ids)
        for record in records:
            if in_doubt or record.session_id in named or (reaching and reaching.doubt(record).pids):
                claimed[record.session_id].append(record)
                continue
            if not everywhere and not selection.covers(record.work_dir):
                continue
            state, reason = decide_resting(record)
            if state is State.IDLE:
                idle += 1
                if not idle_too and record.session_id not in selection.besides:
                    continue
            else:
                counts[state] += 1
            if selection.wants(state, record.session_id):
                verdict = SessionVerdict(state=state, reason=reason)
                yield Entry(key=record.key, record=record, verdict=verdict, facts=home)
        if idle:
            counts[State.IDLE] += idle
        for session_id in dict.fromkeys([*claimed, *join.claimed_ids(name, path)]):
            verdicts = join.by_id.get((name, path, session_id), [])
            bad = join.bad_by_id.get((name, path, session_id), [])
            for key, record, verdict in _decide_id(
                home, session_id, claimed.get(session_id, []), verdicts, bad, reaching, young, hidden
            ):
                if record is None and verdict.state is State.EMPTY and not selection.deleted:
                    continue  # nothing on disk, nobody there: it was deleted
                if not selection.covers(_work_dir(record, verdict)):
                    continue
                counts[verdict.state] += 1
                if selection.wants(verdict.state, session_id):
                    yield Entry(key=key, record=record, verdict=verdict, facts=home)


def _work_dir(record: SessionRecord | None, verdict: SessionVerdict) -> str | None:
    """As its provider wrote it, else as the newest claim says."""
    if record is not None and record.work_dir is not None:
        return record.work_dir
    said = sorted(verdict.evidence, key=lambda judged: judged.claim.written_at or 0.0)
    return said[-1].claim.work_dir if said else None


def _decide_id(
    home: HomeFacts,
    session_id: str,
    records: Sequence[SessionRecord],
    verdicts: Sequence[ClaimVerdict],
    bad: Sequence[BadClaim],
    reaching: Reaching,
    young: Reaching,
    unseen: str | None,
) -> Iterable[tuple[SessionKey, SessionRecord | None, SessionVerdict]]:
    """All sessions of one id in one home: usually one, several where ids repeat in scopes."""
    scopes = {record.scope for record in records}
    placed = _place_adrift(scopes, verdicts)
    adrift = [verdict for verdict in verdicts if verdict.claim.scope is None and id(verdict) not in placed]

    def of_scope(scope: str) -> list[ClaimVerdict]:
        return [verdict for verdict in verdicts if placed.get(id(verdict), verdict.claim.scope) == scope]

    for record in records:
        bad_here = [claim for claim in bad if claim.scope in (None, record.scope)]
        held = of_scope(record.scope)
        doubt = reaching.doubt(record, [*held, *adrift])
        verdict = decide_state(record, held, bad_here, doubt.pids, adrift, unseen, doubt.written)
        if awaited := young.pids_of(record):
            verdict = structs.replace(verdict, awaited_pids=awaited)
        yield record.key, record, verdict
    homeless = {placed.get(id(verdict), verdict.claim.scope) for verdict in verdicts} - scopes
    for scope in homeless:
        if scope is None:
            if not records and homeless == {None}:
                key = SessionKey(home.provider.name, home.home.path, "", session_id)
                yield key, None, decide_state(None, adrift)
            continue  # else it is shown as doubt on each of the others
        key = SessionKey(home.provider.name, home.home.path, scope, session_id)
        yield key, None, decide_state(None, of_scope(scope), unjoined=adrift)


def _place_adrift(scopes: Collection[str], verdicts: Sequence[ClaimVerdict]) -> dict[int, str]:
    """The scope of each claim that names none, by the `id` of its verdict; one that is not known is left out.

    A process has one session of an id open: what it says with a scope and without is about the same. Else
    the session is the only one of that id, on disk or, where nothing is written yet, among the claims.
    """
    by_process: Mapping[tuple[object, ...], set[str]] = defaultdict(set)
    for claim in (verdict.claim for verdict in verdicts):
        if claim.scope is not None and claim.start_ticks is not None:
            by_process[_process_of(claim)].add(claim.scope)
    known = scopes or {verdict.claim.scope for verdict in verdicts if verdict.claim.scope is not None}
    placed: dict[int, str] = {}
    for verdict in verdicts:
        claim = verdict.claim
        if claim.scope is None:
            named = by_process.get(_process_of(claim)) or known
            if len(named) == 1:
                placed[id(verdict)] = next(iter(named))
    return placed


def _process_of(claim: Claim) -> tuple[object, ...]:
    return claim.boot_id, claim.pid_ns, claim.pid, claim.start_ticks


# --- which sessions a process in doubt could have open, or may have written to


class Doubt(Struct, frozen=True):
    """The processes that could have one session open."""

    pids: tuple[int, ...] = ()
    written: str | None = None
    """The time of a write that no known process explains, for people to read."""


NO_DOUBT = Doubt()
_identify = lru_cache(maxsize=None)(identify)


def forget_directories() -> None:
    """A survey reads the identity of each directory once; the next survey reads it again."""
    _identify.cache_clear()


def contains(reach: Reach, record: SessionRecord) -> bool:
    """Whether a process with this reach could have this session open without having written to it."""
    if reach.directories is None or record.session_id in reach.ids:
        return True
    if not reach.directories:
        return False
    if record.work_dir is None or record.work_dir in reach.paths:
        return True
    found = _identify(record.work_dir)
    return reach.renamed if found is None else found in reach.directories


class Reaching:
    """The processes in doubt that may work in one home."""

    def __init__(self, home: str, processes: Sequence[Recognised]) -> None:
        found = ((process, process.reach_in(home)) for process in processes)
        self._processes = [(process, reach) for process, reach in found if reach is not None]
        self.began = min((process.started_at for process, _ in self._processes), default=float("inf"))

    def __bool__(self) -> bool:
        return bool(self._processes)

    @property
    def is_empty_handed(self) -> bool:
        """Whether none of them could have a session open that it did not write to."""
        return all(reach.directories == () for _, reach in self._processes)

    def pids_of(self, record: SessionRecord) -> tuple[int, ...]:
        """Those that could have it open, whether anything was written or not."""
        return tuple(process.identity.pid for process, reach in self._processes if contains(reach, record))

    def doubt(self, record: SessionRecord, claims: Sequence[ClaimVerdict] = ()) -> Doubt:
        """Those that can reach it, and those that ran when it was written if nothing else explains that write."""
        pids = dict.fromkeys(self.pids_of(record))
        written_at = record.recorded_at
        if written_at is None or written_at < self.began or is_explained(written_at, claims):
            return Doubt(tuple(pids)) if pids else NO_DOUBT
        pids |= {process.identity.pid: None for process, _ in self._processes if process.started_at <= written_at}
        return Doubt(tuple(pids), time.strftime("%H:%M", time.localtime(written_at))) if pids else NO_DOUBT
