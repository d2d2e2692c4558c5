"""What kimi-code's event logs say was spent: requests with their tokens, turns, tool calls, and what left none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct, structs

from corral.machine.visits import Visits
from corral.model.key import Home, is_valid_id
from corral.model.record import Skipped
from corral.model.usage import TokenUsage, UsageBatch, UsageSource
from corral.providers.kimi_code.processes import NAME
from corral.providers.kimi_code.sessions import Bucket, State, list_buckets, read_state, seconds
from corral.providers.kit.blocks import read_blocks
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.log_records import LogForm, Takers, list_earlier, make_known, read_records
from corral.providers.kit.usage_batch import Gathered, clean_word, name_call
from corral.sidecar.files import Unreadable, open_regular

# Lines as kimi-code 2.1 writes them (2026-11), taken apart without decoding.
#
# Only a short cut, and the cheaper the fewer lines pass it by: any other line is decoded. Inside JSON text quotes are
# escaped, so that a name in quotes is a name and never something that somebody wrote.

_WORD = rb"([!#-\[\]-~]{1,200}+)"
_COUNT = rb"([0-9]{1,15}+)"
_REST = rb'(?:,"(?!time")[A-Za-z]++":(?:"[^"\\]*+"|[^,"{}\[\]]++))*+'
_TIME = rb',"time":([0-9]{13})\}\Z'
_AGENT = rb'","agentId":"' + _WORD + rb'"'
_DULL = (
    rb"(?:context\.(?:append_message|undo|undone)|token_counting\.[a-z_]++|llm\.tools_snapshot"
    rb"|profile\.bind|prompt\.[a-z_]++|subagent\.[a-z_]++|interaction\.[a-z_]++|permission\.[a-z_]++)"
)
_LOOP = rb'context\.append_loop_event","agentId":"[^"\\]*+","event":\{"type":"'
LINE = re.compile(
    rb"\{(?:"
    rb'"type":"(?:' + _LOOP + rb'(?:(?P<dull_event>(?:content\.part|tool\.result|step\.begin|step\.end)")'
    rb'|(?P<call>tool\.call","uuid":"' + _WORD + rb'","turnId":"[^"\\]*+","step":[0-9]++,"stepUuid":"[^"\\]*+",'
    rb'"toolCallId":"[^"\\]*+","name":"' + _WORD + rb'","args":\{'
    rb'(?:"command":"([A-Za-z0-9_.+-]{1,64}+)(?=[ ;&|<>()"]))?+))'
    rb"|(?P<usage>usage\.record" + _AGENT + rb',"model":"' + _WORD + rb'","usage":\{"inputOther":' + _COUNT + rb","
    rb'"output":' + _COUNT + rb',"inputCacheRead":' + _COUNT + rb',"inputCacheCreation":' + _COUNT + rb"\},"
    rb'"usageScope":"(turn|session)"' + _TIME + rb")"
    rb"|(?P<request>llm\.request" + _AGENT + rb',"kind":"[^"\\]*+","provider":"[^"\\]*+","model":"' + _WORD + rb'",'
    rb'"modelAlias":"' + _WORD + rb'"' + _REST + _TIME + rb")"
    rb"|(?P<ended>turn\.ended" + _AGENT + _REST + _TIME + rb")"
    rb"|(?P<dull>" + _DULL + rb'"))'
    rb'|(?P<dull_message>"message":\{"message":\{"role":")'
    rb")"
)
"""Of calls only the beginning: `find_end` tells the rest."""
USAGE = tuple(range(LINE.groupindex["usage"] + 1, LINE.groupindex["usage"] + 9))
"""Groups: the agent, the model, input, output, cache read, cache creation, the scope, the time."""
REQUEST = tuple(range(LINE.groupindex["request"] + 2, LINE.groupindex["request"] + 5))
"""Groups: the model, its alias, the time."""
CALL = tuple(range(LINE.groupindex["call"] + 1, LINE.groupindex["call"] + 4))
"""Groups: the call's id, the tool's name, the program of a shell command where it is plain to see."""
USAGE_END = b'"usageScope":'
_OTHERS = (b'"agentId":', b'{"message":')
_TIME_END = re.compile(_TIME)
_TIME_BYTES = 22


def find_end(line: re.Match[bytes]) -> bytes | None:
    """The time at the end of a line of which the beginning was matched; None if another record goes on in it."""
    data, end = line.string, line.endpos
    found = _TIME_END.match(data, end - _TIME_BYTES, end)
    if found is None or any(data.find(other, line.end(), end) >= 0 for other in _OTHERS):
        return None
    return found[1]


REQUEST_MARKERS = (b'"usage.record"', b'"llm.request"', b'"turn.prompt"', b'"turn.ended"')
_MARKERS = (*REQUEST_MARKERS, b'"tool.call"', b'"turn.steer"')
_RECORD_HEAD = re.compile(r'\{"type": ?"')
_is_marked = re.compile(b"|".join(map(re.escape, _MARKERS))).search
SHELLS = frozenset({"Bash", "Shell", "PowerShell"})

_Count = Annotated[int, Meta(ge=0, le=1 << 53)]


class Usage(Struct, rename="camel"):
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


class _LoopEvent(Struct, rename="camel"):
    type: str
    uuid: str | None = None
    tool_call_id: str | None = None
    name: str | None = None


class Record(Struct, rename="camel"):
    type: str
    time: float | None = None
    agent_id: str | None = None
    model: str | None = None
    model_alias: str | None = None
    usage: Usage | None = None
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


_CALL = ForeignDecoder(_Call)


def find_command(line: bytes) -> str | None:
    """What a shell tool was told to run; only for finding the program's name in it."""
    call = _CALL.decode(line)
    return call.event.args.command if call else None


