"""What kimi-code's event logs say was spent: requests with their tokens, turns, tool calls, and what left none."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from corral.model.key import Home, is_valid_id
from corral.model.record import Skipped
from corral.model.usage import Deed, TokenUsage, Unrecorded, UsageBatch, UsageEvent, UsageSkip, UsageSource
from corral.providers.kimi_code.places import NAME, list_buckets
from corral.providers.kimi_code.state import State, read_state, seconds
from corral.sidecar.files import Unreadable, open_regular
from corral.system.blocks import LARGEST_LINE, Block, read_blocks
from corral.system.foreign_json import ForeignDecoder
from corral.system.transcripts import TAIL_BUDGET, open_transcript

UNRECORDED_KINDS: tuple[str, ...] = (
    "session titles made by a service of Kimi",
    "attempts that failed and were repeated",
    "the last turn of a killed process, until the session goes on",
)
"""Calls that kimi-code 2.1 makes and that leave no trace in its logs (2026-11)."""

_MAIN = "main"
_LONGEST_WORD = 200
_REQUEST_MARKERS = (b'"usage.record"', b'"llm.request"', b'"turn.prompt"', b'"turn.ended"')
_MARKERS = (*_REQUEST_MARKERS, b'"tool.call"', b'"turn.steer"')
_DULL_HEAD = (
    rb'\{"type": ?"(?:context\.(?:append_message|undo|undone)|token_counting\.[a-z_]+|llm\.tools_snapshot'
    rb"|profile\.bind|prompt\.[a-z_]+|subagent\.[a-z_]+|interaction\.[a-z_]+|permission\.[a-z_]+"
    rb'|context\.append_loop_event", ?"agentId": ?"[^"\\\n]*", ?"event": ?\{"type": ?'
    rb'"(?:content\.part|tool\.result|step\.begin|step\.end))"'
)
"""Only a short cut over the layout that kimi-code writes: what it does not match is decoded or searched for markers."""
_is_dull = re.compile(_DULL_HEAD).match
_find_start = re.compile(rb"\n(?!\Z|" + _DULL_HEAD + rb")").search
_is_marked = re.compile(b"|".join(map(re.escape, _MARKERS))).search
_SHORT = 16 << 10
"""A line shorter than this is decoded at once; a longer one only if it has a marker."""
_SHELLS = frozenset({"Bash", "Shell", "PowerShell"})
_PROGRAM = re.compile(
    r"""\s*(?:[A-Za-z_]\w*=(?:'[^']*'|"[^"\\]*"|[^\s'"\\;&|<>()$`]++)*+\s++)*+"""
    r"""((?:[\w.+@~-]*/)*+[\w.+-]{1,64})(?=[\s;&|<>()]|\Z)""",
    re.ASCII,
)

_Count = Annotated[int, Meta(ge=0, le=1 << 53)]


class _Usage(Struct, rename="camel"):
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

    @property
    def key(self) -> str:
        return f"{self.input_other},{self.output},{self.input_cache_read},{self.input_cache_creation}"


class _LoopEvent(Struct, rename="camel"):
    type: str
    uuid: str | None = None
    tool_call_id: str | None = None
    name: str | None = None


class _Record(Struct, rename="camel"):
    type: str
    time: float | None = None
    agent_id: str | None = None
    model: str | None = None
    model_alias: str | None = None
    usage: _Usage | None = None
    usage_scope: str | None = None
    turn_id: str | int | None = None
    prompt_id: str | None = None
    message_id: str | None = None
    event: _LoopEvent | None = None


class _Arguments(Struct):
    command: str


class _CallEvent(Struct):
    args: _Arguments


class _Call(Struct):
    event: _CallEvent


_RECORD = ForeignDecoder(_Record)
_CALL = ForeignDecoder(_Call)


def list_usage_sources(home: Home) -> Iterator[UsageSource]:
    """The log of every agent of every session; links and FIFOs are none."""
    for bucket in list_buckets(home.path):
        if isinstance(bucket, Skipped):
            continue
        for session_id in bucket.sessions:
            session = f"{bucket.path}/{session_id}"
            logs = list(_list_logs(session))
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
                    parent_id=_word(state.forked_from) if state and state.forked_from else None,
                )


