"""What kimi-code's event logs say was spent: requests with their tokens, turns, tool calls, and what left none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Literal

from msgspec import Struct, structs

from corral.machine.visits import Visits
from corral.model.key import Home, is_valid_id
from corral.model.usage import TokenUsage, UsageBatch, UsageSource
from corral.providers.kimi_code.processes import NAME
from corral.providers.kimi_code.sessions import BUCKETS, MAIN_LOG, Bucket, State, read_state, seconds
from corral.providers.kit.families import Logs, find_kin
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.log_records import LogForm, LogReading
from corral.providers.kit.usage_batch import Count, clean_word, join_counts, name_call
from corral.sidecar.files import Unreadable, open_regular

MAIN = "main"
"""The agent whose log is the session's own."""
KEPT = ".bak"
"""kimi 2.1 cuts a log before a line that it can't read, and keeps what it was beside it under this name: the first such
one, and never another (read in its program, 2026-11)."""
_LOG_NAME = "wire.jsonl"
_LOOP_EVENT = "context.append_loop_event"
_SHELLS = frozenset({"Bash", "Shell", "PowerShell"})


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """The log of every agent of every session; whoever reads one that is not a file says so."""
    visits = visits or Visits()
    for bucket in BUCKETS.visit(home.path, visits):
        yield from _list_bucket(home, bucket, visits)


def _list_bucket(home: Home, bucket: Bucket, visits: Visits) -> Iterator[UsageSource]:
    @cache
    def find_state(session_id: str) -> State | None:
        found = read_state(f"{bucket.path}/{session_id}/state.json") if is_valid_id(session_id) else None
        return found if isinstance(found, State) else None

    def find_parent(session_id: str) -> str | None:
        state = find_state(session_id)
        # The state of another session: somebody copied its directory.
        return clean_word(state.forked_from if state.id == session_id else state.id) if state else None

    def find_log(session_id: str) -> str:
        return f"{bucket.path}/{session_id}/{MAIN_LOG}"

    logs = {one: found for one in bucket.sessions if (found := list(_list_logs(f"{bucket.path}/{one}", visits)))}
    for session_id, kin in find_kin(logs, find_parent, Logs(find_log, b'\n{"type":"forked"')).items():
        state, before = find_state(session_id), kin.list_before(session_id)
        if kin.untold:
            visits.deciders.add(f"{bucket.path}/{kin.untold}/state.json")
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
                        if log.name == _LOG_NAME:
                            visits.tie(agent.path, log.path)
                        if log.name in (_LOG_NAME, _LOG_NAME + KEPT):
                            yield log.path, None if agent.name == MAIN else agent.name


class _Tokens(Struct, rename="camel", gc=False):
    input_other: Count
    output: Count
    input_cache_read: Count = 0
    input_cache_creation: Count = 0

    @property
    def tokens(self) -> TokenUsage:
        return TokenUsage(self.input_other, self.input_cache_read, self.input_cache_creation, 0, self.output)


class _LoopEvent(Struct, rename="camel"):
    type: str
    uuid: str | None = None
    tool_call_id: str | None = None
    name: str | None = None
    args: object = None


class Record(Struct, rename="camel", gc=False):
    type: str
    time: float | None = None
    agent_id: str | None = None
    model: str | None = None
    model_alias: str | None = None
    usage: _Tokens | None = None
    usage_scope: str | None = None
    turn_id: str | int | None = None
    prompt_id: str | None = None
    message_id: str | None = None
    event: _LoopEvent | None = None


class _Arguments(Struct):
    command: str


_ARGUMENTS = ForeignDecoder(_Arguments)


def read_usage(source: UsageSource, since: int, fd: int) -> UsageBatch:
    """All that was appended from `since` to the last whole line."""
    return _Reading(LOG, source, since, fd).read().to_batch()