def _has_time(record: Record) -> bool:
    return seconds(record.time) is not None


LOG = LogForm("kimi-code", ForeignDecoder(Record), _RECORD_HEAD, LINE, USAGE_END, _is_marked, _has_time)


# Which sessions of kimi-code are one family: a fork begins with a copy of all that its parent's logs say.
#
# A fork's state.json names its parent, and its logs say `forked` behind the copies, but not of whom. Where nobody names
# the parent any more (its own state.json is gone, or a session between it and its first one), the copies tell:
# the log begins with the same bytes as that of another session of the bucket.

MAIN_LOG = "agents/main/wire.jsonl"
NAMED, ALIKE, ROOTED = 0, 1, 2
_MOST_FORKS = 32
_HEAD_BYTES = 4 << 10
_LEAST_BYTES = 64
"""Fewer bytes in common prove nothing."""
_FORKED = b'\n{"type":"forked"'


class Kin(NamedTuple):
    """What is known of where a session comes from."""

    lineage: tuple[str, ...]
    """The sessions before it that are named, the nearest first."""
    family: str
    """The first session of all, as far as known."""
    certainty: int
    """As a `UsageSource` has it."""
    unread: str | None = None
    """The file that would tell more, if it were there or could be read."""


def find_kin(bucket: str, states: Mapping[str, State | None]) -> dict[str, Kin]:
    """For every session of a bucket that has logs; None stands for a state.json that can't be used."""
    known = dict(states)
    kin = {session_id: _follow(bucket, session_id, known) for session_id in states}
    if all(found.certainty == ROOTED for found in kin.values()):
        return kin
    return _compare(kin, _Heads(bucket))


def _follow(bucket: str, session_id: str, known: dict[str, State | None]) -> Kin:
    lineage: list[str] = []
    name = session_id
    while len(lineage) < _MOST_FORKS:
        if name not in known:
            found = read_state(f"{bucket}/{name}/state.json") if is_valid_id(name) else None
            known[name] = found if isinstance(found, State) else None
        state = known[name]
        if state is None:
            return Kin(tuple(lineage), name, NAMED, f"{bucket}/{name}/state.json")
        # The state of another session: somebody copied its directory.
        parent = clean_word(state.forked_from if state.id == name else state.id)
        if not parent:
            return Kin(tuple(lineage), name, ROOTED)
        if parent in (session_id, *lineage):
            return Kin(tuple(lineage), min(session_id, *lineage), ROOTED)  # a circle, which no CLI makes
        lineage.append(parent)
        name = parent
    return Kin(tuple(lineage), name, NAMED)


