"""What kimi-cli's event logs say was spent: requests with their tokens, turns, tool calls, and what left none."""

from __future__ import annotations

from collections.abc import Iterator

from corral.model.key import Home, is_valid_id
from corral.model.record import Skipped
from corral.model.usage import UsageBatch, UsageSource
from corral.providers.kimi_cli.places import NAME, list_buckets
from corral.providers.kimi_cli.registry import LOCAL, read_registry
from corral.providers.kimi_cli.usage_lines import (
    LOG,
    SHELLS,
    STEP_MARKERS,
    Message,
    Payload,
    Record,
    Usage,
    find_command,
    find_seconds,
    unwrap,
)
from corral.system.log_records import list_earlier, read_records
from corral.system.usage_batch import Gathered, clean_word, name_call
from corral.system.visits import Visits

UNRECORDED_KINDS: tuple[str, ...] = (
    "side questions (/btw) asked in the terminal",
    "session titles made by the web interface",
    "attempts that failed and were repeated",
    "the last turn of a killed process, until the session goes on",
    "the last request of a sub-agent that was killed",
)
"""Calls that kimi-cli 1.51 makes and that leave no trace in its logs (2026-11)."""


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """The log of every session and of every sub-agent that has one; links and FIFOs are none."""
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
        if entry.name == "wire.jsonl" and entry.is_file(follow_symlinks=False):
            # kimi 1.51: whatever starts a sub-agent is written to its parent's log as well (2026-11)
            visits.tie(session, entry.path)
            yield entry.path, None
        elif entry.name == "subagents" and entry.is_dir(follow_symlinks=False):
            for agent in visits.scan(entry.path):
                if agent.is_dir(follow_symlinks=False) and is_valid_id(agent.name):
                    for log in visits.scan(agent.path):
                        if log.name == "wire.jsonl" and log.is_file(follow_symlinks=False):
                            visits.settle(agent.path)
                            yield log.path, agent.name


def read_usage(source: UsageSource, since: int) -> UsageBatch:
    """All that was appended from `since` to the last whole line."""
    return _Reading(source, since).read(None).found.to_batch()


