"""Everything a survey rests on, read from disk and process table in one pass; nothing is judged here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from corral.hooks.journal import read_journals
from corral.machine.config import Config
from corral.machine.host import is_on_network
from corral.machine.places import DEMO_VARIABLE, demo_dir
from corral.machine.probe import read_inner_pids
from corral.machine.processes import (
    Process,
    ProcessTable,
    can_see_root,
    find_in_root,
    identify,
    may_write,
    owns_something,
    shares_our_mounts,
)
from corral.machine.procfs import read_uid
from corral.model.claim import BadClaim, Claim
from corral.model.journal import Journal
from corral.model.key import Home
from corral.model.process import NOTHING, WHOLE_HOME, DirectoryId, HostFacts, Reach, Recognised
from corral.model.record import Resting, SessionRecord, SidecarHint, Skipped
from corral.model.restore import Program
from corral.model.session import Degraded
from corral.providers.asking import Asker
from corral.providers.contract import Environment, Provider
from corral.providers.kit.runtime_claims import read_runtime_claim
from corral.providers.registry import all_providers
from corral.sessions.cache import Cache
from corral.sessions.decide.liveness import is_plainly_gone
from corral.state.bindings import Bindings

_STOPPED = frozenset({"T", "t"})
_RECOGNISE = "recognise running processes"


class HomeFacts(Struct, frozen=True, kw_only=True):
    """What was found in one home."""

    provider: Provider
    home: Home
    records: Sequence[SessionRecord]
    resting: Sequence[Resting]
    """Further sessions, all idle as far as the disk says."""
    claims: Sequence[Claim]
    bad_claims: Sequence[BadClaim]
    unclaimed: bool = False
    """Some of what the CLI itself records about its processes could not be read."""


class Facts(Struct, frozen=True, kw_only=True):
    """What was found on this machine, before anything is judged."""

    homes: Sequence[HomeFacts]
    journals: Sequence[Journal]
    recognised: Sequence[Recognised]
    unread_journals: Sequence[Skipped]
    """Journals, or whole directories of them, that could not be read: what they say is not known."""
    skipped: Sequence[Skipped]
    degraded: Sequence[Degraded]
    """What corral itself could not read; where a provider failed, the `Asker` has the reason."""
    unseen: Mapping[str, str]
    """By provider: why one of its processes may run without being known as such."""
    unlisted: Sequence[str]
    """Homes whose sessions were not all listed, because the provider failed."""


def environment(config: Config, cache: Cache, *, probing: bool = False) -> Environment:
    """The person's environment as providers may see it; with `probing`, programs may be asked for their version."""

    def ask_version(path: str) -> str | None:
        known = cache.find_version(path)
        if known is None and probing:
            from corral.providers.kit.programs import probe_version

            known = probe_version(path)
            if known is not None:
                cache.keep_version(path, known)
        return known

    return Environment(
        home_dir=os.path.expanduser("~"),
        variables=os.environ,
        extra_homes=config.homes,
        programs=config.programs,
        ask_version=ask_version,
    )


def find_program(provider: Provider, env: Environment, asker: Asker) -> Program | None:
    """The CLI's program: the one the config names, else the provider's own search."""
    return asker.ask(provider, "find its program", lambda: provider.find_program(env), lambda _: None)


