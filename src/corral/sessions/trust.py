"""Whose reports count, which running agents nothing accounts for, and what would let corral see their sessions."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import structs

from corral.hooks.status import Installation, read_installation
from corral.machine import places
from corral.machine.processes import ProcessTable, find_in_root, identify
from corral.machine.procfs import read_ns_pids
from corral.model.claim import ClaimKind
from corral.model.process import WHOLE_HOME, HostFacts, ProcessIdentity, ProcessMode, Reach, Recognised
from corral.model.record import SessionRecord
from corral.model.session import AgentProcess
from corral.model.verdict import ClaimVerdict, Liveness
from corral.providers.asking import Asker
from corral.providers.contract import Provider
from corral.sessions.decide.attribution import (
    BY_HOOK,
    WITNESS,
    Attribution,
    HookCover,
    Reporting,
    attribute,
    doubt_outdated,
    find_gap,
    find_lost_beat,
    find_serving,
    group_runs,
    is_explained,
)
from corral.sessions.decide.claims import current_sessions
from corral.sessions.entries import Reaching, contains, forget_directories
from corral.sessions.gather import Facts, HomeFacts

_At = tuple[str, str]
"""Provider and home."""


def attribute_processes(
    facts: Facts, judged: Sequence[ClaimVerdict], table: ProcessTable, host: HostFacts, asker: Asker
) -> tuple[Sequence[ClaimVerdict], Attribution, tuple[AgentProcess, ...]]:
    """The same verdicts, but a report that may be outdated is a doubt, not a proof; then which processes are accounted
    for; and those that are not, each with advice.
    """
    forget_directories()
    trust = _Trust(facts, judged, table, host, asker)
    judged = doubt_outdated(judged, trust.outdated)
    attribution = trust.attribute(judged)
    if implicated := trust.find_implicated(judged, attribution):
        trust.outdated |= implicated
        judged = doubt_outdated(judged, implicated, WITNESS)
        attribution = trust.attribute(judged)
    advised = tuple(AgentProcess.of(one, trust.advise(one)) for one in attribution.unattributed)
    return judged, attribution, advised


class _Trust:
    """How far reports through hooks can be relied on, in one survey."""

    def __init__(
        self, facts: Facts, judged: Sequence[ClaimVerdict], table: ProcessTable, host: HostFacts, asker: Asker
    ) -> None:
        self._facts = facts
        self._table = table
        self._host = host
        self._asker = asker
        installations = {
            (home.provider.name, home.home.path): found
            for home in facts.homes
            if (found := self._read_installation(home)) is not None
        }
        self._reporting = {at: _reporting_of(found) for at, found in installations.items()}
        self.outdated: dict[ProcessIdentity, str] = {
            **self._find_gaps(),
            **self._find_lost_beats(judged),
            **self._find_without_journal(judged),
            **_find_hookless(facts.recognised, installations),
        }
        """Processes whose reports do not count (any more), and why."""

    def _read_installation(self, home: HomeFacts) -> Installation | None:
        target = self._asker.ask(home.provider, "find its hooks", home.provider.hooks, lambda _: None)
        return read_installation(places.state_dir(), target, home.home.path) if target is not None else None

    # --- reports that do not count

    def _find_gaps(self) -> dict[ProcessIdentity, str]:
        return {
            journal.identity: why
            for journal in self._facts.journals
            if (why := find_gap(journal.reported_at, self._reporting.get((journal.provider, journal.home))))
        }

    def _find_lost_beats(self, judged: Sequence[ClaimVerdict]) -> dict[ProcessIdentity, str]:
        """Processes that reported every minute and then stopped, though they run and have a session."""
        running = {verdict.identity for verdict in judged if verdict.liveness is Liveness.LIVE}
        running -= {one.identity for one in self._facts.recognised if one.is_stopped}
        return {
            journal.identity: why
            for journal in self._facts.journals
            # The clocks of a container may be others.
            if journal.identity in running and journal.identity.pid_ns == self._host.pid_ns
            if current_sessions(journal)
            if (reporting := self._reporting.get((journal.provider, journal.home)))
            if (why := find_lost_beat(journal.spoke_awake, reporting, self._host.awake))
        }

    def _find_without_journal(self, judged: Sequence[ClaimVerdict]) -> dict[ProcessIdentity, str]:
        """Processes whose runtime.json our hook wrote, though its journal is not here: it is in a container."""
        writers = _list_writers(self._facts)
        return {
            verdict.identity: why
            for verdict in judged
            if verdict.liveness is Liveness.LIVE and verdict.identity is not None and verdict.identity not in writers
            if (claim := verdict.claim).by_hook
            if (why := find_gap(claim.written_at or 0.0, self._reporting.get((claim.provider, claim.home))))
        }

    # --- which processes are accounted for

    def attribute(self, judged: Sequence[ClaimVerdict]) -> Attribution:
        facts = self._facts
        named = {verdict.identity for verdict in judged if verdict.liveness is Liveness.LIVE and verdict.identity}
        writers = _list_writers(facts, self.outdated)
        left = _find_left(facts, writers)
        complete = {
            (home.provider.name, home.home.path, mode): evidence.within_s
            for home in facts.homes
            if not home.unclaimed
            for evidence in home.provider.capabilities.evidence
            for mode in evidence.modes
        }
        distrusted = _list_distrusted(facts) | {(one.pid, one.start_ticks) for one in self.outdated}
        accounted = named | (writers - left.keys())
        found = attribute(facts.recognised, accounted, self._cover(), self._host.now, distrusted, left, complete)
        return structs.replace(
            found,
            unattributed=tuple(map(self._with_reach, found.unattributed)),
            young=tuple(map(self._with_reach, found.young)),
        )

    def _cover(self) -> dict[_At, HookCover]:
        """Since when a new process is sure to report."""
        capabilities = {home.provider.name: home.provider.capabilities for home in self._facts.homes}
        blind = {one.provider for one in self._facts.unread_journals if not one.path.endswith(".json")}
        return {
            at: HookCover(
                since=max(one.unbroken_since, one.read_since),
                silence_s=capabilities[at[0]].silent_s,
                servers_report=capabilities[at[0]].servers_report,
            )
            for at, one in self._reporting.items()
            if one.problem is None and at[0] not in blind
        }

    def _with_reach(self, process: Recognised) -> Recognised:
        provider = next((home.provider for home in self._facts.homes if home.provider.name == process.provider), None)
        if provider is None or process.home is None or not process.shares_mounts:
            return process  # a container may call its directories what it likes
        return structs.replace(process, reach=self._ask_reach(provider, process, process.home))

    def _ask_reach(self, provider: Provider, one: Recognised, home: str) -> Reach:
        """What it could have open: all of its home, where that is not known."""
        process = self._table.find(one.identity.pid)
        if process is None:
            return one.reach
        return self._asker.ask(
            provider, "find what a process reaches", lambda: provider.find_reach(process, home), lambda _: WHOLE_HOME
        )

    # --- writes that nobody explains

    def find_implicated(self, judged: Sequence[ClaimVerdict], attribution: Attribution) -> dict[ProcessIdentity, str]:
        """Processes that seem accounted for, but may have written what nothing else explains: they may have moved on.

        Only those that nothing but hooks identifies, and that have not reported since. Where an unattributed process
        can have written it, it is enough to doubt that one.
        """
        by_session: dict[tuple[str, str, str], list[ClaimVerdict]] = {}
        for verdict in judged:
            claim = verdict.claim
            by_session.setdefault((claim.provider, claim.home, claim.session_id), []).append(verdict)
        reported_at = {journal.identity: journal.reported_at for journal in self._facts.journals}
        implicated: dict[ProcessIdentity, str] = {}
        for home in self._facts.homes:
            name, path = home.provider.name, home.home.path
            suspects = self._list_suspects(judged, attribution, home)
            if not suspects:
                continue
            unattributed = Reaching(path, [one for one in attribution.unattributed if one.provider == name])
            for record in _list_written(home, min(one.started_at for one in suspects)):
                claims = by_session.get((name, path, record.session_id), [])
                written_at = record.recorded_at or 0.0
                if any(one.liveness is Liveness.LIVE for one in claims) or is_explained(written_at, claims):
                    continue
                if unattributed.doubt(record, claims).pids:
                    continue
                at = time.strftime("%H:%M", time.localtime(written_at))
                for one in suspects:
                    spoke_at = max(reported_at.get(process, 0.0) for process in _names_of(one))
                    if one.started_at <= written_at and spoke_at < written_at and contains(one.reach, record):
                        why = f"{record.session_id} was written {at}, and nobody else can have done it"
                        implicated |= dict.fromkeys(_names_of(one), why)
        return implicated

    def _list_suspects(
        self, judged: Sequence[ClaimVerdict], attribution: Attribution, home: HomeFacts
    ) -> list[Recognised]:
        """Agents of this home that only hooks identify, or that have no session yet; the serving process of each run,
        with its reach.
        """
        cleared = {
            verdict.identity
            for verdict in judged
            if verdict.liveness is Liveness.LIVE and verdict.claim.kind not in (*BY_HOOK, ClaimKind.LAUNCH)
        }
        cleared |= {one.identity for one in attribution.unattributed}
        at = home.provider.name, home.home.path
        runs = group_runs([one for one in self._facts.recognised if (one.provider, one.home) == at])
        serving = [find_serving(run) for run in runs if cleared.isdisjoint(one.identity for one in run)]
        return [
            structs.replace(one, reach=self._ask_reach(home.provider, one, at[1]) if one.shares_mounts else WHOLE_HOME)
            for one in serving
            if self._table.find(one.identity.pid) is not None
        ]

    # --- advice

    def advise(self, process: Recognised) -> str:
        """What would let corral see the session of a silent agent; only what the person who asks can do."""
        pid, uid = process.identity.pid, process.uid
        if uid is not None and uid != os.getuid() != 0:
            return f"ask {_name_user(uid)}, who runs pid {pid}: only that user can say what it has open"
        if process.never_reports:
            return f"quit pid {pid} before you resume: it is a server that does not report what it opens, or may be one"
        if process.home is not None:
            reporting = self._reporting.get((process.provider, process.home))
        else:
            reporting = next((one for at, one in self._reporting.items() if at[0] == process.provider), None)
        if reporting is None or reporting.problem is not None:
            return _advise_hooks(process)
        if not process.shares_mounts:
            return f"quit pid {pid}, or run corral in its container: its hooks can't be seen there"
        if (why := self.outdated.get(process.identity)) is not None:
            return f"restart pid {pid}, or begin a new session in it: {why}"
        if process.started_at < max(reporting.unbroken_since, reporting.read_since):
            return (
                f"restart pid {pid}: it started before the hooks were installed, or before their configuration changed"
            )
        if process.mode is ProcessMode.SERVER:
            return f"quit pid {pid} before you resume: this server does not report what it opens"
        return (
            f"restart pid {pid}: it does not report, though the hooks work (does it have a configuration of its own?)"
        )


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


def _find_hookless(
    processes: Sequence[Recognised], installations: Mapping[_At, Installation]
) -> dict[ProcessIdentity, str]:
    """Processes in containers in which the hook program that their home's configuration names is not the same file."""

    def sees_hooks(process: Recognised) -> bool:
        found = installations.get((process.provider, process.home or ""))
        if found is None or found.program is None:
            return False
        seen = find_in_root(process.identity.pid, found.program)
        return seen is not None and seen == identify(found.program)

    away = [one for one in processes if not one.shares_mounts and not sees_hooks(one)]
    return {name: "it is in a container that does not have its hooks" for one in away for name in _names_of(one)}


