"""Which running agents are accounted for, and which could be serving any session of their home."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from corral.model.process import ProcessIdentity, Recognised


class HookCover(Struct, frozen=True, kw_only=True):
    """Since when every new process of a provider and home reports to us, as far as it can be proven."""

    since: float
    """Epoch seconds: our hooks were installed, and their config has not changed, since then."""
    silence_s: float | None = None
    """How long after its start a process may go without a session; None where it may for ever."""


class Attribution(Struct, frozen=True, kw_only=True):
    """The runs that no claim names, one process each."""

    unattributed: tuple[Recognised, ...]
    no_session_yet: tuple[Recognised, ...]

    def maybe_serving(self, provider: str, home: str) -> tuple[int, ...]:
        """The unattributed processes that could serve sessions of this home; an unknown home counts for all."""
        return tuple(
            process.identity.pid
            for process in self.unattributed
            if process.provider == provider and process.home in (None, home)
        )


def attribute(
    recognised: Sequence[Recognised],
    claimed: Collection[ProcessIdentity],
    cover: Mapping[tuple[str, str], HookCover],
    now: float = 0.0,
    distrusted: Collection[tuple[int, int]] = (),
) -> Attribution:
    """A run is attributed when any of its processes made a claim that holds, or reported to our journal.

    `distrusted` are PIDs and start ticks of processes whose report can't be read: they may have any session.
    """
    runs: dict[tuple[str, int], list[Recognised]] = {}
    for process in recognised:
        runs.setdefault((process.provider, process.group), []).append(process)
    unattributed: list[Recognised] = []
    waiting: list[Recognised] = []
    for run in runs.values():
        if any(process.identity in claimed for process in run):
            continue
        # Launcher levels share a group; the youngest process of a run is the one that serves.
        serving = max(run, key=lambda process: (process.identity.start_ticks, process.identity.pid))
        covered = cover.get((serving.provider, serving.home)) if serving.home is not None else None
        began = min(process.started_at for process in run)
        reports = (
            covered is not None
            and covered.since <= began
            and (covered.silence_s is None or now - began <= covered.silence_s)
            and not any((one.identity.pid, one.identity.start_ticks) in distrusted for one in run)
        )
        (waiting if reports else unattributed).append(serving)
    return Attribution(unattributed=tuple(unattributed), no_session_yet=tuple(waiting))