class _Heads:
    """How logs begin, read when first asked for."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        self._heads: dict[str, bytes] = {}

    def find(self, session_id: str) -> bytes:
        """Without the first line, which a fork may have written itself, up to where it says that it is a fork."""
        if session_id not in self._heads:
            data = b"".join(self._read(session_id, _HEAD_BYTES))[:_HEAD_BYTES]
            begin = data.find(b"\n")
            self._heads[session_id] = data[begin:].partition(_FORKED)[0] if begin >= 0 else b""
        return self._heads[session_id]

    def is_fork(self, session_id: str) -> bool:
        return any(_FORKED in b"\n" + data for data in self._read(session_id, None))

    def _read(self, session_id: str, most: int | None) -> Iterator[bytes]:
        fd = open_regular(f"{self._bucket}/{session_id}/{MAIN_LOG}")
        if isinstance(fd, Unreadable):
            return
        try:
            if most is not None:
                yield os.pread(fd, most, 0)
            else:
                for block in read_blocks(fd, 0, os.fstat(fd).st_size):
                    yield bytes(block.data[: block.length])
        except OSError:
            return
        finally:
            os.close(fd)


def _compare(kin: dict[str, Kin], heads: _Heads) -> dict[str, Kin]:
    """The same with those whose first session nobody names, as far as their logs tell."""
    rooted = {found.family for found in kin.values() if found.certainty == ROOTED}
    groups = {found.family: {found.family} for found in kin.values()}
    """Names of one and the same family."""
    compared: set[str] = set()
    for session_id, mine in kin.items():
        if mine.certainty == ROOTED or not (mine.lineage or heads.is_fork(session_id)):
            continue
        others = _list_alike(session_id, kin, heads)
        alike = {kin[one].family for one in others}
        compared.update([session_id, *others] if others else ())
        # Those that are no forks are strangers to one another, however their logs begin.
        for name in [min(alike & rooted)] if alike & rooted else alike:
            joined = groups[name] | groups[mine.family]
            groups.update(dict.fromkeys(joined, joined))
    found: dict[str, Kin] = {}
    for session_id, mine in kin.items():
        names = groups[mine.family]
        first = min(names & rooted or names)
        if mine.certainty < ROOTED and (session_id in compared or first != mine.family):
            mine = mine._replace(family=first, certainty=ROOTED if first in rooted else ALIKE)
        found[session_id] = mine
    return found


def _list_alike(session_id: str, kin: Mapping[str, Kin], heads: _Heads) -> list[str]:
    head = heads.find(session_id)
    return [one for one in kin if one != session_id and _are_alike(head, heads.find(one))]


def _are_alike(head: bytes, other: bytes) -> bool:
    length = min(len(head), len(other))
    return length >= _LEAST_BYTES and head[:length] == other[:length]


MAIN = "main"
"""The agent whose log is the session's own."""
_LOG_NAME = "wire.jsonl"
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
                        if log.name == _LOG_NAME:
                            visits.tie(agent.path, log.path)
                        if log.name in (_LOG_NAME, _LOG_NAME + KEPT):
                            yield log.path, None if agent.name == MAIN else agent.name


def read_usage(source: UsageSource, since: int, fd: int) -> UsageBatch:
    """All that was appended from `since` to the last whole line."""
    return _Reading(source, since, fd).read(None).found.to_batch()