def _names_of(process: Recognised) -> tuple[ProcessIdentity, ...]:
    """As we see it, and as it is called in its own PID namespace: so its journal names it."""
    inner = read_ns_pids(process.identity.pid)[-1:] if not process.shares_mounts else ()
    return process.identity, *(process.identity._replace(pid=pid) for pid in inner if pid != process.identity.pid)


def _list_writers(facts: Facts, outdated: Container[ProcessIdentity] = ()) -> set[ProcessIdentity]:
    """The processes whose reports are in a journal and count, as we see them."""
    named = {one.identity for one in facts.journals if not one.missed and one.identity not in outdated}
    return named | {one.identity for one in facts.recognised if not named.isdisjoint(_names_of(one))}


def _find_left(facts: Facts, writers: Container[ProcessIdentity]) -> dict[ProcessIdentity, float]:
    """Of those whose reports count, the processes that have none of their sessions any more, and since when."""
    left = {
        one.identity: one.reported_at
        for one in facts.journals
        if one.identity in writers and one.events and not current_sessions(one)
    }
    for one in facts.recognised if left else ():
        if (known := next((name for name in _names_of(one) if name in left), None)) is not None:
            left[one.identity] = left[known]
    return left


def _list_distrusted(facts: Facts) -> set[tuple[int, int]]:
    """PID and start ticks of processes whose journal can't be read, as its name says them, or lacks a report."""
    found = {(one.identity.pid, one.identity.start_ticks) for one in facts.journals if one.missed}
    for one in facts.unread_journals:
        pid, _, ticks = os.path.basename(one.path).removesuffix(".json").partition("-")
        if pid.isdecimal() and ticks.isdecimal():
            found.add((int(pid), int(ticks)))
    return found


def _list_written(home: HomeFacts, since: float) -> Iterator[SessionRecord]:
    """Sessions with a record of that time or later."""
    groups = (group for group in home.resting if group.recorded_at >= since)
    records = chain(home.records, (record for group in groups for record in group.load()))
    return (record for record in records if record.recorded_at is not None and record.recorded_at >= since)


def _advise_hooks(process: Recognised) -> str:
    """Installing helps nobody where the configuration can't be read, is rejected, or switches hooks off."""
    from corral.hooks.status import advise_hooks, read_hook_status

    found = read_hook_status(process.provider, process.home, is_found=True) if process.home is not None else None
    return (advise_hooks(*found) if found else None) or f"corral hooks install {process.provider}"


def _name_user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
