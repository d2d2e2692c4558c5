"""What kimi-cli's event logs say was spent: requests with their tokens, turns, tool calls, and what left none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from corral.machine.visits import Visits
from corral.model.key import Home, is_valid_id
from corral.model.usage import TokenUsage, UsageBatch, UsageSource
from corral.providers.kimi_cli.processes import NAME
from corral.providers.kimi_cli.sessions import BUCKETS, read_registry
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.log_records import LogForm, LogReading
from corral.providers.kit.usage_batch import Count, clean_word, join_counts, name_call
from corral.sidecar.files import Unreadable, read_regular

_LATEST = 1e11  # epoch seconds; larger numbers are milliseconds
_SHELLS = frozenset({"Shell", "Bash", "CMD", "PowerShell"})
_LARGEST_CONFIG = 4 << 20


class _Tokens(Struct, gc=False):
    input_other: Count
    output: Count
    input_cache_read: Count = 0
    input_cache_creation: Count = 0

    @property
    def tokens(self) -> TokenUsage:
        return TokenUsage(self.input_other, self.input_cache_read, self.input_cache_creation, 0, self.output)


class _Function(Struct, gc=False):
    name: str | None = None
    arguments: object = None


class Payload(Struct, gc=False):
    token_usage: _Tokens | None = None
    message_id: str | int | None = None
    id: str | int | None = None
    name: str | None = None
    arguments: object = None
    function: _Function | None = None
    agent_id: str | None = None
    parent_tool_call_id: str | None = None
    task_tool_call_id: str | None = None
    event: Message | None = None

    @property
    def message(self) -> str | None:
        return None if self.message_id is None else clean_word(self.message_id)

    @property
    def tool(self) -> str:
        return clean_word((self.function.name if self.function else None) or self.name)

    @property
    def command(self) -> str | None:
        """What a shell tool was told to run; only for finding the program's name in it."""
        text = self.function.arguments if self.function else self.arguments
        found = _ARGUMENTS.decode(text.encode(errors="replace")) if isinstance(text, str) else None
        return found.command if found else None


class Message(Struct, gc=False):
    type: str
    payload: Payload


class Record(Struct, gc=False):
    message: Message
    timestamp: float | None = None


class _Arguments(Struct):
    command: str


_ARGUMENTS = ForeignDecoder(_Arguments)


def unwrap(message: Message) -> tuple[str | None, str | None, Message]:
    """The sub-agent's id, else the call that older versions name it by, and the event itself."""
    agent = call = None
    while message.type == "SubagentEvent" and message.payload.event is not None:
        payload = message.payload
        agent, call = payload.agent_id, payload.task_tool_call_id or payload.parent_tool_call_id
        message = message.payload.event
    return agent if agent is None else clean_word(agent), call if call is None else clean_word(call), message


