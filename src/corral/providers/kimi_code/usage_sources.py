"""The event logs of a kimi-code home in which usage is recorded: of every agent of every session."""

from __future__ import annotations

from collections.abc import Iterator

from corral.model.key import Home, is_valid_id
from corral.model.record import Skipped
from corral.model.usage import UsageSource
from corral.providers.kimi_code.families import find_kin
from corral.providers.kimi_code.places import NAME, Bucket, list_buckets
from corral.providers.kimi_code.state import State, read_state
from corral.system.visits import Visits

MAIN = "main"
"""The agent whose log is the session's own."""
LOG = "wire.jsonl"
KEPT = ".bak"
"""kimi 2.1 cuts a log before a line that it can't read, and keeps what it was beside it under this name: the first such
one, and never another (read in its program, 2026-11)."""


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """The log of every agent of every session; who reads one that is no file says so."""
    visits = visits or Visits()
    visits.scan_below(f"{home.path}/sessions")
    for bucket in list_buckets(home.path):
        if not isinstance(bucket, Skipped):
            yield from _list_bucket(home, bucket, visits)


def _list_bucket(home: Home, bucket: Bucket, visits: Visits) -> Iterator[UsageSource]:
    logs = {one: found for one in bucket.sessions if (found := list(_list_logs(f"{bucket.path}/{one}", visits)))}
    states: dict[str, State | None] = {}
    for session_id in logs:
        found = read_state(f"{bucket.path}/{session_id}/state.json")
        states[session_id] = found if isinstance(found, State) else None
    for session_id, kin in find_kin(bucket.path, states).items():
        state = states[session_id]
        if kin.unread:
            visits.deciders.add(kin.unread)
        before = kin.lineage if kin.family in (session_id, *kin.lineage) else (*kin.lineage, kin.family)
        for path, agent in logs[session_id]:
            yield UsageSource(
                provider=NAME,
                home=home.path,
                scope=bucket.name,
                session_id=session_id,
                path=path,
                agent=agent,
                work_dir=state.cwd if state else None,
                parent_id=before[0] if before else None,
                generation=len(before),
                family=kin.family,
                lineage=kin.lineage,
                certainty=kin.certainty,
            )


def _list_logs(session: str, visits: Visits) -> Iterator[tuple[str, str | None]]:
    for entry in visits.scan(session):
        if entry.name == "agents" and entry.is_dir(follow_symlinks=False):
            visits.settle(session)
            for agent in visits.scan(entry.path):
                if agent.is_dir(follow_symlinks=False) and is_valid_id(agent.name):
                    for log in visits.scan(agent.path):
                        if log.name == LOG:
                            visits.tie(agent.path, log.path)
                        if log.name in (LOG, LOG + KEPT):
                            yield log.path, None if agent.name == MAIN else agent.name
