"""Whose reports count: whether the hooks of each home work, and which running agents can't be relied on."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from itertools import chain

from msgspec import Struct, structs

from corral.hooks.status import Installation, read_installation
from corral.machine.process_homes import find_in_root, identify
from corral.machine.processes import Process, ProcessTable
from corral.machine.procfs import read_ns_pids
from corral.model.claim import ClaimKind
from corral.model.process import WHOLE_HOME, HostFacts, ProcessIdentity, Reach, Recognised
from corral.model.record import SessionRecord
from corral.model.verdict import ClaimVerdict, Liveness
from corral.providers.asking import Asker
from corral.providers.contract import Provider
from corral.sessions.decide.attribution import Attribution, HookCover, find_serving, group_runs
from corral.sessions.decide.journal import current_sessions
from corral.sessions.decide.reporting import BY_HOOK, Reporting, find_gap, find_lost_beat
from corral.sessions.decide.witness import is_explained
from corral.sessions.gather import Facts, HomeFacts
from corral.sessions.reach import Reaching, contains


class Trust(Struct, frozen=True, kw_only=True):
    """How far reports through hooks can be relied on."""

    outdated: dict[ProcessIdentity, str]
    """Processes whose reports do not count (any more), and why."""
    cover: dict[tuple[str, str], HookCover]
    """By provider and home: since when a new process is sure to report."""
    reporting: dict[tuple[str, str], Reporting]


def decide_trust(facts: Facts, state_dir: str, judged: Sequence[ClaimVerdict], host: HostFacts, asker: Asker) -> Trust:
    installations = {
        (home.provider.name, home.home.path): found
        for home in facts.homes
        if (found := _read(home, state_dir, asker)) is not None
    }
    reporting = {at: _reporting_of(found) for at, found in installations.items()}
    blind = {one.provider for one in facts.unread_journals if not one.path.endswith(".json")}
    unseen = {
        name: "it is in a container that does not have its hooks"
        for one in facts.recognised
        if not one.shares_mounts and not _sees_hooks(one, installations)
        for name in names_of(one)
    }
    outdated = {
        journal.identity: why
        for journal in facts.journals
        if (why := find_gap(journal.reported_at, reporting.get((journal.provider, journal.home))))
    }
    outdated |= _find_lost_beats(facts, judged, reporting, host)
    outdated |= _find_without_journal(facts, judged, reporting) | unseen
    silences = {home.provider.name: home.provider.capabilities for home in facts.homes}
    cover = {
        at: HookCover(
            since=max(one.unbroken_since, one.read_since),
            silence_s=silences[at[0]].silent_s,
            servers_report=silences[at[0]].servers_report,
        )
        for at, one in reporting.items()
        if one.problem is None and at[0] not in blind
    }
    return Trust(outdated=outdated, cover=cover, reporting=reporting)


def _read(home: HomeFacts, state_dir: str, asker: Asker) -> Installation | None:
    target = asker.ask(home.provider, "find its hooks", home.provider.hooks, lambda _: None)
    return read_installation(state_dir, target, home.home.path) if target is not None else None


def _reporting_of(found: Installation) -> Reporting:
    problem = found.problems[0] if found.problems else None
    if problem is None and not found.present:
        problem = "some of them are missing"
    return Reporting(
        problem=problem,
        unbroken_since=found.unbroken_since,
        read_since=found.config_ctime or float("inf"),
        beat_s=found.beat_s,
    )


def _sees_hooks(process: Recognised, installations: dict[tuple[str, str], Installation]) -> bool:
    """Whether the hook program that the home's configuration names is the same file to a process in a container."""
    found = installations.get((process.provider, process.home or ""))
    if found is None or found.program is None:
        return False
    seen = find_in_root(process.identity.pid, found.program)
    return seen is not None and seen == identify(found.program)


def _find_lost_beats(
    facts: Facts, judged: Sequence[ClaimVerdict], reporting: dict[tuple[str, str], Reporting], host: HostFacts
) -> dict[ProcessIdentity, str]:
    """Processes that reported every minute and then stopped, though they run and have a session."""
    running = {verdict.identity for verdict in judged if verdict.liveness is Liveness.LIVE}
    running -= {one.identity for one in facts.recognised if one.is_stopped}
    return {
        journal.identity: why
        for journal in facts.journals
        # The clocks of a container may be others.
        if journal.identity in running and journal.identity.pid_ns == host.pid_ns
        if current_sessions(journal)
        if (why := find_lost_beat(journal.spoke_awake, reporting.get((journal.provider, journal.home)), host.awake))
    }


def _find_without_journal(
    facts: Facts,
    judged: Sequence[ClaimVerdict],
    reporting: dict[tuple[str, str], Reporting],
) -> dict[ProcessIdentity, str]:
    """Processes whose runtime.json our hook wrote, though its journal is not here: it is in a container."""
    told = journal_writers(facts)
    found: dict[ProcessIdentity, str] = {}
    for verdict in judged:
        claim, identity = verdict.claim, verdict.identity
        if verdict.liveness is not Liveness.LIVE or identity is None or identity in told or not claim.by_hook:
            continue
        if why := find_gap(claim.written_at or 0.0, reporting.get((claim.provider, claim.home))):
            found[identity] = why
    return found


