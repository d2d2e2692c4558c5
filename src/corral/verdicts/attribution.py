"""Which running agents are accounted for, and which could be serving a session that nobody knows of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from corral.model.process import ProcessIdentity, ProcessMode, Recognised

YOUNG_S = 30.0
"""How long a CLI may take from its start to its first report, on a busy machine."""


class HookCover(Struct, frozen=True, kw_only=True):
    """Since when every new process of a provider and home reports to us, as far as it can be proven."""

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
    """Those without a session yet that may be about to open one."""


def attribute(
    recognised: Sequence[Recognised],
    claimed: Collection[ProcessIdentity],
    cover: Mapping[tuple[str, str], HookCover],
    now: float = 0.0,
    distrusted: Collection[tuple[int, int]] = (),
) -> Attribution:
    """A run is attributed when any of its processes made a claim that holds, or reported to our journal.

    `distrusted` are PIDs and start ticks of processes whose report can't be read or relied on: they may have any
    session.
    """
    unattributed: list[Recognised] = []
    waiting: list[Recognised] = []
    young: list[Recognised] = []
    for run in group_runs(recognised):
        if any(process.identity in claimed for process in run):
            continue
        serving = find_serving(run)
        covered = cover.get((serving.provider, serving.home)) if serving.home is not None else None
        began = min(process.started_at for process in run)
        reports = (
            covered is not None
            and covered.since <= began
            and _may_be_silent(serving, covered, now - began)
            and not any((one.identity.pid, one.identity.start_ticks) in distrusted for one in run)
        )
        if not (reports or serving.without_session):
            unattributed.append(serving)
            continue
        waiting.append(serving)
        if now - began <= YOUNG_S:
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