def gather(
    env: Environment,
    state_dir: str,
    cache: Cache,
    table: ProcessTable,
    host: HostFacts,
    asker: Asker,
    providers: Iterable[Provider] | None = None,
    *,
    thorough: bool = True,
    remembered: Sequence[SessionRecord] | None = None,
) -> Facts:
    """Read all homes of the given providers (all, if none are given). A failing step is reported, never fatal.

    Unless `thorough`, evidence of processes that are plainly gone is left out: it changes no state. `remembered`
    are taken for all sessions there are, instead of looking at the disk; everything else is read.
    """
    reader = _Reader(cache, _gone_test(table, host, thorough=thorough), remembered, table, asker)
    concerned = _list_concerned(table)
    homes: list[HomeFacts] = []
    journals: list[Journal] = []
    recognised: list[Recognised] = []
    unread: list[Skipped] = []
    unseen: dict[str, str] = {}
    bindings = Bindings(state_dir)
    for provider in all_providers() if providers is None else providers:
        mine = _recognise_all(asker, provider, concerned, table)
        if (why := asker.find_failure(provider, _RECOGNISE)) is not None:
            unseen[provider.name] = f"corral may not see a running {provider.capabilities.title}: {why}"
        reports: list[Journal] = []
        for entry in read_journals(state_dir, provider.name):
            if isinstance(entry, Skipped):
                unread.append(entry)
            else:
                reports.append(entry)
        placed = [place_process(one) for one in mine]
        named = asker.ask(provider, "find its homes", lambda provider=provider: provider.homes(env), lambda _: ())
        listed = _all_homes(provider, named, [one for one, _ in placed], reports, bindings.homes_of(provider.name))
        ids = {found: home.path for home in reversed(listed) if (found := identify(home.path)) is not None}
        recognised += [settle_process(one, home_id, ids) for one, home_id in placed]
        journals += [settle_journal(one, ids, host.boot_id) for one in reports]
        for home in listed:
            if os.path.isdir(home.path):
                homes.append(reader.read(provider, home))
    return Facts(
        homes=homes,
        journals=journals,
        recognised=recognised,
        unread_journals=unread,
        skipped=[*reader.skipped, *unread],
        degraded=[*reader.degraded, *_report_unread(unread)],
        unseen=unseen,
        unlisted=reader.unlisted,
    )


def _list_concerned(table: ProcessTable) -> Iterable[Process]:
    """Every process; in a demo only those that were started in it, since nothing else knows of its home."""
    place = demo_dir()
    if not place:
        return table
    return [process for process in table if process.environ.get(DEMO_VARIABLE) == place]


def _recognise_all(
    asker: Asker, provider: Provider, concerned: Iterable[Process], table: ProcessTable
) -> list[Recognised]:
    """One whose home is not known may serve any session; one that ended meanwhile serves none."""
    return [
        structs.replace(found, is_copy=process.is_copy, is_stopped=process.state in _STOPPED)
        for process in concerned
        if (
            found := asker.ask(
                provider, _RECOGNISE, lambda process=process: provider.recognise(process, table), lambda _: None
            )
        )
        and (found.home is not None or not process.has_ended())
    ]


def _report_unread(unread: Sequence[Skipped]) -> list[Degraded]:
    return [Degraded(provider=one.provider, step=f"read {one.path}", reason=one.reason) for one in unread]


class _Reader:
    """Reads homes one after another, and keeps what could not be read."""

    def __init__(
        self,
        cache: Cache,
        is_gone: Callable[[SidecarHint, bool], bool],
        remembered: Sequence[SessionRecord] | None,
        table: ProcessTable,
        asker: Asker,
    ) -> None:
        self._cache = cache
        self._table = table
        self._asker = asker
        self._is_gone = is_gone
        self._remembered = remembered
        self.skipped: list[Skipped] = []
        self.degraded: list[Degraded] = []
        self.unlisted: list[str] = []

    def read(self, provider: Provider, home: Home) -> HomeFacts:
        """As far as it can be read: a step that fails does not stop the others."""
        on_network = is_on_network(home.path)
        records: list[SessionRecord] = []
        resting: list[Resting] = []
        sidecars: list[SessionRecord] = []
        for entry in self._list(provider, home):
            if isinstance(entry, SessionRecord):
                records.append(entry)
                if entry.sidecar is not None and not self._is_gone(entry.sidecar, on_network):
                    sidecars.append(entry)
                continue
            if isinstance(entry, Resting):
                resting.append(entry)
                continue
            self.skipped.append(entry)
            if entry.hides_sessions:
                step = f"read {entry.path}"
                self.degraded.append(Degraded(provider=provider.name, step=step, reason=entry.reason))
        step = f"read the claims in {home.path}"
        claimed = self._asker.each(provider, step, lambda: provider.list_claims(home, self._table))
        found: list[Claim | BadClaim] = list(claimed)
        unclaimed = self._asker.find_failure(provider, step) is not None
        found += [read_runtime_claim(record.sidecar.path, record.key) for record in sidecars if record.sidecar]
        bad = [claim for claim in found if isinstance(claim, BadClaim)]
        self.skipped += [
            Skipped(provider=provider.name, path=claim.path, reason=claim.reason)
            for claim in bad
            if not claim.session_id
        ]
        return HomeFacts(
            provider=provider,
            home=home,
            records=records,
            resting=resting,
            claims=[claim for claim in found if isinstance(claim, Claim)],
            bad_claims=bad,
            unclaimed=unclaimed or any(not claim.session_id for claim in bad),
        )

    def _list(self, provider: Provider, home: Home) -> Iterator[SessionRecord | Resting | Skipped]:
        if self._remembered is not None:
            yield from (one for one in self._remembered if (one.provider, one.home) == (provider.name, home.path))
            return
        known = self._cache.known(provider.name, home.path)
        step = f"read {home.path}"
        yield from self._asker.each(provider, step, lambda: provider.list_sessions(home, known))
        if self._asker.is_broken(provider, step):
            self.unlisted.append(home.path)
        self._cache.keep(known)


