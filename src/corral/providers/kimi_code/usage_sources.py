"""The event logs of a kimi-code home in which usage is recorded: of every agent of every session."""

from __future__ import annotations

from collections.abc import Iterator

from corral.model.key import Home, is_valid_id
from corral.model.record import Skipped
from corral.model.usage import UsageSource
from corral.providers.kimi_code.places import NAME, list_buckets
from corral.providers.kimi_code.state import State, read_state
from corral.system.usage_batch import clean_word
from corral.system.visits import Visits

MAIN = "main"
"""The agent whose log is the session's own."""
_MOST_FORKS = 32


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """The log of every agent of every session; who reads one that is no file says so."""
    visits = visits or Visits()
    visits.scan_below(f"{home.path}/sessions")
    for bucket in list_buckets(home.path):
        if isinstance(bucket, Skipped):
            continue
        for session_id in bucket.sessions:
            session = f"{bucket.path}/{session_id}"
            logs = list(_list_logs(session, visits))
            found = read_state(f"{session}/state.json") if logs else None
            state = found if isinstance(found, State) else None
            for path, agent in logs:
                yield UsageSource(
                    provider=NAME,
                    home=home.path,
                    scope=bucket.name,
                    session_id=session_id,
                    path=path,
                    agent=agent,
                    work_dir=state.cwd if state else None,
                    parent_id=clean_word(state.forked_from) if state and state.forked_from else None,
                    generation=_count_forks(bucket.path, state),
                )


def _count_forks(bucket: str, state: State | None) -> int:
    """How many forks lead to a session from the first one, as far as their state still tells."""
    count = 0
    while state is not None and state.forked_from and count < _MOST_FORKS:
        count += 1
        parent = state.forked_from
        found = read_state(f"{bucket}/{parent}/state.json") if is_valid_id(parent) else None
        state = found if isinstance(found, State) else None
    return count


def _list_logs(session: str, visits: Visits) -> Iterator[tuple[str, str | None]]:
    for entry in visits.scan(session):
        if entry.name == "agents" and entry.is_dir(follow_symlinks=False):
            visits.settle(session)
            for agent in visits.scan(entry.path):
                if agent.is_dir(follow_symlinks=False) and is_valid_id(agent.name):
                    for log in visits.scan(agent.path):
                        if log.name == "wire.jsonl":
                            visits.settle(agent.path)
                            yield log.path, None if agent.name == MAIN else agent.name