def _list_logs(session: str) -> Iterator[tuple[str, str | None]]:
    for entry in _scan(session):
        if entry.name == "agents" and entry.is_dir(follow_symlinks=False):
            for agent in _scan(entry.path):
                if agent.is_dir(follow_symlinks=False) and is_valid_id(agent.name):
                    for log in _scan(agent.path):
                        if log.name == "wire.jsonl" and log.is_file(follow_symlinks=False):
                            yield log.path, None if agent.name == _MAIN else agent.name


def _scan(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def read_usage(source: UsageSource, since: int) -> UsageBatch:
    """All that was appended from `since` to the last whole line."""
    return _Reading(source, since).read()


def _find_lines(block: Block) -> Iterator[tuple[int, bytes]]:
    """Lines that may matter, with their place in the block."""
    data, length = block.data, block.length
    start = 0
    while True:
        stop = data.find(b"\n", start, length)
        if start or not _is_dull(data, 0, length):
            yield start, bytes(data[start:stop])
        found = _find_start(data, stop, length)
        if found is None:
            return
        start = found.end()


class _Reading:
    """One pass over one file, and what it has to know of the lines before."""

    def __init__(self, source: UsageSource, since: int) -> None:
        self._source = source
        self._since = since
        self._events: list[UsageEvent] = []
        self._deeds: list[Deed] = []
        self._unrecorded: list[Unrecorded] = []
        self._skipped: list[UsageSkip] = []
        self._offset = since
        self._models: dict[str, str] = {}
        """Real models by the alias that the last request named."""
        self._open_request: float | None = None
        self._knows_request = since == 0
        """False while only the lines before `since` tell whether a request is open."""

    def read(self) -> UsageBatch:
        next_offset = self._since
        fd = open_regular(self._source.path)
        if isinstance(fd, Unreadable):
            self._skip(self._since, f"can't be read: {fd.reason}")
        else:
            with io.FileIO(fd) as file:
                for block in read_blocks(file, self._since, os.fstat(fd).st_size):
                    self._take_block(block)
                    next_offset = block.end
        return UsageBatch(
            events=self._events,
            deeds=self._deeds,
            unrecorded=self._unrecorded,
            skipped=self._skipped,
            next_offset=next_offset,
        )

    def _take_block(self, block: Block) -> None:
        if block.too_long:
            if not _is_dull(block.data):
                self._skip(block.offset, f"a line longer than {LARGEST_LINE >> 20} MiB")
            return
        for start, line in _find_lines(block):
            if len(line) < _SHORT or _is_marked(line):
                self._take_line(line, block.offset + start)

    def _take_line(self, line: bytes, offset: int) -> None:
        self._offset = offset
        record = _RECORD.decode(line)
        if record is None:
            if _is_marked(line):
                self._skip(offset, "not a record that kimi-code writes, or its numbers are none")
            return
        stamp, at = record.time, seconds(record.time)
        if at is None or stamp is None:
            if record.type == "usage.record":
                self._skip(offset, "usage without a time")
            return
        match record.type:
            case "usage.record":
                self._take_usage(record, stamp, at, offset)
            case "llm.request":
                self._open_request, self._knows_request = stamp, True
                if record.model and record.model_alias:
                    self._models[record.model_alias] = record.model
            case "turn.ended":
                self._open_request, self._knows_request = None, True
            case "turn.prompt":
                self._close_request()
                self._take_turn(record, stamp, at)
            case "turn.steer":
                self._take_turn(record, stamp, at)
            case "context.append_loop_event":
                self._take_call(record, stamp, at, line)
            case _:
                pass

    def _take_usage(self, record: _Record, stamp: float, at: float, offset: int) -> None:
        usage = record.usage
        if usage is None:
            self._skip(offset, "a usage record without usage")
            return
        self._open_request, self._knows_request = None, True
        # step.end names the message, but comes later: with it a key would depend on where a reading ended.
        agent, alias = self._agent_of(record), _word(record.model)
        key = f"{agent}:{stamp:.0f}:{alias}:{usage.key}"
        if not usage.tokens.total:
            interrupted = record.usage_scope in {None, "turn"}
            self._leave(f"zero:{key}", at, "interrupted turn" if interrupted else "request without usage")
            return
        event = UsageEvent(
            key=key,
            at=at,
            session_id=self._source.session_id,
            agent=None if agent == _MAIN else agent,
            model=_word(self._find_model(record.model)) or None,
            tokens=usage.tokens,
            offset=self._offset,
        )
        self._events.append(event)

    def _agent_of(self, record: _Record) -> str:
        return _word(record.agent_id) or self._source.agent or _MAIN

    def _find_model(self, alias: str | None) -> str | None:
        """What the nearest request before named for this alias, else the alias."""
        if alias is None:
            return None
        if alias not in self._models and self._since:
            for record in self._earlier((b'"llm.request"',)):
                if record.type == "llm.request" and record.model_alias == alias and record.model:
                    self._models[alias] = record.model
                    break
        return self._models.setdefault(alias, alias)

    def _take_turn(self, record: _Record, stamp: float, at: float) -> None:
        # `kimi migrate` 2.1 writes the prompts of kimi-cli's session again, without a turn's number (2026-11)
        if self._source.agent is None and (record.turn_id is not None or record.type == "turn.steer"):
            given = _word(record.prompt_id or record.message_id)
            self._do(f"{record.type}:{stamp:.0f}:{given or _word(record.turn_id)}", at, "turn")

    def _take_call(self, record: _Record, stamp: float, at: float, line: bytes) -> None:
        event = record.event
        if event is None or event.type != "tool.call":
            return
        name = _word(event.name)
        program = _find_program(line) if name in _SHELLS else ""
        key = f"tool:{stamp:.0f}:{_word(event.uuid) or _word(event.tool_call_id)}"
        self._do(key, at, "tool", f"{name} {program}" if program else name)

    def _close_request(self) -> None:
        if not self._knows_request:
            self._open_request = self._find_open_request()
        at = seconds(self._open_request)
        if at is not None:
            agent = self._source.agent or _MAIN
            self._leave(f"request:{agent}:{self._open_request:.0f}", at, "killed turn")
        self._open_request, self._knows_request = None, True

    def _find_open_request(self) -> float | None:
        """When the request was made that no line before this reading has ended."""
        for record in self._earlier(_REQUEST_MARKERS):
            if record.type == "llm.request":
                return record.time
            if record.type in {"turn.prompt", "turn.ended"} or (record.type == "usage.record" and record.usage):
                return None
        return None

    def _earlier(self, markers: tuple[bytes, ...]) -> Iterator[_Record]:
        """Records before this reading, the last first."""
        transcript = open_transcript(self._source.path)
        if isinstance(transcript, Unreadable):
            return
        with transcript:
            transcript.size = min(transcript.size, self._since)
            for line in transcript.backward(TAIL_BUDGET):
                if not _is_dull(line.data) and any(marker in line.data for marker in markers):
                    record = _RECORD.decode(line.data)
                    if record is not None and seconds(record.time) is not None:
                        yield record

    def _do(self, key: str, at: float, kind: str, name: str = "") -> None:
        session_id, offset = self._source.session_id, self._offset
        self._deeds.append(Deed(key=key, at=at, session_id=session_id, kind=kind, name=name, offset=offset))

    def _leave(self, key: str, at: float, kind: str) -> None:
        session_id, offset = self._source.session_id, self._offset
        self._unrecorded.append(Unrecorded(key=key, at=at, session_id=session_id, kind=kind, offset=offset))

    def _skip(self, offset: int, reason: str) -> None:
        self._skipped.append(UsageSkip(path=self._source.path, offset=offset, reason=reason))


def _find_program(line: bytes) -> str:
    """What a shell command runs first, without its path; nothing when that is no plain word."""
    call = _CALL.decode(line)
    found = _PROGRAM.match(call.event.args.command[:4096]) if call else None
    return found[1].rpartition("/")[2] if found else ""


def _word(value: str | int | None) -> str:
    """A foreign name or id as text that can be stored anywhere."""
    if value is None:
        return ""
    text = str(value)[:_LONGEST_WORD]
    return text if text.isprintable() else text.encode(errors="replace").decode().replace("\0", "?")