class _Reading:
    """One pass over one file, and what it has to know of the lines before."""

    def __init__(self, source: UsageSource, since: int, fd: int) -> None:
        self._source = source
        self._since = since
        self._fd = fd
        self.found = Gathered(source, since)
        self.models: dict[str, str] = {}
        """Real models by the alias that the last request named."""
        self.open_request: float | None = None
        self._knows_request = since == 0
        """False while only the lines before `since` tell whether a request is open."""
        self._before: _Reading | None = None
        self.ended: set[float] = set()
        """Requests that a record of usage or the end of their turn has ended."""
        self._kept: _Reading | None = None

    def read(self, stop: int | None) -> _Reading:
        known = {
            "usage": self._know_usage,
            "request": self._know_request,
            "ended": self._know_ended,
            "call": self._know_call,
        }
        read_records(self._fd, stop, LOG, self.found, Takers(self._take_record, make_known(LINE, known)))
        return self

    def _know_usage(self, line: re.Match[bytes]) -> bool:
        agent, alias, other, output, read, creation, scope, time = line.group(*USAGE)
        tokens = TokenUsage(int(other), int(read), int(creation), 0, int(output))
        self._take_request(agent.decode(), alias.decode(), tokens, scope.decode(), time.decode(), int(time) / 1000)
        return True

    def _know_request(self, line: re.Match[bytes]) -> bool:
        model, alias, time = line.group(*REQUEST)
        self._open_request(float(time), model.decode(), alias.decode())
        return True

    def _know_ended(self, _line: re.Match[bytes]) -> bool:
        self._end_request()
        return True

    def _know_call(self, line: re.Match[bytes]) -> bool:
        call, name, program = line.group(*CALL)
        tool = name.decode()
        time = find_end(line)
        if time is None or (program is None and tool in SHELLS):
            return False
        if program is not None and tool in SHELLS:
            tool = f"{tool} {program.decode()}"
        self.found.act(f"tool:{time.decode()}:{call.decode()}", int(time) / 1000, "tool", tool)
        return True

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
                self._open_request(stamp, record.model, record.model_alias)
            case "turn.ended":
                self._end_request()
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
        agent = clean_word(record.agent_id) or self._source.agent or MAIN
        self._take_request(agent, record.model, usage.tokens, record.usage_scope, f"{stamp:.0f}", at)

    def _take_request(
        self, agent: str, alias: str | None, tokens: TokenUsage, scope: str | None, stamp: str, at: float
    ) -> None:
        self._end_request()
        # step.end names the message, but comes later: with it a key would depend on where a reading ended.
        counts = f"{tokens.input},{tokens.output},{tokens.cache_read},{tokens.cache_write}"
        key = f"{agent}:{stamp}:{clean_word(alias)}:{counts}"
        if not tokens.total:
            interrupted = scope in {None, "turn"}
            self.found.leave(f"zero:{key}", at, "interrupted turn" if interrupted else "request without usage")
            return
        model = clean_word(self._find_model(alias)) or None
        self.found.spend(key, at, tokens, agent=None if agent == MAIN else agent, model=model)

    def _end_request(self) -> None:
        if self.open_request is not None:
            self.ended.add(self.open_request)
        self.open_request, self._knows_request = None, True

    def _open_request(self, stamp: float, model: str | None, alias: str | None) -> None:
        self.open_request, self._knows_request = stamp, True
        if model and alias:
            self.models[alias] = model

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
            self.found.act(f"{record.type}:{stamp:.0f}:{given or clean_word(record.turn_id)}", at, "turn")

    def _take_call(self, record: Record, stamp: float, at: float, line: bytes) -> None:
        event = record.event
        if event is None or event.type != "tool.call":
            return
        name = clean_word(event.name)
        key = f"tool:{stamp:.0f}:{clean_word(event.uuid) or clean_word(event.tool_call_id)}"
        self.found.act(key, at, "tool", name_call(name, find_command(line) if name in SHELLS else None))

    def _close_request(self) -> None:
        if not self._knows_request:
            self.open_request = self._find_open_request()
        at = seconds(self.open_request)
        if at is not None and self.open_request not in self._read_kept().ended:
            agent = self._source.agent or MAIN
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

    def _read_kept(self) -> _Reading:
        """What this log was before kimi-code cut it: a request that nothing ends here may have its end there."""
        if self._kept is None:
            source = structs.replace(self._source, path=self._source.path + KEPT)
            fd = open_regular(source.path)
            self._kept = _Reading(source, 0, -1 if isinstance(fd, Unreadable) else fd)
            if not isinstance(fd, Unreadable):
                try:
                    self._kept.read(None)
                finally:
                    os.close(fd)
        return self._kept

    def _read_before(self) -> _Reading:
        """All that lies before this reading, for what its lines alone do not tell."""
        if self._before is None:
            self._before = _Reading(self._source, 0, self._fd).read(self._since)
        return self._before
