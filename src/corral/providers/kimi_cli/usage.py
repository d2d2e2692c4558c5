"""What kimi-cli's event logs say was spent: requests with their tokens, turns, tool calls, and what left none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from corral.machine.visits import Visits
from corral.model.key import Home, is_valid_id
from corral.model.record import Skipped
from corral.model.usage import TokenUsage, UsageBatch, UsageSource
from corral.providers.kimi_cli.processes import NAME
from corral.providers.kimi_cli.sessions import LOCAL, list_buckets, read_registry
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.log_records import LogForm, Takers, list_earlier, make_known, read_records
from corral.providers.kit.usage_batch import Gathered, clean_word, name_call
from corral.sidecar.files import Unreadable, read_regular

# Lines as kimi-cli 1.51 writes them (2026-11), taken apart without decoding.
#
# Only a short cut, and the cheaper the fewer lines pass it by: any other line is decoded. Inside JSON text quotes are
# escaped, so that a name in quotes is a name and never something that somebody wrote.

_WORD = rb"([!#-\[\]-~]{1,200}+)"
_COUNT = rb"([0-9]{1,15}+)"
_DULL = (
    rb"(?:C(?:ontentPart|ompactionEnd)|Tool(?:Result|CallPart)|Approval(?:Request|Response)|QuestionRequest"
    rb'|Notification|Hook(?:Triggered|Resolved)|PlanDisplay)"'
)
_STATUS = (
    rb'StatusUpdate", "payload": \{[^{]*+\{"input_other": ' + _COUNT + rb', "output": ' + _COUNT + rb", "
    rb'"input_cache_read": '
    + _COUNT
    + rb', "input_cache_creation": '
    + _COUNT
    + rb'\}, "message_id": "'
    + _WORD
    + rb'"'
    rb'(?:, "plan_mode": [a-z]++)?+(?:, "mcp_status": null)?+\}\}\}\Z'
)
_CALL = (
    rb'ToolCall", "payload": \{"type": "function", "id": "' + _WORD + rb'", "function": \{"name": "' + _WORD + rb'", '
    rb'"arguments": "(?:\{\\"command\\": \\"([A-Za-z0-9_.+-]{1,64}+)(?=[ ;&|<>()]|\\"[,}]))?+'
)
_INSIDE = rb'SubagentEvent", "payload": \{(?:"[a-z_]+": (?:"[^"\\\n]*+"|null), )*+"event": \{"type": "'
LINE = re.compile(
    rb'\{(?:"timestamp": ([0-9]{10}\.[0-9]{1,7}+), "message": \{"type": "(?:'
    rb"(?P<dull>" + _DULL + rb")"
    rb'|(?P<step>StepBegin", "payload": \{"n": [0-9]++\}\}\}\Z)'
    rb"|(?P<status>" + _STATUS + rb")"
    rb"|(?P<call>" + _CALL + rb")"
    rb'|(?P<end>TurnEnd", "payload": \{\}\}\}\Z)'
    rb'|(?P<turn>TurnBegin", "payload": \{"user_input": )'
    rb"|(?P<dull_inside>" + _INSIDE + rb"(?:" + _DULL + rb'|StepBegin"|TurnBegin"|TurnEnd"))'
    rb')|(?P<head>"type": "metadata", ))'
)
"""Of calls and turns only the beginning: `is_whole` tells the rest."""
STATUS = (1, *range(LINE.groupindex["status"] + 1, LINE.groupindex["status"] + 6))
"""Groups: the time, input, output, cache read, cache creation, message id."""
CALL = (1, *range(LINE.groupindex["call"] + 1, LINE.groupindex["call"] + 4))
"""Groups: the time, the call's id, the tool's name, the program of a shell command where it is plain to see."""
CALL_END = b'"}, "extras": null}}}'
TURN_END = b"}}}"
USAGE_END = b'"message_id": '
_BEGIN = b'{"timestamp": '


def is_whole(line: re.Match[bytes], ending: bytes) -> bool:
    """Whether a line of which the beginning was matched is one record: it ends like one, and no other goes on in it."""
    data, start, end = line.string, line.pos, line.endpos
    return data.endswith(ending, start, end) and data.find(_BEGIN, start + 1, end) < 0


_LATEST = 1e11  # epoch seconds; larger numbers are milliseconds
_USAGE_MARKER = b'"token_usage"'
STEP_MARKERS = (_USAGE_MARKER, b'"StepBegin"', b'"TurnBegin"', b'"TurnEnd"', b'"StepInterrupted"')
_MARKERS = (*STEP_MARKERS, b'"ToolCall"', b'"SteerInput"', b'"CompactionBegin"', b'"BtwBegin"', b'"ToolCallRequest"')
_RECORD_HEAD = re.compile(r'\{"timestamp": ?[-+.0-9eE]+, ?"message": ?\{"type"')
_is_marked = re.compile(b"|".join(map(re.escape, _MARKERS))).search
SHELLS = frozenset({"Shell", "Bash", "CMD", "PowerShell"})

_Count = Annotated[int, Meta(ge=0, le=1 << 53)]


class Usage(Struct):
    input_other: _Count
    output: _Count
    input_cache_read: _Count = 0
    input_cache_creation: _Count = 0

    @property
    def tokens(self) -> TokenUsage:
        return TokenUsage(
            input=self.input_other,
            cache_read=self.input_cache_read,
            cache_write=self.input_cache_creation,
            output=self.output,
        )


class _Function(Struct):
    name: str | None = None


class Payload(Struct):
    token_usage: Usage | None = None
    message_id: str | int | None = None
    id: str | int | None = None
    name: str | None = None
    function: _Function | None = None
    agent_id: str | None = None
    parent_tool_call_id: str | None = None
    task_tool_call_id: str | None = None
    event: Message | None = None


class Message(Struct):
    type: str
    payload: Payload


class Record(Struct):
    message: Message
    timestamp: float | None = None


class _CallFunction(Struct):
    arguments: str | None = None


class _CallPayload(Struct):
    arguments: str | None = None
    function: _CallFunction | None = None
    event: _CallMessage | None = None


class _CallMessage(Struct):
    payload: _CallPayload


class _CallRecord(Struct):
    message: _CallMessage


class _Arguments(Struct):
    command: str


_CALL_RECORD = ForeignDecoder(_CallRecord)
_ARGUMENTS = ForeignDecoder(_Arguments)


def unwrap(message: Message) -> tuple[str | None, str | None, Message]:
    """The sub-agent's id, else the call that older versions name it by, and the event itself."""
    agent = legacy = None
    while message.type == "SubagentEvent":
        payload = message.payload
        if payload.event is None:
            break
        agent, legacy = payload.agent_id, payload.task_tool_call_id or payload.parent_tool_call_id
        message = payload.event
    return agent, legacy, message


