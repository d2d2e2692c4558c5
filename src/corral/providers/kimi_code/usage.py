"""What kimi-code's event logs say was spent: requests with their tokens, turns, tool calls, and what left none."""

from __future__ import annotations

import os
import re

from msgspec import structs

from corral.model.usage import TokenUsage, UsageBatch, UsageSource
from corral.providers.kimi_code.state import seconds
from corral.providers.kimi_code.usage_lines import LOG, REQUEST_MARKERS, SHELLS, Record, find_command
from corral.providers.kimi_code.usage_quick import CALL, LINE, REQUEST, USAGE, find_end
from corral.providers.kimi_code.usage_sources import KEPT, MAIN
from corral.sidecar.files import Unreadable, open_regular
from corral.system.log_records import Takers, list_earlier, make_known, read_records
from corral.system.usage_batch import Gathered, clean_word, name_call

UNRECORDED_KINDS: tuple[str, ...] = (
    "session titles made by a service of Kimi",
    "attempts that failed and were repeated",
    "the last turn of a killed process, until the session goes on",
    "the last request of a sub-agent that was killed",
)
"""Calls that kimi-code 2.1 makes and that leave no trace in its logs (2026-11)."""


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
        self.found.do(f"tool:{time.decode()}:{call.decode()}", int(time) / 1000, "tool", tool)
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
