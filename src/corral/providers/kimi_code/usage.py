"""What kimi-code's event logs say was spent: requests with their tokens, turns, tool calls, and what left none."""

from __future__ import annotations

from collections.abc import Iterator

from corral.model.key import Home, is_valid_id
from corral.model.record import Skipped
from corral.model.usage import UsageBatch, UsageSource
from corral.providers.kimi_code.places import NAME, list_buckets
from corral.providers.kimi_code.state import State, read_state, seconds
from corral.providers.kimi_code.usage_lines import (
    LOG,
    REQUEST_MARKERS,
    SHELLS,
    Record,
    find_command,
)
from corral.system.log_records import list_earlier, read_records
from corral.system.usage_batch import Gathered, clean_word, name_call
from corral.system.visits import Visits

UNRECORDED_KINDS: tuple[str, ...] = (
    "session titles made by a service of Kimi",
    "attempts that failed and were repeated",
    "the last turn of a killed process, until the session goes on",
    "the last request of a sub-agent that was killed",
)
"""Calls that kimi-code 2.1 makes and that leave no trace in its logs (2026-11)."""

_MAIN = "main"
_MOST_FORKS = 32


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """The log of every agent of every session; links and FIFOs are none."""
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
                        if log.name == "wire.jsonl" and log.is_file(follow_symlinks=False):
                            visits.settle(agent.path)
                            yield log.path, None if agent.name == _MAIN else agent.name


def read_usage(source: UsageSource, since: int) -> UsageBatch:
    """All that was appended from `since` to the last whole line."""
    return _Reading(source, since).read(None).found.to_batch()


class _Reading:
    """One pass over one file, and what it has to know of the lines before."""

    def __init__(self, source: UsageSource, since: int) -> None:
        self._source = source
        self._since = since
        self.found = Gathered(source, since)
        self.models: dict[str, str] = {}
        """Real models by the alias that the last request named."""
        self.open_request: float | None = None
        self._knows_request = since == 0
        """False while only the lines before `since` tell whether a request is open."""
        self._before: _Reading | None = None

    def read(self, stop: int | None) -> _Reading:
        read_records(self._source.path, stop, LOG, self.found, self._take_record)
        return self

    def _take_record(self, record: Record, line: bytes, offset: int) -> None:
        stamp, at = record.time, seconds(record.time)
        if at is None or stamp is None:
            if record.type == "usage.record":
                self.found.skip(offset, "usage without a time")
            return
        match record.type:
            case "usage.record":
                self._take_usage(record, stamp, at, offset)
            case "llm.request":
                self.open_request, self._knows_request = stamp, True
                if record.model and record.model_alias:
                    self.models[record.model_alias] = record.model
            case "turn.ended":
                self.open_request, self._knows_request = None, True
            case "turn.prompt":
                self._close_request()
                self._take_turn(record, stamp, at)
            case "turn.steer":
                self._take_turn(record, stamp, at)
            case "context.append_loop_event":
                self._take_call(record, stamp, at, line)
            case _:
                pass

    def _take_usage(self, record: Record, stamp: float, at: float, offset: int) -> None:
        usage = record.usage
        if usage is None:
            self.found.skip(offset, "a usage record without usage")
            return
        self.open_request, self._knows_request = None, True
        # step.end names the message, but comes later: with it a key would depend on where a reading ended.
        agent, alias = self._agent_of(record), clean_word(record.model)
        key = f"{agent}:{stamp:.0f}:{alias}:{usage.key}"
        if not usage.tokens.total:
            interrupted = record.usage_scope in {None, "turn"}
            self.found.leave(f"zero:{key}", at, "interrupted turn" if interrupted else "request without usage")
            return
        self.found.spend(
            key,
            at,
            usage.tokens,
            agent=None if agent == _MAIN else agent,
            model=clean_word(self._find_model(record.model)) or None,
        )

    def _agent_of(self, record: Record) -> str:
        return clean_word(record.agent_id) or self._source.agent or _MAIN

    def _find_model(self, alias: str | None) -> str | None:
        """What the nearest request before named for this alias, else the alias."""
        if alias is None:
            return None
        if alias not in self.models and self._since:
            for record in list_earlier(self._source.path, self._since, LOG, (b'"llm.request"',)):
                if record is None:
                    self.models = self._read_before().models | self.models
                    break
                if record.type == "llm.request" and record.model_alias == alias and record.model:
                    self.models[alias] = record.model
                    break
        return self.models.setdefault(alias, alias)

    def _take_turn(self, record: Record, stamp: float, at: float) -> None:
        # `kimi migrate` 2.1 writes the prompts of kimi-cli's session again, without a turn's number (2026-11)
        if self._source.agent is None and (record.turn_id is not None or record.type == "turn.steer"):
            given = clean_word(record.prompt_id or record.message_id)
            self.found.do(f"{record.type}:{stamp:.0f}:{given or clean_word(record.turn_id)}", at, "turn")

    def _take_call(self, record: Record, stamp: float, at: float, line: bytes) -> None:
        event = record.event
        if event is None or event.type != "tool.call":
            return
        name = clean_word(event.name)
        key = f"tool:{stamp:.0f}:{clean_word(event.uuid) or clean_word(event.tool_call_id)}"
        self.found.do(key, at, "tool", name_call(name, find_command(line) if name in SHELLS else None))

    def _close_request(self) -> None:
        if not self._knows_request:
            self.open_request = self._find_open_request()
        at = seconds(self.open_request)
        if at is not None:
            agent = self._source.agent or _MAIN
            self.found.leave(f"request:{agent}:{self.open_request:.0f}", at, "killed turn")
        self.open_request, self._knows_request = None, True

    def _find_open_request(self) -> float | None:
        """When the request was made that no line before this reading has ended."""
        for record in list_earlier(self._source.path, self._since, LOG, REQUEST_MARKERS):
            if record is None:
                return self._read_before().open_request
            if record.type == "llm.request":
                return record.time
            if record.type in {"turn.prompt", "turn.ended"} or (record.type == "usage.record" and record.usage):
                return None
        return None

    def _read_before(self) -> _Reading:
        """All that lies before this reading, for what its lines alone do not tell."""
        if self._before is None:
            self._before = _Reading(self._source, 0).read(self._since)
        return self._before