def find_command(line: bytes) -> str | None:
    """What a shell tool was told to run; only for finding the program's name in it."""
    record = _CALL_RECORD.decode(line)
    payload = record.message.payload if record else None
    while payload is not None and payload.event is not None:
        payload = payload.event.payload
    if payload is None:
        return None
    text = payload.function.arguments if payload.function else payload.arguments
    arguments = _ARGUMENTS.decode(text.encode(errors="replace")) if text else None
    return arguments.command if arguments else None


def find_seconds(stamp: float | None) -> float | None:
    if stamp is None:
        return None
    at = stamp / 1000 if stamp >= _LATEST else stamp
    return at if 0 < at < _LATEST else None


def _has_time(record: Record) -> bool:
    return find_seconds(record.timestamp) is not None


LOG = LogForm("kimi-cli", ForeignDecoder(Record), _RECORD_HEAD, LINE, USAGE_END, _is_marked, _has_time)


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
        for session_id in bucket.sessions:
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


_LARGEST = 4 << 20


class _Model(Struct):
    model: str | None = None


class _Config(Struct):
    default_model: str | None = None
    models: dict[str, _Model] = {}


def read_default_model(home: str) -> str | None:
    """As config.toml names it now; None when it does not, or can't be read."""
    content = read_regular(os.path.realpath(os.path.join(home, "config.toml")), _LARGEST)
    if isinstance(content, Unreadable):
        return None
    try:
        config = msgspec.toml.decode(content.data, type=_Config)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return None
    if not config.default_model:
        return None
    named = config.models.get(config.default_model)
    return named.model if named and named.model else config.default_model


