"""Writes a Codex home with every trap there is, and tells the truth about it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.usage_truth.truth import (
    BAD_NUMBERS,
    GARBAGE,
    ODD_TEXT,
    RATES,
    UNPRICED,
    Chance,
    Files,
    Request,
    Tokens,
    Truth,
)

NAME = "codex"
_NOTHING = Tokens()


@dataclass
class _Thread:
    thread_id: str
    has_records: bool = True
    """Older versions wrote running totals only."""
    parent: str | None = None
    agent: str | None = None
    total: Tokens = _NOTHING
    lines: list[bytes] = field(default_factory=list[bytes])
    path: str = ""


class CodexHome:
    def __init__(self, chance: Chance, truth: Truth, root: str = ".codex") -> None:
        self._chance, self._truth, self._root = chance, truth, root
        self.files = Files()
        self._now = 1_792_000_000.0 + chance.randrange(1000)
        self._model = ""

    def write(self) -> None:
        threads: list[_Thread] = []
        for _ in range(self._chance.randrange(2, 5)):
            thread = self._make(has_records=self._chance.likely(0.6))
            self._write_line(thread, "session_meta", self._meta(thread))
            self._go_on(thread)
            threads.append(thread)
            if self._chance.likely(0.5):
                threads.append(self._fork(self._chance.choice(threads)))
            if thread.has_records and self._chance.likely(0.4):
                threads.append(self._spawn(thread))
        for thread in threads:
            if self._chance.likely(0.3):
                self._go_on(thread)
            self.files.add(thread.path, *thread.lines)

    def _make(self, *, has_records: bool, parent: str | None = None, agent: str | None = None) -> _Thread:
        thread_id = self._chance.uuid()
        directory = self._chance.choice(("sessions/2026/10/14", "sessions/2026/10/15", "archived_sessions"))
        path = f"{self._root}/{directory}/rollout-2026-10-14T10-00-00-{thread_id}.jsonl"
        return _Thread(thread_id, has_records, parent, agent, path=path)

    def _fork(self, source: _Thread) -> _Thread:
        """By reference; in older versions by copies, which are written again: with the time of the fork."""
        fork = self._make(has_records=source.has_records, parent=source.thread_id)
        fork.total = source.total
        meta = self._meta(fork) | {"forked_from_id": source.thread_id}
        if source.has_records:
            self._write_line(fork, "session_meta", meta | {"history_base": {"thread_id": source.thread_id}})
            if self._chance.likely(0.5):  # a compaction begins with the total so far
                self._write_total(fork)
        else:
            self._write_line(fork, "session_meta", meta)
            for line in source.lines:
                if b'"timestamp"' in line:
                    record = json.loads(line)
                    self._write_line(fork, record["type"], record["payload"])
        self._go_on(fork)
        return fork

    def _spawn(self, parent: _Thread) -> _Thread:
        child = self._make(has_records=True, agent=f"Agent{self._chance.number()}")
        meta = self._meta(child) | {"parent_thread_id": parent.thread_id, "agent_nickname": child.agent}
        self._write_line(child, "session_meta", meta)
        self._go_on(child)
        return child

    def _go_on(self, thread: _Thread) -> None:
        for _ in range(self._chance.randrange(1, 5)):
            self._turn(thread)

    def _turn(self, thread: _Thread) -> None:
        turn_id = self._chance.uuid()
        self._write_event(thread, "task_started", turn_id=turn_id)
        self._model = self._chance.choice((*RATES, UNPRICED))
        self._write_line(thread, "turn_context", {"cwd": "/src/app", "model": self._model, "turn_id": turn_id})
        if thread.has_records:
            item_id = self._chance.uuid()
            content = [{"type": "text", "text": self._text()}]
            self._write_event(thread, "item_completed", item={"type": "UserMessage", "id": item_id, "content": content})
            self._truth.turns.add(item_id)
        match self._chance.choice(("", "", "", "aborted", "killed")):
            case "aborted":
                self._truth.unrecorded[turn_id] = (NAME, "interrupted turn")
                self._write_event(thread, "turn_aborted", turn_id=turn_id, reason="interrupted")
                return
            case "killed":
                self._truth.unrecorded[turn_id] = (NAME, "killed turn")
                self._turn(thread)
                return
            case _:
                pass
        for _ in range(self._chance.randrange(1, 4)):
            self._response(thread)
        match self._chance.choice(("", "tool", "garbage", "bad", "repeat")):
            case "tool":
                call_id = f"call_{self._chance.number()}"
                arguments = json.dumps({"cmd": "cd /x && make"})
                call = {"type": "function_call", "name": "exec_command", "call_id": call_id, "arguments": arguments}
                self._write_line(thread, "response_item", call)
                self._write_line(
                    thread,
                    "response_item",
                    {"type": "function_call_output", "call_id": call_id, "output": self._text()},
                )
                self._truth.tools[call_id] = "exec_command cd"
            case "garbage":
                thread.lines.append(GARBAGE)
                self._truth.skips[thread.path] += 1
            case "bad" if thread.has_records:
                usage = self._counts(self._chance.tokens()) | {"input_tokens": self._chance.choice(BAD_NUMBERS)}
                self._write_line(thread, "token_usage_record", {"response_id": "bad", "usage": usage})
                self._truth.skips[thread.path] += 1
            case "repeat":
                self._write_total(thread)
            case _:
                pass
        self._write_event(thread, "task_complete", turn_id=turn_id)

    def _response(self, thread: _Thread) -> None:
        tokens = self._chance.tokens()._replace(reasoning=self._chance.randrange(100))
        thread.total = Tokens(*(sum(pair) for pair in zip(thread.total, tokens, strict=True)))
        response_id = f"resp_{self._chance.number()}"
        at = self._now
        if thread.has_records:
            record = {"response_id": response_id, "thread_id": thread.thread_id, "usage": self._counts(tokens)}
            self._write_line(thread, "token_usage_record", record | {"thread_token_usage": self._counts(thread.total)})
        self._write_total(thread)
        self._truth.requests[response_id] = Request(NAME, thread.thread_id, at, self._model, tokens, thread.agent)

    def _write_total(self, thread: _Thread) -> None:
        # What it says of the last request is wrong after a compaction.
        info = {
            "total_token_usage": self._counts(thread.total),
            "last_token_usage": self._counts(self._chance.tokens()),
        }
        self._write_event(thread, "token_count", info=info)

    def _counts(self, tokens: Tokens) -> dict[str, Any]:
        return {
            "input_tokens": tokens.input + tokens.cache_read + tokens.cache_write,
            "cached_input_tokens": tokens.cache_read,
            "cache_write_input_tokens": tokens.cache_write,
            "output_tokens": tokens.output + tokens.reasoning,
            "reasoning_output_tokens": tokens.reasoning,
            "total_tokens": sum(tokens),
        }

    def _meta(self, thread: _Thread) -> dict[str, Any]:
        return {"id": thread.thread_id, "cwd": "/src/app", "timestamp": self._stamp(), "source": "cli"}

    def _write_event(self, thread: _Thread, kind: str, **payload: Any) -> None:
        self._write_line(thread, "event_msg", {"type": kind, **payload})

    def _write_line(self, thread: _Thread, kind: str, payload: dict[str, Any]) -> None:
        self._now += self._chance.randrange(1, 900) / 10
        record = {"timestamp": self._stamp(), "type": kind, "payload": payload}
        thread.lines.append(json.dumps(record, separators=(",", ":")).encode() + b"\n")

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self._now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _text(self) -> str:
        # Rust writes no lone surrogates.
        return self._chance.choice([text for text in ODD_TEXT if "\ud800" not in text])
