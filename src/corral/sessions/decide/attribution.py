"""Which running agents are accounted for, and which could be serving a session unseen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from corral.model.process import ProcessIdentity, ProcessMode, Recognised

YOUNG_S = 30.0
"""How long a CLI may take from its start to its first report, on a busy machine."""


class HookCover(Struct, frozen=True, kw_only=True):
    """Since when every new process of a provider and home reports to us, as far as can be proven."""

    since: float
    """Epoch seconds: our hooks work without a gap, and their configuration has not changed, since then."""
    silence_s: float | None = None
    """How long after its start a process may go without a session; None where it may for ever."""
    servers_report: bool = False
    """A server reports each session that it opens, so that its silence says that it has none."""


class Attribution(Struct, frozen=True, kw_only=True):
    """The runs that no claim names, one process each."""

    unattributed: tuple[Recognised, ...]
    no_session_yet: tuple[Recognised, ...]
    young: tuple[Recognised, ...] = ()
    """Those without a session that may be about to open one: they have just begun, or just left another."""


def attribute(
    recognised: Sequence[Recognised],
    claimed: Collection[ProcessIdentity],
    cover: Mapping[tuple[str, str], HookCover],
    now: float = 0.0,
    distrusted: Collection[tuple[int, int]] = (),
    left: Mapping[ProcessIdentity, float] = MappingProxyType({}),
    complete: Mapping[tuple[str, str, ProcessMode], float] = MappingProxyType({}),
) -> Attribution:
    """A run is attributed when any of its processes made a claim that holds, or reported to our journal.

    `distrusted` are PIDs and start ticks of processes whose report can't be read or relied on: they may have any
    session. `left` are those that have reported the end of every session they had, and when they did. `complete` says
    for which provider, home and mode the CLI itself names every process that has a session, and how soon it does.
    """
    unattributed: list[Recognised] = []
    waiting: list[Recognised] = []
    young: list[Recognised] = []
    for run in group_runs(recognised):
        if any(process.identity in claimed for process in run):
            continue
        serving = find_serving(run)
        if serving.mode is ProcessMode.CLIENT:
            waiting.append(serving)
            continue
        covered = cover.get((serving.provider, serving.home)) if serving.home is not None else None
        began = min(process.started_at for process in run)
        left_at = max((left[process.identity] for process in run if process.identity in left), default=None)
        since = began if left_at is None else left_at
        may_be_silent = covered is not None and _may_be_silent(serving, covered, now - since)
        if left_at is None:
            reports = (
                covered is not None
                and covered.since <= began
                and not serving.never_reports
                and may_be_silent
                and not any((one.identity.pid, one.identity.start_ticks) in distrusted for one in run)
            )
        else:
            # It did report. Of a CLI that always has a session we would know the next one by now.
            reports = covered is None or may_be_silent
        within_s = complete.get((serving.provider, serving.home or "", serving.mode))
        is_told = within_s is not None and now - began > within_s
        if not (reports or serving.without_session or is_told):
            unattributed.append(serving)
            continue
        if left_at is None:
            waiting.append(serving)
        if now - since <= YOUNG_S or any(process.is_stopped for process in run):
            young.append(serving)
    return Attribution(unattributed=tuple(unattributed), no_session_yet=tuple(waiting), young=tuple(young))


def group_runs(recognised: Sequence[Recognised]) -> list[list[Recognised]]:
    """The processes of each run together."""
    runs: dict[tuple[str, int], list[Recognised]] = {}
    for process in recognised:
        runs.setdefault((process.provider, process.group), []).append(process)
    return list(runs.values())


def find_serving(run: Sequence[Recognised]) -> Recognised:
    """Launcher levels share a group; the youngest of a run serves, unless it is but a copy of its parent."""
    return max(run, key=lambda one: (not one.is_copy, one.identity.start_ticks, one.identity.pid))


def _may_be_silent(process: Recognised, cover: HookCover, age_s: float) -> bool:
    if cover.silence_s is None or age_s <= cover.silence_s:
        return True
    return cover.servers_report and process.mode is ProcessMode.SERVER
