"""What Codex spends, as its rollouts say: a record of each response, and running totals where there are none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import astuple

from corral.machine.visits import Visits
from corral.model.key import Home
from corral.model.record import Skipped
from corral.model.usage import TokenUsage, UsageBatch, UsageSource
from corral.providers.codex import rollouts
from corral.providers.codex.processes import NAME
from corral.providers.codex.rollouts import LINE, Event, Line
from corral.providers.kit.foreign_json import ForeignDecoder
from corral.providers.kit.foreign_values import TextAt
from corral.providers.kit.transcripts import HEAD_BUDGET, TAIL_BUDGET, open_transcript
from corral.providers.kit.usage_batch import Gathered, clean_word, name_call
from corral.providers.kit.usage_lines import UNREADABLE, LineForm, read_lines
from corral.sidecar.files import Unreadable

INTERRUPTED, KILLED = "interrupted turn", "killed turn"
_NO_TIME = "a record without a time"
_OUT_OF_RANGE = "a token count that no request can have"
_MOST_TOKENS = 1 << 40
_TELLING = (b'"token_usage_record"', b'"turn_context"', b'"task_started"')
_MARK = re.compile(
    rb'"(?:token_usage_record|turn_context|session_meta|token_count|task_started|task_complete|turn_[a-z]+'
    rb'|UserMessage|user_message|[a-z_]+_call)"'
)
_HEAD = re.compile(r'\{"timestamp": ?"')
_BEGIN_OF_LINE = 300
"""Bytes in which a line says its kind."""


class Counts(Struct, frozen=True):
    """As Codex counts: what a cache gave or took is a part of the input, reasoning a part of the output."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(one - two for one, two in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return ",".join(map(str, astuple(self)))

    @property
    def possible(self) -> bool:
        return all(0 <= one < _MOST_TOKENS for one in astuple(self.to_tokens()))

    def to_tokens(self) -> TokenUsage:
        return TokenUsage(
            input=self.input_tokens - self.cached_input_tokens - self.cache_write_input_tokens,
            cache_read=self.cached_input_tokens,
            cache_write=self.cache_write_input_tokens,
            output=self.output_tokens - self.reasoning_output_tokens,
            reasoning=self.reasoning_output_tokens,
        )


_NOTHING = Counts()


class _Record(Struct):
    """Of `token_usage_record`."""

    response_id: str
    usage: Counts
    thread_id: str | None = None


class _Info(Struct):
    total_token_usage: Counts | None = None


_RECORD = ForeignDecoder(_Record)
_INFO = ForeignDecoder(_Info)
_ARGUMENTS, _COMMAND = TextAt("arguments"), TextAt("cmd")


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """Every rollout, archived ones and those of sub-agents too."""
    for place in rollouts.list_places(home.path, visits):
        if isinstance(place, Skipped):
            raise PermissionError(f"{place.path}: {place.reason}")
        metas = list(rollouts.list_metas(place.entry.path))
        meta = metas[0] if metas else None
        lineage = tuple(clean_word(one.id) for one in metas[1:])
        yield UsageSource(
            provider=NAME,
            home=home.path,
            scope="",
            session_id=place.thread_id,
            path=place.entry.path,
            agent=clean_word(meta.agent_nickname or place.thread_id) if meta is not None and meta.parent else None,
            work_dir=meta.cwd if meta is not None else None,
            parent_id=lineage[0] if lineage else meta.forked_from_id if meta is not None else None,
            generation=len(lineage),
            family=lineage[-1] if lineage else place.thread_id,
            lineage=lineage,
            certainty=2,
        )


def read_usage(source: UsageSource, since: int, fd: int) -> UsageBatch:
    """What the whole lines from byte `since` on say; a last line without its end waits for the next reading."""
    found = Gathered(source, since)
    if source.path.endswith(rollouts.COMPRESSED):
        found.skip(0, "a compressed rollout is not read")
        found.next_offset = os.fstat(fd).st_size
        return found.to_batch()
    reader = _Reader(source, found)
    read_lines(fd, LineForm(LINE, _HEAD, reader.take, may_count), found)
    return found.to_batch()


def may_count(line: bytes) -> bool:
    """Whether a line can hold what is counted. A quote within a text is escaped: these are real names."""
    return _MARK.search(line, 0, _BEGIN_OF_LINE) is not None