def find_seconds(stamp: float | None) -> float | None:
    if stamp is None:
        return None
    at = stamp / 1000 if stamp >= _LATEST else stamp
    return at if 0 < at < _LATEST else None


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """The log of every session and of every sub-agent that has one; whoever reads one that is not a file says so."""
    visits = visits or Visits()
    registry = read_registry(home.path)
    for bucket in BUCKETS.visit(home.path, visits):
        for session_id in bucket.sessions:
            for path, agent in _list_logs(f"{bucket.path}/{session_id}", visits):
                yield UsageSource(
                    provider=NAME,
                    home=home.path,
                    scope=bucket.name,
                    session_id=session_id,
                    path=path,
                    agent=agent,
                    work_dir=registry.find_local(bucket.name),
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


class _Model(Struct):
    model: str | None = None


class _Config(Struct):
    default_model: str | None = None
    models: dict[str, _Model] = {}


def read_default_model(home: str) -> str | None:
    """As config.toml names it now; None when it does not, or can't be read."""
    content = read_regular(os.path.realpath(os.path.join(home, "config.toml")), _LARGEST_CONFIG)
    if isinstance(content, Unreadable):
        return None
    try:
        config = msgspec.toml.decode(content.data, type=_Config)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return None
    named = config.models.get(config.default_model) if config.default_model else None
    return (named.model if named else None) or config.default_model or None


def read_usage(source: UsageSource, since: int, fd: int) -> UsageBatch:
    """All that was appended from `since` to the last whole line."""
    return _Reading(LOG, source, since, fd).read().to_batch()


class _Reading(LogReading[Record]):
    """One pass over one log. Every step of a turn is a request, which a status with usage ends."""

    def __init__(self, form: LogForm[Record], source: UsageSource, since: int, fd: int) -> None:
        super().__init__(form, source, since, fd)
        self._agent = None if source.agent is None else clean_word(source.agent)
        self.calls: set[str] = set()
        """Ids of the turn's tool calls."""
        self._knows_turn = since == 0
        self.repeats: dict[str, int] = {}
        self._knows_repeats = since == 0

    def take(self, record: Record) -> None:
        message, stamp = record.message, record.timestamp
        at = stamp if stamp is not None and 0 < stamp < _LATEST else find_seconds(stamp)
        if stamp is not None and at is not None:
            if take := KINDS.get(message.type):
                take(self, message.payload, stamp, at)
        else:
            _, _, event = unwrap(message)
            if event.type == "StatusUpdate" and event.payload.token_usage is not None:
                self.found.skip(self.found.offset, "usage without a time")

    def decides_request(self, record: Record) -> float | Literal[False] | None:
        kind, payload = record.message.type, record.message.payload
        if kind == "StepBegin":
            return record.timestamp
        measured = payload.token_usage is not None or payload.message_id is not None
        return False if kind in _STEP_ENDS or (kind == "StatusUpdate" and measured) else None

    def take_status(self, payload: Payload, stamp: float, at: float) -> None:
        if payload.token_usage is not None:
            self.end_request()
            self.spend(payload, stamp, at, self._agent)
        elif payload.message_id is not None:
            self.end_request()
            self.found.leave(f"unmeasured:{stamp!r}", at, "request without usage")

    def take_turn(self, stamp: float, at: float) -> None:
        self.close_step("killed turn")
        self.calls, self._knows_turn = set(), True
        self.count_turn(f"turn:{stamp!r}:TurnBegin", at)

    def take_call(self, payload: Payload, stamp: float, at: float, *, again: bool) -> None:
        call = clean_word(payload.id)
        if not again:
            self.calls.add(call)
        elif call in self.calls or self._was_called(call):
            return  # the same call, handed to the client that is to carry it out
        self.count_call(payload, stamp, at, self._agent)

    def take_mirrored(self, payload: Payload, stamp: float, at: float) -> None:
        """A sub-agent's event in its parent's log. Since 1.25 the sub-agent has a log of its own as well."""
        agent, call, event = unwrap(Message("SubagentEvent", payload))
        if take := MIRRORED.get(event.type):
            take(self, event.payload, stamp, at, agent, call)

    def count_turn(self, key: str, at: float) -> None:
        if self._agent is None:  # what a sub-agent is told is part of its parent's turn
            self.found.act(key, at, "turn")

    def count_call(self, payload: Payload, stamp: float, at: float, agent: str | None) -> None:
        call, tool = clean_word(payload.id), payload.tool
        key = f"tool:{stamp!r}:{call}" if agent is None else f"tool:{agent}:{call}:{tool}"
        self.found.act(key, at, "tool", name_call(tool, payload.command if tool in _SHELLS else None))

    def spend(self, payload: Payload, stamp: float, at: float, agent: str | None, call: str | None = None) -> None:
        """A sub-agent's own record and its mirror get the same key, though their times differ."""
        if payload.token_usage is None:
            return
        message, tokens = payload.message, payload.token_usage.tokens
        counts = join_counts(tokens)
        if agent is None:
            key = f"t:{stamp!r}:{counts}" if message is None else f"m:{message}:{stamp!r}:{counts}"
        else:
            key = self._number(f"n:{agent}:{counts}") if message is None else f"a:{agent}:{message}:{counts}"
        self.found.spend(key, at, tokens, agent=call if agent is None else agent)

    def compact(self, stamp: float, at: float) -> None:
        self.found.leave(f"compaction:{stamp!r}", at, "compaction")

    def _number(self, key: str) -> str:
        """Without an id the n-th of equal usages in one log is the n-th of them in the other."""
        if not self._knows_repeats:
            self.repeats, self._knows_repeats = dict(self.read_before().repeats), True
        self.repeats[key] = self.repeats.get(key, 0) + 1
        return f"{key}#{self.repeats[key]}"

    def close_step(self, kind: str) -> None:
        stamp = self.find_open_request()
        at = find_seconds(stamp)
        if at is not None:
            self.found.leave(f"step:{stamp!r}", at, kind)
        self.end_request()

    def _was_called(self, call: str) -> bool:
        if self._knows_turn:
            return False
        for record in self.list_earlier():
            if record is None:
                return call in self.read_before().calls
            if record.message.type == "TurnBegin":
                return False
            if record.message.type == "ToolCall" and clean_word(record.message.payload.id) == call:
                return True
        return False


_STEP_ENDS = frozenset({"TurnBegin", "TurnEnd", "StepInterrupted"})
# What kimi-cli 1.51 writes (2026-11), and who takes it; None: nothing in it counts.
KINDS: Mapping[str, Callable[[_Reading, Payload, float, float], None] | None] = {
    "StatusUpdate": _Reading.take_status,
    "StepBegin": lambda reading, _, stamp, at: reading.begin_request(stamp),
    "StepInterrupted": lambda reading, _, stamp, at: reading.end_request(),  # the request failed
    "TurnBegin": lambda reading, _, stamp, at: reading.take_turn(stamp, at),
    "TurnEnd": lambda reading, _, stamp, at: reading.close_step("interrupted turn"),
    "SteerInput": lambda reading, _, stamp, at: reading.count_turn(f"turn:{stamp!r}:SteerInput", at),
    "ToolCall": lambda reading, payload, stamp, at: reading.take_call(payload, stamp, at, again=False),
    "ToolCallRequest": lambda reading, payload, stamp, at: reading.take_call(payload, stamp, at, again=True),
    "CompactionBegin": lambda reading, _, stamp, at: reading.compact(stamp, at),
    "BtwBegin": lambda reading, payload, stamp, at: reading.found.leave(
        f"btw:{stamp!r}:{clean_word(payload.id)}", at, "side question"
    ),
    "SubagentEvent": _Reading.take_mirrored,
    "ContentPart": None, "ToolResult": None, "ToolCallPart": None, "ApprovalRequest": None, "ApprovalResponse": None,
    "QuestionRequest": None, "Notification": None, "HookTriggered": None, "HookResolved": None, "PlanDisplay": None,
    "CompactionEnd": None,
}  # fmt: skip
MIRRORED: Mapping[str, Callable[[_Reading, Payload, float, float, str | None, str | None], None] | None] = {
    **dict.fromkeys(kind for kind in KINDS if kind != "SubagentEvent"),
    "StatusUpdate": _Reading.spend,
    "ToolCall": lambda reading, payload, stamp, at, agent, _: reading.count_call(payload, stamp, at, agent),
    "CompactionBegin": lambda reading, _, stamp, at, agent, call: reading.compact(stamp, at) if agent is None else None,
}
LOG = LogForm(
    NAME,
    ForeignDecoder(Record),
    {
        '{"timestamp": *, "message": {"type": "': KINDS,
        '{"timestamp": *, "message": {"type": "SubagentEvent", "payload": {**"event": {"type": "': MIRRORED,
        '{"type": "': {"metadata": None},
    },
    last_field="message_id",
    has_time=lambda record: find_seconds(record.timestamp) is not None,
)