def read_usage(source: UsageSource, since: int, fd: int) -> UsageBatch:
    """All that was appended from `since` to the last whole line."""
    return _Reading(source, since, fd).read(None).found.to_batch()


class _Reading:
    """One pass over one file, and what it has to know of the lines before."""

    def __init__(self, source: UsageSource, since: int, fd: int) -> None:
        self._source = source
        self._since = since
        self._fd = fd
        self._agent = None if source.agent is None else clean_word(source.agent)
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
        known = {
            "step": self._know_step,
            "status": self._know_status,
            "call": self._know_call,
            "end": self._know_end,
            "turn": self._know_turn,
        }
        read_records(self._fd, stop, LOG, self.found, Takers(self._take_record, make_known(LINE, known)))
        return self

    def _know_step(self, line: re.Match[bytes]) -> bool:
        self.open_step, self._knows_step = float(line[1]), True
        return True

    def _know_status(self, line: re.Match[bytes]) -> bool:
        stamp, other, output, read, creation, message = line.group(*STATUS)
        tokens = TokenUsage(int(other), int(read), int(creation), 0, int(output))
        self._take_request(stamp.decode(), float(stamp), message.decode(), tokens)
        return True

    def _know_call(self, line: re.Match[bytes]) -> bool:
        stamp, call, name, program = line.group(*CALL)
        tool = name.decode()
        if not is_whole(line, CALL_END) or (program is None and tool in SHELLS):
            return False
        if program is not None and tool in SHELLS:
            tool = f"{tool} {program.decode()}"
        word = call.decode()
        self.calls.add(word)
        self._do_call(self._agent, stamp.decode(), float(stamp), word, name.decode(), tool)
        return True

    def _know_end(self, _line: re.Match[bytes]) -> bool:
        self._close_step("interrupted turn")
        return True

    def _know_turn(self, line: re.Match[bytes]) -> bool:
        if not is_whole(line, TURN_END):
            return False
        self._begin_turn(line[1].decode(), float(line[1]))
        return True

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
                self._begin_turn(repr(stamp), at)
            case "SteerInput":
                self._count_turn(repr(stamp), at, "SteerInput")
            case "ToolCall" | "ToolCallRequest":
                self._take_call(message, stamp, at, line)
            case "CompactionBegin":
                self.found.leave(f"compaction:{stamp!r}", at, "compaction")
            case "BtwBegin":
                self.found.leave(f"btw:{stamp!r}:{clean_word(message.payload.id)}", at, "side question")
            case _:
                pass

    def _begin_turn(self, stamp: str, at: float) -> None:
        self._close_step("killed turn")
        self.calls, self._knows_turn = set(), True
        self._count_turn(stamp, at, "TurnBegin")

    def _count_turn(self, stamp: str, at: float, kind: str) -> None:
        if self._agent is None:  # what a sub-agent is told is part of its parent's turn
            self.found.act(f"turn:{stamp}:{kind}", at, "turn")

    def _take_status(self, payload: Payload, stamp: float, at: float) -> None:
        if payload.token_usage is not None:
            self._take_request(repr(stamp), at, _name_message(payload), payload.token_usage.tokens)
        elif payload.message_id is not None:
            self.open_step, self._knows_step = None, True
            self.found.leave(f"unmeasured:{stamp!r}", at, "request without usage")

    def _take_request(self, stamp: str, at: float, message: str | None, tokens: TokenUsage) -> None:
        self.open_step, self._knows_step = None, True
        agent = self._agent
        key = _make_key(stamp, message, tokens) if agent is None else self._make_agent_key(agent, message, tokens)
        self.found.spend(key, at, tokens, agent=agent)

    def _take_mirror(self, message: Message, stamp: float | None, at: float | None, line: bytes, offset: int) -> None:
        """A sub-agent's event in its parent's log. Since 1.25 the sub-agent has a log of its own as well."""
        named, legacy, inner = unwrap(message)
        agent = None if named is None else clean_word(named)
        usage = inner.payload.token_usage if inner.type == "StatusUpdate" else None
        if at is None or stamp is None:
            if usage is not None:
                self.found.skip(offset, "usage without a time")
        elif usage is not None:
            word, tokens = _name_message(inner.payload), usage.tokens
            key = _make_key(repr(stamp), word, tokens) if agent is None else self._make_agent_key(agent, word, tokens)
            self.found.spend(key, at, tokens, agent=agent or (None if legacy is None else clean_word(legacy)))
        elif inner.type == "ToolCall":
            self._do_decoded_call(inner, agent, stamp, at, line)
        elif inner.type == "CompactionBegin" and agent is None:
            self.found.leave(f"compaction:{stamp!r}", at, "compaction")

    def _take_call(self, message: Message, stamp: float, at: float, line: bytes) -> None:
        call = clean_word(message.payload.id)
        if message.type == "ToolCall":
            self.calls.add(call)
        elif call in self.calls or self._was_called(call):
            return  # the same call, handed to the client that is to carry it out
        self._do_decoded_call(message, self._agent, stamp, at, line)

    def _do_decoded_call(self, message: Message, agent: str | None, stamp: float, at: float, line: bytes) -> None:
        payload = message.payload
        name = clean_word((payload.function.name if payload.function else None) or payload.name)
        tool = name_call(name, find_command(line) if name in SHELLS else None)
        self._do_call(agent, repr(stamp), at, clean_word(payload.id), name, tool)

    def _do_call(self, agent: str | None, stamp: str, at: float, call: str, name: str, tool: str) -> None:
        key = f"tool:{stamp}:{call}" if agent is None else f"tool:{agent}:{call}:{name}"
        self.found.act(key, at, "tool", tool)

    def _make_agent_key(self, agent: str, message: str | None, tokens: TokenUsage) -> str:
        """The same for a sub-agent's own record and its mirror, whose times differ."""
        if message is not None:
            return f"a:{agent}:{message}:{_list_counts(tokens)}"
        # Without an id the n-th of equal usages in one log is the n-th of them in the other.
        if not self._knows_repeats:
            self.repeats, self._knows_repeats = dict(self._read_before().repeats), True
        key = f"n:{agent}:{_list_counts(tokens)}"
        count = self.repeats[key] = self.repeats.get(key, 0) + 1
        return f"{key}#{count}"

    def _close_step(self, kind: str) -> None:
        if not self._knows_step:
            self.open_step = self._find_open_step()
        if self.open_step is not None:
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
            self._before = _Reading(self._source, 0, self._fd).read(self._since)
        return self._before


def _make_key(stamp: str, message: str | None, tokens: TokenUsage) -> str:
    counts = _list_counts(tokens)
    return f"t:{stamp}:{counts}" if message is None else f"m:{message}:{stamp}:{counts}"


def _list_counts(tokens: TokenUsage) -> str:
    return f"{tokens.input},{tokens.output},{tokens.cache_read},{tokens.cache_write}"


def _name_message(payload: Payload) -> str | None:
    return None if payload.message_id is None else clean_word(payload.message_id)
