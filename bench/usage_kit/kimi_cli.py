"""A generated Kimi CLI home: sessions with turns, tools, sub-agents, forks and the mirrors of old versions."""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from usage_kit.text import Text

DIRECTORIES = 40
DAYS = 120
_TOOLS = (
    ("Shell", '{\\"command\\": \\"pytest -q tests/%d\\"}'),
    ("ReadFile", '{\\"path\\": \\"src/module_%d.py\\"}'),
    ("Grep", '{\\"pattern\\": \\"find_%d\\", \\"path\\": \\".\\"}'),
    ("StrReplaceFile", '{\\"path\\": \\"src/module_%d.py\\", \\"edit\\": {\\"old\\": \\"a\\", \\"new\\": \\"b\\"}}'),
)


@dataclass(slots=True)
class Shape:
    """How large sessions are. `result` is the mean size of a tool's result in bytes."""

    sessions: int
    total_bytes: int
    result: int
    seed: int = 1
    week_share: float = 0.08
    """Of the bytes: what is in files that were last written in the last 7 days."""
    fork_share: float = 0.05
    agent_share: float = 0.2
    legacy_share: float = 0.08

    def choose_days(self, chance: random.Random) -> float:
        """How many days ago a session begins that is over within half a day."""
        return 0.5 + chance.random() * 6 if chance.random() < self.week_share else 8 + chance.random() * (DAYS - 8)


@dataclass(slots=True)
class _Log:
    lines: list[str] = field(default_factory=list)
    size: int = 0
    ends_at: float = 0.0

    def write(self, path: Path) -> None:
        """With the time of its last record, as the CLI would have left it."""
        path.write_text("".join(self.lines))
        os.utime(path, (self.ends_at, self.ends_at))

    def add(self, at: float, kind: str, payload: str) -> None:
        line = f'{{"timestamp": {at!r}, "message": {{"type": "{kind}", "payload": {payload}}}}}\n'
        self.lines.append(line)
        self.size += len(line)
        self.ends_at = max(self.ends_at, at)


