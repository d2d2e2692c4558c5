"""What Codex spends, as its rollouts say: a record of each response, and running totals where there are none."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import astuple

from corral.machine.visits import Visits
from corral.model.key import Home
from corral.model.record import Skipped
from corral.model.usage import TokenUsage, UsageBatch, UsageSource
from corral.providers.codex import rollouts
from corral.providers.codex.processes import NAME
from corral.providers.codex.rollouts import LINE, Event, Line
from corral.providers.kit.blocks import LARGEST_LINE, read_blocks
from corral.providers.kit.foreign_json import NO_OBJECT, ForeignDecoder, is_object
from corral.providers.kit.transcripts import HEAD_BUDGET, TAIL_BUDGET, open_transcript
from corral.providers.kit.usage_batch import Gathered, clean_word, name_call
from corral.sidecar.files import Unreadable

INTERRUPTED, KILLED = "interrupted turn", "killed turn"
UNCOUNTED = "first request of a fork whose parent is gone"
_UNREADABLE = "not a record that can be read"
_NO_TIME = "a record without a time"
_OUT_OF_RANGE = "a token count that no request can have"
_TOO_LONG = f"a line of more than {LARGEST_LINE >> 20} MiB"
_MOST_TOKENS = 1 << 40
_TELLING = (b'"token_usage_record"', b'"turn_context"', b'"task_started"')
_MARKS = (
    *(*_TELLING, b'"session_meta"', b'"token_count"', b'"task_complete"', b'"turn_'),
    *(b'"UserMessage"', b'"user_message"', b'_call"'),
)
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


class _Arguments(Struct):
    arguments: str | None = None
    input: str | None = None


class _Command(Struct):
    cmd: str | list[str] | None = None
    command: str | list[str] | None = None


_RECORD = ForeignDecoder(_Record)
_INFO = ForeignDecoder(_Info)
_ARGUMENTS = ForeignDecoder(_Arguments)
_COMMAND = ForeignDecoder(_Command)


def list_usage_sources(home: Home, visits: Visits | None = None) -> Iterator[UsageSource]:
    """Every rollout, archived ones and those of sub-agents too."""
    if visits is not None:
        _note_places(home.path, visits)
    for place in rollouts.list_places(home.path):
        if isinstance(place, Skipped):
            raise PermissionError(f"{place.path}: {place.reason}")
        meta = rollouts.read_meta(place.entry.path)
        yield UsageSource(
            provider=NAME,
            home=home.path,
            scope="",
            session_id=place.thread_id,
            path=place.entry.path,
            agent=clean_word(meta.agent_nickname or place.thread_id) if meta is not None and meta.parent else None,
            work_dir=meta.cwd if meta is not None else None,
            parent_id=meta.forked_from_id if meta is not None else None,
        )


def _note_places(home: str, visits: Visits) -> None:
    visits.scan(os.path.join(home, rollouts.ARCHIVED))
    above = [os.path.join(home, rollouts.SESSIONS)]
    for _ in ("years", "months", "days", "rollouts"):
        above = [entry.path for path in above for entry in visits.scan(path) if entry.name.isdigit()]


def read_usage(source: UsageSource, since: int, fd: int) -> UsageBatch:
    """What the whole lines from byte `since` on say; a last line without its end waits for the next reading."""
    found = Gathered(source, since)
    size = os.fstat(fd).st_size
    if source.path.endswith(rollouts.COMPRESSED):
        found.skip(0, "a compressed rollout is not read")
        found.next_offset = size
        return found.to_batch()
    reader = _Reader(source, found)
    for block in read_blocks(fd, since, size):
        if block.too_long:
            if reader.matters(bytes(block.data[:_BEGIN_OF_LINE])):
                found.skip(block.offset, _TOO_LONG)
        else:
            start = 0
            while (stop := block.data.find(b"\n", start, block.length)) >= 0:
                data = bytes(block.data[start:stop])
                found.offset = block.offset + start
                if reader.matters(data):
                    reader.take(data)
                elif not (data.startswith(b"{") and data.endswith(b"}")) and not is_object(data):
                    found.skip(found.offset, NO_OBJECT)
                start = stop + 1
        found.next_offset = block.end
    return found.to_batch()


class _Reader:
    """Takes the lines of one rollout in their order, and knows what went before."""

    def __init__(self, source: UsageSource, found: Gathered) -> None:
        self._source = source
        self._found = found
        self._root = source.session_id
        """The first thread of which this one may have copies: older forks begin with the lines of their parent."""
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

    def matters(self, data: bytes) -> bool:
        head = data[:_BEGIN_OF_LINE]
        return any(mark in head for mark in _MARKS)

    def take(self, data: bytes) -> None:
        line = LINE.decode(data)
        at = line.at if line is not None else None
        if line is None or at is None:
            self._found.skip(self._found.offset, _UNREADABLE if line is None else _NO_TIME)
        elif line.type == "token_usage_record":
            self._take_record(line, at)
        elif (event := line.event) is not None:
            self._take_event(event, at)
        elif (item := line.item) is not None:
            self._take_call(item, at, bytes(line.payload))
        elif (context := line.context) is not None:
            self._model = clean_word(context.model) or None
        elif (meta := line.meta) is not None and not self._has_records and self._total in (None, _NOTHING):
            self._root = clean_word(meta.id)
            if meta.history_base is not None:
                self._total = _find_total(self._source.home, meta.history_base)
        elif line.type in ("event_msg", "response_item", "turn_context"):
            self._found.skip(self._found.offset, _UNREADABLE)

    def _take_record(self, line: Line, at: float) -> None:
        record = _RECORD.decode(bytes(line.payload))
        self._has_records, self._turn = True, None
        if record is None:
            self._found.skip(self._found.offset, _UNREADABLE)
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
            if not self._has_records and (total := _to_total(event)) is not None:
                self._take_total(total, at)
        elif (prompt := event.prompt) is not None:
            self._found.act(clean_word(prompt.id) or f"{self._root}@{at}", at, "turn")

    def _take_total(self, total: Counts, at: float) -> None:
        """A request is the difference to the total before it; one that is smaller began again at nothing."""
        before, self._total = self._total, total
        key = f"{self._root}@{total}"
        if before is None:
            self._found.leave(key, at, UNCOUNTED)
        elif total != before:
            self._turn = None
            spent = total - before
            self._spend(key, at, spent if spent.possible else total, None)

    def _spend(self, key: str, at: float, counts: Counts, thread_id: str | None) -> None:
        if not counts.possible:
            self._found.skip(self._found.offset, _OUT_OF_RANGE)
            return
        agent, model = self._source.agent, self._model
        self._found.spend(key, at, counts.to_tokens(), agent=agent, model=model, session_id=thread_id)

    def _take_call(self, item: rollouts.Item, at: float, payload: bytes) -> None:
        if item.type.endswith("_call") and (key := item.call_id or item.id):
            tool = clean_word(item.name) or item.type.removesuffix("_call")
            self._found.act(clean_word(key), at, "tool", name_call(tool, _find_command(payload)))

    def _look_back(self, offset: int) -> None:
        """Brings it into the state of a reading from the start: by the first lines, and the last ones that tell."""
        transcript = open_transcript(self._source.path)
        if isinstance(transcript, Unreadable):
            return
        self._found = Gathered(self._source, 0)  # what these say was counted before
        with transcript:
            for line in transcript.forward(HEAD_BUDGET):
                if b'"session_meta"' not in line.data[:_BEGIN_OF_LINE]:
                    break
                self.take(line.data)
            transcript.size = min(transcript.size, offset)
            last: list[bytes] = []
            wanted = set(_TELLING)
            for line in transcript.backward(TAIL_BUDGET):
                if self.matters(line.data) and b'"session_meta"' not in line.data[:_BEGIN_OF_LINE]:
                    last.append(line.data)
                    wanted = {mark for mark in wanted if mark not in line.data[:_BEGIN_OF_LINE]}
                if not wanted:
                    break
        for data in reversed(last):
            self.take(data)


def _find_total(home: str, base: rollouts.Base) -> Counts | None:
    """The running total at the place in another rollout from which a fork goes on."""
    path = rollouts.find_rollout(home, base.thread_id)
    transcript = open_transcript(path) if path is not None else None
    if path is None or transcript is None or isinstance(transcript, Unreadable):
        return None
    with transcript:
        transcript.size = min(transcript.size, base.end_byte_offset or transcript.size)
        for line in transcript.backward(TAIL_BUDGET):
            if b'"token_count"' in line.data[:_BEGIN_OF_LINE] and (record := LINE.decode(line.data)) is not None:
                event = record.event
                if event is not None and (total := _to_total(event)) is not None:
                    return total
        if transcript.exhausted:
            return None
    meta = rollouts.read_meta(path)
    further = meta.history_base if meta is not None else None
    return _NOTHING if further is None else _find_total(home, further) if further.thread_id != base.thread_id else None


def _to_total(event: Event) -> Counts | None:
    info = _INFO.decode(bytes(event.info))
    return info.total_token_usage if info is not None else None


def _find_command(payload: bytes) -> str | None:
    """What a shell tool was told to run; only for finding the program's name in it."""
    given = _ARGUMENTS.decode(payload)
    asked = _COMMAND.decode(given.arguments.encode()) if given is not None and given.arguments else None
    command = (asked.cmd or asked.command) if asked is not None else None
    if isinstance(command, list):  # ["bash", "-lc", "ls"]
        command = command[-1] if command else None
    return command