def _gone_test(table: ProcessTable, host: HostFacts, *, thorough: bool) -> Callable[[SidecarHint, bool], bool]:
    """Which cached runtime.json need not be read: those whose process is plainly gone."""
    if thorough:
        return lambda hint, on_network: False
    pids: set[int] = set()

    def is_gone(hint: SidecarHint, on_network: bool) -> bool:
        if hint.pid is None:
            return False
        if not pids:
            pids.update(process.pid for process in table)
            pids.update(read_inner_pids(None).numbers())
        return is_plainly_gone(hint.pid, hint.hostname, host, pids, on_network_fs=on_network)

    return is_gone


def _all_homes(
    provider: Provider,
    named: Sequence[Home],
    running: Sequence[Recognised],
    journals: Sequence[Journal],
    bound: Sequence[str],
) -> list[Home]:
    """Those the environment names, and those that a running process, our journal or a tab of ours says are in use."""
    homes = list(named)
    seen = {os.path.realpath(home.path) for home in homes}
    hints = [(one.home, f"pid {one.identity.pid}") for one in running if one.shares_mounts]
    hints += [(journal.home, "journal") for journal in journals if journal.home_id in (None, identify(journal.home))]
    hints += [(path, "tab") for path in bound]
    for path, origin in hints:
        if path is not None and (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            homes.append(Home(provider=provider.name, path=path, is_default=False, origin=origin))
    return homes


# --- which of our homes a process works in, under whatever path: by device and inode, through its own root


def place_process(process: Recognised) -> tuple[Recognised, DirectoryId | None]:
    """The process, and its home as device and inode. Its home is None when it can't be read from here."""
    pid, home = process.identity.pid, process.home
    process = structs.replace(process, uid=read_uid(pid))
    if shares_our_mounts(pid):
        return process, identify(home) if home else None
    if home is None or not can_see_root(pid):
        return structs.replace(process, home=None, shares_mounts=False), None
    return structs.replace(process, shares_mounts=False), find_in_root(pid, home)


def settle_process(process: Recognised, home_id: DirectoryId | None, homes: Mapping[DirectoryId, str]) -> Recognised:
    """The process with its home by the path that we list, and with what it could reach in other homes."""
    if process.home is None:
        return structs.replace(process, reaches=_suspect(process, homes.values()))
    if home_id is not None and home_id in homes:
        return structs.replace(process, home=homes[home_id])
    if process.shares_mounts:
        return process
    return structs.replace(process, reaches={})  # in a home of its container's own


def settle_journal(journal: Journal, homes: Mapping[DirectoryId, str], boot_id: str | None) -> Journal:
    """The journal with its home by the path that we list."""
    # Devices may have other numbers after a reboot; then the path has to be enough.
    if journal.home_id is None or journal.identity.boot_id != boot_id:
        found = identify(journal.home)
        return structs.replace(journal, home=homes[found]) if found and found in homes else journal
    if (known := homes.get(journal.home_id)) is not None:
        return structs.replace(journal, home=known)
    return structs.replace(journal, home=f"{journal.hostname}:{journal.home}")  # of a container: none of ours


def _suspect(process: Recognised, homes: Iterable[str]) -> dict[str, Reach] | None:
    """The homes that a process of another user, whose own can't be read, may be at work in; None: any, if it is ours.

    Being allowed to write there is not enough: root is, everywhere. Something of that user's must be there, or
    something be written since it began.
    """
    uid = process.uid
    if uid is None or uid == os.getuid():
        return None
    return {
        home: WHOLE_HOME if owns_something(uid, home) else NOTHING
        for home in homes
        if may_write(process.identity.pid, uid, home)
    }
