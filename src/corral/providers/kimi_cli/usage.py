"""What kimi-cli's event logs say was spent: requests with their tokens, turns, tool calls, and what left none."""

from __future__ import annotations

import re

from corral.model.usage import TokenUsage, UsageBatch, UsageSource
from corral.providers.kimi_cli.usage_lines import (
    LOG,
    SHELLS,
    STEP_MARKERS,
    Message,
    Payload,
    Record,
    find_command,
    find_seconds,
    unwrap,
)
from corral.providers.kimi_cli.usage_quick import CALL, CALL_END, LINE, STATUS, TURN_END, is_whole
from corral.system.log_records import Takers, list_earlier, make_known, read_records
from corral.system.usage_batch import Gathered, clean_word, name_call

UNRECORDED_KINDS: tuple[str, ...] = (
    "side questions (/btw) asked in the terminal",
    "session titles made by the web interface",
    "attempts that failed and were repeated",
    "the last turn of a killed process, until the session goes on",
    "the last request of a sub-agent that was killed",
)
"""Calls that kimi-cli 1.51 makes and that leave no trace in its logs (2026-11)."""


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
            self.found.do(f"turn:{stamp}:{kind}", at, "turn")

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
        self.found.do(key, at, "tool", tool)

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