class _Reading(LogReading[Record]):
    """One pass over one log. A request is ended by its record of usage, or by the end of its turn."""

    def __init__(self, form: LogForm[Record], source: UsageSource, since: int, fd: int) -> None:
        super().__init__(form, source, since, fd)
        self.models: dict[str, str] = {}
        """Real models by the alias that the last request named."""
        self.ended: set[float] = set()
        """Requests that came to their end."""
        self._kept: _Reading | None = None

    def take(self, record: Record) -> None:
        event = record.event if record.type == _LOOP_EVENT else None
        take = LOOP_EVENTS.get(event.type) if event else KINDS.get(record.type)
        if take is None:
            return
        stamp, at = record.time, seconds(record.time)
        if at is not None and stamp is not None:
            take(self, record, stamp, at)
        elif record.type == "usage.record":
            self.found.skip(self.found.offset, "usage without a time")

    def decides_request(self, record: Record) -> float | Literal[False] | None:
        if record.type == "llm.request":
            return record.time
        ends = record.type in {"turn.prompt", "turn.ended"} or (record.type == "usage.record" and record.usage)
        return False if ends else None

    def end_request(self) -> None:
        if self.open_request is not None:
            self.ended.add(self.open_request)
        super().end_request()

    def take_request(self, record: Record, stamp: float, _at: float) -> None:
        self.begin_request(stamp)
        if record.model and record.model_alias:
            self.models[record.model_alias] = record.model

    def take_usage(self, record: Record, stamp: float, at: float) -> None:
        if record.usage is None:
            self.found.skip(self.found.offset, "a usage record without usage")
            return
        self.end_request()
        agent, tokens = clean_word(record.agent_id) or self.source.agent or MAIN, record.usage.tokens
        # step.end names the message, but comes later: with it a key would depend on where a reading ended.
        key = f"{agent}:{stamp:.0f}:{clean_word(record.model)}:{join_counts(tokens)}"
        if tokens.total:
            model = clean_word(self._find_model(record.model)) or None
            self.found.spend(key, at, tokens, agent=None if agent == MAIN else agent, model=model)
        else:
            interrupted = record.usage_scope in {None, "turn"}
            self.found.leave(f"zero:{key}", at, "interrupted turn" if interrupted else "request without usage")

    def take_prompt(self, record: Record, stamp: float, at: float) -> None:
        opened = self.find_open_request()
        opened_at = seconds(opened)
        if opened_at is not None and opened not in self._read_kept().ended:
            self.found.leave(f"request:{self.source.agent or MAIN}:{opened:.0f}", opened_at, "killed turn")
        self.end_request()
        # `kimi migrate` 2.1 writes the prompts of kimi-cli's session again, without a turn's number (2026-11)
        if record.turn_id is not None:
            self.count_turn(record, stamp, at)

    def count_turn(self, record: Record, stamp: float, at: float) -> None:
        if self.source.agent is None:  # what a sub-agent is told is part of its parent's turn
            given = clean_word(record.prompt_id or record.message_id) or clean_word(record.turn_id)
            self.found.act(f"{record.type}:{stamp:.0f}:{given}", at, "turn")

    def take_call(self, record: Record, stamp: float, at: float) -> None:
        if event := record.event:
            name = clean_word(event.name)
            arguments = _ARGUMENTS.convert(event.args) if name in _SHELLS else None
            key = f"tool:{stamp:.0f}:{clean_word(event.uuid) or clean_word(event.tool_call_id)}"
            self.found.act(key, at, "tool", name_call(name, arguments.command if arguments else None))

    def _find_model(self, alias: str | None) -> str | None:
        """What the nearest request before named for this alias, else the alias."""
        if alias is not None and alias not in self.models:
            for record in self.list_earlier() if self.since else ():
                if record is None:
                    self.models = self.read_before().models | self.models
                    break
                if record.type == "llm.request" and record.model_alias == alias and record.model:
                    self.models[alias] = record.model
                    break
        return None if alias is None else self.models.setdefault(alias, alias)

    def _read_kept(self) -> _Reading:
        """What this log was before kimi-code cut it: a request that nothing ends here may have its end there."""
        if self._kept is None:
            source = structs.replace(self.source, path=self.source.path + KEPT)
            fd = open_regular(source.path)
            if isinstance(fd, Unreadable):
                self._kept = _Reading(LOG, source, 0, -1)
            else:
                try:
                    self._kept = _Reading(LOG, source, 0, fd).read()
                finally:
                    os.close(fd)
        return self._kept


# What kimi-code 2.1 writes (2026-11), and who takes it; None: nothing in it counts.
_Take = Callable[[_Reading, Record, float, float], None]
KINDS: Mapping[str, _Take | None] = {
    "usage.record": _Reading.take_usage,
    "llm.request": _Reading.take_request,
    "turn.prompt": _Reading.take_prompt,
    "turn.steer": _Reading.count_turn,
    "turn.ended": lambda reading, _record, _stamp, _at: reading.end_request(),
    "token_counting.measured": None, "context.append_message": None, "context.undo": None, "context.undone": None,
    "llm.tools_snapshot": None, "profile.bind": None, "permission.set_mode": None, "subagent.completed": None,
    "permission.record_approval_result": None, "interaction.request": None, "interaction.resolved": None,
    "prompt.completed": None, "prompt.aborted": None,
}  # fmt: skip
LOOP_EVENTS: Mapping[str, _Take | None] = {
    "tool.call": _Reading.take_call,
    "content.part": None, "tool.result": None, "step.begin": None, "step.end": None,
}  # fmt: skip
LOG = LogForm(
    NAME,
    ForeignDecoder(Record),
    {
        '{"type":"': KINDS,
        f'{{"type":"{_LOOP_EVENT}","agentId":*,"event":{{"type":"': LOOP_EVENTS,
        '{"message":{"message":{"role":"': {"assistant": None, "user": None, "tool": None, "system": None},
    },
    last_field="usageScope",
    has_time=lambda record: seconds(record.time) is not None,
)