def names_of(process: Recognised) -> tuple[ProcessIdentity, ...]:
    """As we see it, and as it is called in its own PID namespace: so its journal names it."""
    inner = read_ns_pids(process.identity.pid)[-1:] if not process.shares_mounts else ()
    return process.identity, *(process.identity._replace(pid=pid) for pid in inner if pid != process.identity.pid)


def journal_writers(facts: Facts, outdated: Container[ProcessIdentity] = ()) -> set[ProcessIdentity]:
    """The processes whose reports are in a journal and count, as we see them."""
    told = {one.identity for one in facts.journals if not one.missed and one.identity not in outdated}
    return told | {one.identity for one in facts.recognised if not told.isdisjoint(names_of(one))}


def find_left(facts: Facts, told: Container[ProcessIdentity]) -> dict[ProcessIdentity, float]:
    """Of those whose reports count, the processes that have none of their sessions any more, and since when."""
    left = {
        one.identity: one.reported_at
        for one in facts.journals
        if one.identity in told and one.events and not current_sessions(one)
    }
    for one in facts.recognised if left else ():
        if (known := next((name for name in names_of(one) if name in left), None)) is not None:
            left[one.identity] = left[known]
    return left


def find_implicated(
    facts: Facts, judged: Sequence[ClaimVerdict], attribution: Attribution, table: ProcessTable, asker: Asker
) -> dict[ProcessIdentity, str]:
    """Processes that seem accounted for, but may have written what nothing else explains: they may have moved on.

    Only those of which nothing but hooks tells, and that have not reported since. Where an unattributed process can
    have written it, it is enough to doubt that one.
    """
    by_session: dict[tuple[str, str, str], list[ClaimVerdict]] = {}
    for verdict in judged:
        claim = verdict.claim
        by_session.setdefault((claim.provider, claim.home, claim.session_id), []).append(verdict)
    reported_at = {journal.identity: journal.reported_at for journal in facts.journals}
    implicated: dict[ProcessIdentity, str] = {}
    for home in facts.homes:
        name, path = home.provider.name, home.home.path
        suspects = [
            structs.replace(
                one, reach=ask_reach(asker, home.provider, process, path) if one.shares_mounts else WHOLE_HOME
            )
            for one in _list_suspects(facts, judged, attribution, name, path)
            if (process := table.find(one.identity.pid)) is not None
        ]
        if not suspects:
            continue
        unattributed = Reaching(path, [one for one in attribution.unattributed if one.provider == name])
        began = min(one.started_at for one in suspects)
        for record in _list_written(home, began):
            claims = by_session.get((name, path, record.session_id), [])
            written_at = record.recorded_at or 0.0
            if any(one.liveness is Liveness.LIVE for one in claims) or is_explained(written_at, claims):
                continue
            if unattributed.doubt(record, claims).pids:
                continue
            at = time.strftime("%H:%M", time.localtime(written_at))
            for one in suspects:
                spoke_at = max(reported_at.get(process, 0.0) for process in names_of(one))
                if one.started_at <= written_at and spoke_at < written_at and contains(one.reach, record):
                    why = f"{record.session_id} was written {at}, and nobody else can have done it"
                    implicated |= dict.fromkeys(names_of(one), why)
    return implicated


def ask_reach(asker: Asker, provider: Provider, process: Process, home: str) -> Reach:
    """What it could have open: all of its home, where that is not known."""
    return asker.ask(
        provider, "find what a process reaches", lambda: provider.find_reach(process, home), lambda _: WHOLE_HOME
    )


def _list_suspects(
    facts: Facts, judged: Sequence[ClaimVerdict], attribution: Attribution, provider: str, home: str
) -> list[Recognised]:
    """Agents of this home that only hooks identify, or that have no session yet; the serving process of each run."""
    surely = {
        verdict.identity
        for verdict in judged
        if verdict.liveness is Liveness.LIVE and verdict.claim.kind not in (*BY_HOOK, ClaimKind.LAUNCH)
    }
    open_ones = {one.identity for one in attribution.unattributed}
    found: list[Recognised] = []
    for run in group_runs([one for one in facts.recognised if (one.provider, one.home) == (provider, home)]):
        if not any(one.identity in surely or one.identity in open_ones for one in run):
            found.append(find_serving(run))
    return found


def _list_written(home: HomeFacts, since: float) -> Iterator[SessionRecord]:
    """Sessions with a record of that time or later."""
    groups = (group for group in home.resting if group.recorded_at >= since)
    records = chain(home.records, (record for group in groups for record in group.load()))
    return (record for record in records if record.recorded_at is not None and record.recorded_at >= since)