class KimiHome:
    """Writes the home below `root/.kimi`."""

    def __init__(self, root: Path, shape: Shape) -> None:
        self._data = root / ".kimi"
        self._work_dirs = [f"/src/project-{number}" for number in range(DIRECTORIES)]
        self._shape = shape
        self._chance = random.Random(shape.seed)
        self._text = Text(shape.seed)
        self._calls = 0
        self._now = int(time.time()) // 86_400 * 86_400

    def write(self) -> None:
        share = self._shape
        forkable: list[tuple[str, _Log]] = []
        for number in range(share.sessions):
            bucket = hashlib.md5(self._work_dirs[number % DIRECTORIES].encode(), usedforsecurity=False).hexdigest()
            session_id = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
            place = self._data / "sessions" / bucket / session_id
            place.mkdir(parents=True)
            if forkable and self._chance.random() < share.fork_share:
                log = self._fork(forkable[self._chance.randrange(len(forkable))][1])
            else:
                log = self._session(place)
                forkable = [*forkable[-20:], (session_id, log)]
            log.write(place / "wire.jsonl")
            self._write_rest(place, number)
        entries = [{"path": path, "kaos": "local", "last_session_id": None} for path in self._work_dirs]
        (self._data / "kimi.json").write_text(json.dumps({"work_dirs": entries}))
        (self._data / "config.toml").write_text(
            'default_model = "main"\n[models.main]\nprovider = "kimi"\nmodel = "kimi-k2.5"\nmax_context_size = 262144\n'
        )

    def _write_rest(self, place: Path, number: int) -> None:
        rows = [
            '{"role": "_system_prompt", "content": "' + self._text.cut(500) + '"}\n{"role": "_checkpoint", "id": 0}\n'
        ]
        rows += [
            f'{{"role": "{role}", "content": "{self._text.cut(self._shape.result // 8)}"}}\n'
            for role in ("user", "assistant", "tool", "assistant")
        ]
        (place / "context.jsonl").write_text("".join(rows))
        (place / "state.json").write_text(
            json.dumps({"version": 1, "custom_title": f"Session {number}", "archived": False})
        )

    def _fork(self, origin: _Log) -> _Log:
        """A part of another session, verbatim, and a turn of its own."""
        log = _Log(origin.lines[: max(2, len(origin.lines) * 2 // 3)])
        log.size = sum(map(len, log.lines))
        self._turn(log, max(origin.ends_at, self._now - self._shape.choose_days(self._chance) * 86_400), None)
        return log

    def _session(self, place: Path) -> _Log:
        log = _Log(['{"type": "metadata", "protocol_version": "1.10"}\n'])
        at = self._now - self._shape.choose_days(self._chance) * 86_400
        goal = self._shape.total_bytes / self._shape.sessions * self._chance.lognormvariate(-0.18, 0.6)
        kind = self._chance.random()
        while log.size < goal:
            at = self._turn(log, at, None)
            if kind < self._shape.agent_share and self._chance.random() < 0.5:
                at = self._agent(log, place, at, own=True)
            elif kind > 1 - self._shape.legacy_share and self._chance.random() < 0.5:
                at = self._agent(log, place, at, own=False)
            at += self._chance.random() * 1200
        return log

    def _turn(self, log: _Log, at: float, mirror: str | None) -> float:
        begin = self._chance.random

        def add(kind: str, payload: str) -> None:
            nonlocal at
            at += begin() * 3
            if mirror is None:
                log.add(at, kind, payload)
            else:
                log.add(at, "SubagentEvent", mirror + f'"event": {{"type": "{kind}", "payload": {payload}}}}}')

        add("TurnBegin", f'{{"user_input": "{self._text.cut(200)}"}}')
        steps = self._chance.randint(1, 5)
        for step in range(1, steps + 1):
            self._calls += 1
            add("StepBegin", f'{{"n": {step}}}')
            add("ContentPart", f'{{"type": "think", "think": "{self._text.cut(900)}", "encrypted": null}}')
            add("ContentPart", f'{{"type": "text", "text": "{self._text.cut(400)}"}}')
            calls = 0 if step == steps else self._chance.choice((1, 1, 1, 2))
            for number in range(calls):
                name, arguments = self._chance.choice(_TOOLS)
                add(
                    "ToolCall",
                    f'{{"type": "function", "id": "call_{self._calls}_{number}", "function": {{"name": "{name}", '
                    f'"arguments": "{arguments % self._calls}"}}, "extras": null}}',
                )
            used = self._chance.randint(2_000, 180_000)
            add(
                "StatusUpdate",
                f'{{"context_usage": {used / 262144!r}, "context_tokens": {used}, "max_context_tokens": 262144, "token_usage": '
                f'{{"input_other": {used // 7}, "output": {self._chance.randint(20, 4000)}, "input_cache_read": {used - used // 7}, '
                f'"input_cache_creation": 0}}, "message_id": "chatcmpl-{self._chance.getrandbits(96):024x}", "plan_mode": false, '
                '"mcp_status": null}',
            )
            for number in range(calls):
                size = int(self._shape.result * self._chance.lognormvariate(-0.5, 1.0))
                add(
                    "ToolResult",
                    f'{{"tool_call_id": "call_{self._calls}_{number}", "return_value": {{"is_error": false, '
                    f'"output": "{self._text.cut(size)}", "message": "", "display": [], "extras": null}}}}',
                )
        add("TurnEnd", "{}")
        return at

    def _agent(self, log: _Log, place: Path, at: float, *, own: bool) -> float:
        """A sub-agent's turn: mirrored in its parent, and since 1.25 with a log of its own."""
        call = f"call_{self._calls}_a"
        if not own:
            return self._turn(log, at, f'{{"task_tool_call_id": "{call}", ')
        agent = f"a{self._chance.getrandbits(32):08x}"
        mine = _Log(['{"type": "metadata", "protocol_version": "1.1"}\n'])
        begin = len(log.lines)
        head = f'{{"parent_tool_call_id": "{call}", "agent_id": "{agent}", "subagent_type": "coder", '
        at = self._turn(log, at, head)
        for line in log.lines[begin:]:
            record = line.partition('"event": ')[2].rstrip("\n")[:-3]
            stamp = float(line[len('{"timestamp": ') : line.index(",")]) - 0.001
            mine.lines.append(f'{{"timestamp": {stamp!r}, "message": {record}}}\n')
            mine.ends_at = stamp
        target = place / "subagents" / agent
        target.mkdir(parents=True)
        mine.write(target / "wire.jsonl")
        (target / "meta.json").write_text(json.dumps({"agent_id": agent, "subagent_type": "coder"}))
        return at