class _Reading:
    """One pass over one file, and what it has to know of the lines before."""

    def __init__(self, source: UsageSource, since: int) -> None:
        self._source = source
        self._since = since
        self.found = Gathered(source, since)
        self.open_step: float | None = None
        self._knows_step = since == 0
        """False while only the lines before `since` tell whether a step is open."""
        self.calls: set[str] = set()
        """Ids of the turn's tool calls."""
        self._knows_turn = since == 0
        self.repeats: dict[str, int] = {}
        self._knows_repeats = since == 0
        self._before: _Reading | None = None

    def read(self, stop: int | None) -> _Reading:
        read_records(self._source.path, stop, LOG, self.found, self._take_record)
        return self

    def _take_record(self, record: Record, line: bytes, offset: int) -> None:
        message, stamp = record.message, record.timestamp
        at = find_seconds(stamp)
        if message.type == "SubagentEvent":
            self._take_mirror(message, stamp, at, line, offset)
        elif at is None or stamp is None:
            if message.type == "StatusUpdate" and message.payload.token_usage is not None:
                self.found.skip(offset, "usage without a time")
        else:
            self._take(message, stamp, at, line)

    def _take(self, message: Message, stamp: float, at: float, line: bytes) -> None:
        match message.type:
            case "StatusUpdate":
                self._take_status(message.payload, stamp, at)
            case "StepBegin":
                self.open_step, self._knows_step = stamp, True
            case "StepInterrupted":
                self.open_step, self._knows_step = None, True  # the request failed
            case "TurnEnd":
                self._close_step("interrupted turn")
            case "TurnBegin":
                self._close_step("killed turn")
                self.calls, self._knows_turn = set(), True
                self._take_turn(message, stamp, at)
            case "SteerInput":
                self._take_turn(message, stamp, at)
            case "ToolCall" | "ToolCallRequest":
                self._take_call(message, stamp, at, line)
            case "CompactionBegin":
                self.found.leave(f"compaction:{stamp!r}", at, "compaction")
            case "BtwBegin":
                self.found.leave(f"btw:{stamp!r}:{clean_word(message.payload.id)}", at, "side question")
            case _:
                pass

    def _take_turn(self, message: Message, stamp: float, at: float) -> None:
        if self._source.agent is None:  # what a sub-agent is told is part of its parent's turn
            self.found.do(f"turn:{stamp!r}:{message.type}", at, "turn")

    def _take_status(self, payload: Payload, stamp: float, at: float) -> None:
        usage, agent = payload.token_usage, self._source.agent
        if usage is not None:
            self.open_step, self._knows_step = None, True
            key = self._key(payload, stamp) if agent is None else self._agent_key(payload, agent)
            self._spend(key, at, agent, usage)
        elif payload.message_id is not None:
            self.open_step, self._knows_step = None, True
            self.found.leave(f"unmeasured:{stamp!r}", at, "request without usage")

    def _take_mirror(self, message: Message, stamp: float | None, at: float | None, line: bytes, offset: int) -> None:
        """A sub-agent's event in its parent's log. Since 1.25 the sub-agent has a log of its own as well."""
        agent, legacy, inner = unwrap(message)
        usage = inner.payload.token_usage if inner.type == "StatusUpdate" else None
        if at is None or stamp is None:
            if usage is not None:
                self.found.skip(offset, "usage without a time")
        elif usage is not None:
            key = self._key(inner.payload, stamp) if agent is None else self._agent_key(inner.payload, agent)
            self._spend(key, at, agent or legacy, usage)
        elif inner.type == "ToolCall":
            self._do_call(inner, agent, stamp, at, line)
        elif inner.type == "CompactionBegin" and agent is None:
            self.found.leave(f"compaction:{stamp!r}", at, "compaction")

    def _take_call(self, message: Message, stamp: float, at: float, line: bytes) -> None:
        call = clean_word(message.payload.id)
        if message.type == "ToolCall":
            self.calls.add(call)
        elif call in self.calls or self._was_called(call):
            return  # the same call, handed to the client that is to carry it out
        self._do_call(message, self._source.agent, stamp, at, line)

    def _do_call(self, message: Message, agent: str | None, stamp: float, at: float, line: bytes) -> None:
        payload = message.payload
        name = clean_word((payload.function.name if payload.function else None) or payload.name)
        call = clean_word(payload.id)
        key = f"tool:{stamp!r}:{call}" if agent is None else f"tool:{clean_word(agent)}:{call}:{name}"
        self.found.do(key, at, "tool", name_call(name, find_command(line) if name in SHELLS else None))

    def _key(self, payload: Payload, stamp: float) -> str:
        usage = payload.token_usage.key if payload.token_usage else ""
        if payload.message_id is None:
            return f"t:{stamp!r}:{usage}"
        return f"m:{clean_word(payload.message_id)}:{stamp!r}:{usage}"

    def _agent_key(self, payload: Payload, agent: str) -> str:
        """The same for a sub-agent's own record and its mirror, whose times differ."""
        usage = payload.token_usage.key if payload.token_usage else ""
        if payload.message_id is not None:
            return f"a:{clean_word(agent)}:{clean_word(payload.message_id)}:{usage}"
        # Without an id the n-th of equal usages in one log is the n-th of them in the other.
        if not self._knows_repeats:
            self.repeats, self._knows_repeats = dict(self._read_before().repeats), True
        key = f"n:{clean_word(agent)}:{usage}"
        count = self.repeats[key] = self.repeats.get(key, 0) + 1
        return f"{key}#{count}"

    def _close_step(self, kind: str) -> None:
        if not self._knows_step:
            self.open_step = self._find_open_step()
        at = find_seconds(self.open_step)
        if at is not None:
            self.found.leave(f"step:{self.open_step!r}", at, kind)
        self.open_step, self._knows_step = None, True

    def _find_open_step(self) -> float | None:
        """When the step began that no line before this reading has ended."""
        for record in list_earlier(self._source.path, self._since, LOG, STEP_MARKERS):
            if record is None:
                return self._read_before().open_step
            payload = record.message.payload
            match record.message.type:
                case "StepBegin":
                    return record.timestamp
                case "TurnBegin" | "TurnEnd" | "StepInterrupted":
                    return None
                case "StatusUpdate" if payload.token_usage is not None or payload.message_id is not None:
                    return None
                case _:
                    pass
        return None

    def _was_called(self, call: str) -> bool:
        if self._knows_turn:
            return False
        for record in list_earlier(self._source.path, self._since, LOG, (b'"ToolCall"', b'"TurnBegin"')):
            if record is None:
                return call in self._read_before().calls
            if record.message.type == "TurnBegin":
                return False
            if record.message.type == "ToolCall" and clean_word(record.message.payload.id) == call:
                return True
        return False

    def _read_before(self) -> _Reading:
        """All that lies before this reading, for what its lines alone do not tell."""
        if self._before is None:
            self._before = _Reading(self._source, 0).read(self._since)
        return self._before

    def _spend(self, key: str, at: float, agent: str | None, usage: Usage) -> None:
        self.found.spend(key, at, usage.tokens, agent=None if agent is None else clean_word(agent))