class _Reader:
    """Takes the lines of one rollout in their order, and knows what went before."""

    def __init__(self, source: UsageSource, found: Gathered) -> None:
        self._source = source
        self._found = found
        self._has_records = False
        """From the first one on, running totals say nothing more."""
        self._total: Counts | None = _NOTHING
        """The last running total; None where a fork goes on from one that is not known."""
        self._model: str | None = None
        self._turn: str | None = None
        """The turn that is open, as long as none of its requests has left a record."""
        if found.offset:
            self._look_back(found.offset)
            self._found = found

    def take(self, found: Gathered, line: Line, data: bytes) -> None:
        at = line.at
        if at is None:
            self._found.skip(self._found.offset, _NO_TIME)
        elif line.type == "token_usage_record":
            self._take_record(line, at)
        elif (event := line.event) is not None:
            self._take_event(event, at)
        elif (item := line.item) is not None:
            self._take_call(item, at, bytes(line.payload))
        elif (context := line.context) is not None:
            self._model = clean_word(context.model) or None
        elif (meta := line.meta) is not None:
            if meta.history_base is not None and meta.id == self._source.session_id:
                self._total = None  # those of its parent go on
        elif line.type in ("event_msg", "response_item", "turn_context"):
            self._found.skip(self._found.offset, UNREADABLE)

    def _take_record(self, line: Line, at: float) -> None:
        record = _RECORD.decode(bytes(line.payload))
        self._has_records, self._turn = True, None
        if record is None:
            self._found.skip(self._found.offset, UNREADABLE)
            return
        # A copy names the thread that it was copied from.
        thread_id = clean_word(record.thread_id) or self._source.session_id
        self._spend(f"{thread_id}:{clean_word(record.response_id)}", at, record.usage, thread_id)

    def _take_event(self, event: Event, at: float) -> None:
        if event.begins_turn:
            if self._turn is not None:
                self._found.leave(self._turn, at, KILLED)
            self._turn = clean_word(event.turn_id) or None
        elif event.ends_turn:
            if self._turn is not None and event.type == "turn_aborted":
                self._found.leave(self._turn, at, INTERRUPTED)
            self._turn = None
        elif event.type == "token_count":
            info = _INFO.decode(bytes(event.info))
            if info is not None and info.total_token_usage is not None and not self._has_records:
                self._take_total(info.total_token_usage, at)
        elif (prompt := event.prompt) is not None:
            self._found.act(clean_word(prompt.id) or f"@{at}", at, "turn")

    def _take_total(self, total: Counts, at: float) -> None:
        """A request is the difference to the total before it; one that is smaller began again at nothing."""
        before, self._total = self._total, total
        if before is not None and total != before:
            self._turn = None
            spent = total - before
            self._spend(f"@{total}", at, spent if spent.possible else total, None)

    def _spend(self, key: str, at: float, counts: Counts, thread_id: str | None) -> None:
        if not counts.possible:
            self._found.skip(self._found.offset, _OUT_OF_RANGE)
            return
        agent, model = self._source.agent, self._model
        self._found.spend(key, at, counts.to_tokens(), agent=agent, model=model, session_id=thread_id)

    def _take_call(self, item: rollouts.Item, at: float, payload: bytes) -> None:
        if item.type.endswith("_call") and (key := item.call_id or item.id):
            tool = clean_word(item.name) or item.type.removesuffix("_call")
            command = _COMMAND.find((_ARGUMENTS.find(payload) or "").encode())
            self._found.act(clean_word(key), at, "tool", name_call(tool, command))

    def _look_back(self, offset: int) -> None:
        """Brings it into the state of a reading from the start: by the first lines, and the last ones that tell."""
        transcript = open_transcript(self._source.path)
        if isinstance(transcript, Unreadable):
            return
        self._found = Gathered(self._source, 0)  # what these say was counted before
        with transcript:
            for line in islice(transcript.forward(HEAD_BUDGET), 1):
                self._take_again(line.data)
            transcript.size = min(transcript.size, offset)
            last: list[bytes] = []
            wanted = set(_TELLING)
            for line in transcript.backward(TAIL_BUDGET):
                if may_count(line.data) and line.offset:
                    last.append(line.data)
                    wanted = {mark for mark in wanted if mark not in line.data[:_BEGIN_OF_LINE]}
                if not wanted:
                    break
        for data in reversed(last):
            self._take_again(data)

    def _take_again(self, data: bytes) -> None:
        if (line := LINE.decode(data)) is not None:
            self.take(self._found, line, data)
