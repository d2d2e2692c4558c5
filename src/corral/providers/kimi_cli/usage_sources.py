"""The event logs of a kimi-cli home in which usage is recorded: of sessions and of their sub-agents."""

from __future__ import annotations

from collections.abc import Iterator

from corral.model.key import Home, is_valid_id
from corral.model.record import Skipped
from corral.model.usage import UsageSource
from corral.providers.kimi_cli.places import NAME, list_buckets
from corral.providers.kimi_cli.registry import LOCAL, read_registry
from corral.system.visits import Visits


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """The log of every session and of every sub-agent that has one; who reads one that is no file says so."""
    visits = visits or Visits()
    visits.scan_below(f"{home.path}/sessions")
    by_bucket = read_registry(home.path).by_bucket
    for bucket in list_buckets(home.path):
        if isinstance(bucket, Skipped):
            continue
        known = by_bucket.get(bucket.name)
        work_dir = known.path if known is not None and known.kaos == LOCAL else None
        for session_id in bucket.directories:
            for path, agent in _list_logs(f"{bucket.path}/{session_id}", visits):
                yield UsageSource(
                    provider=NAME,
                    home=home.path,
                    scope=bucket.name,
                    session_id=session_id,
                    path=path,
                    agent=agent,
                    work_dir=work_dir,
                )


def _list_logs(session: str, visits: Visits) -> Iterator[tuple[str, str | None]]:
    for entry in visits.scan(session):
        if entry.name == "wire.jsonl":
            # kimi 1.51: whatever starts a sub-agent is written to its parent's log as well (2026-11)
            visits.tie(session, entry.path)
            yield entry.path, None
        elif entry.name == "subagents" and entry.is_dir(follow_symlinks=False):
            for agent in visits.scan(entry.path):
                if agent.is_dir(follow_symlinks=False) and is_valid_id(agent.name):
                    for log in visits.scan(agent.path):
                        if log.name == "wire.jsonl":
                            visits.settle(agent.path)
                            yield log.path, agent.name
