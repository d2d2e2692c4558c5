"""Writes a Kimi CLI home with every trap there is, and tells the truth about it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from tests.usage_truth.truth import BAD_NUMBERS, GARBAGE, ODD_TEXT, Chance, Files, Request, Tokens, Truth

NAME = "kimi-cli"
CONFIGURED = "truth-small"
TOLD = "truth-told"


@dataclass
class _Session:
    session_id: str
    bucket: str
    told: bool
    """Agents report it: the journal knows since when it is, and its model."""
    lines: list[bytes] = field(default_factory=list[bytes])
    spent: list[str] = field(default_factory=list[str])
    """Names of the requests that its log holds."""
    boundaries: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Where a turn is over: how many lines and requests there are by then."""
    open_step: float | None = None
    begun_at: float = 0.0


class KimiCliHome:
    def __init__(self, chance: Chance, truth: Truth, root: str = ".kimi", *, hooks: bool = False) -> None:
        self._chance, self._truth, self._root, self._hooks = chance, truth, root, hooks
        self.files = Files()
        self.journal: list[dict[str, Any]] = []
        self._now = 1_790_000_000.0 + chance.random()
        self._damaged: set[bytes] = set()
        self._work_dirs = [f"/src/app-{number}" for number in range(3)]

    def write(self) -> None:
        sessions: list[_Session] = []
        for _ in range(self._chance.randrange(3, 7)):
            session = self._start()
            self._go_on(session)
            sessions.append(session)
            if self._chance.likely(0.5):
                sessions.append(self._fork(self._chance.choice(sessions)))
        for session in sessions:
            if self._chance.likely(0.3):
                self._go_on(session)  # resumed
            self._save(session)
        entries = [{"path": path, "kaos": "local", "last_session_id": None} for path in self._work_dirs]
        self.files.add(f"{self._root}/kimi.json", json.dumps({"work_dirs": entries}).encode())
        config = f'default_model = "x"\n[models.x]\nprovider = "p"\nmodel = "{CONFIGURED}"\nmax_context_size = 1\n'
        self.files.add(f"{self._root}/config.toml", config.encode())

    def _start(self) -> _Session:
        digest = hashlib.md5(self._chance.choice(self._work_dirs).encode()).hexdigest()
        bucket = f"ssh_{digest}" if self._chance.likely(0.1) else digest
        session = _Session(self._chance.uuid(), bucket, self._hooks and self._chance.likely(0.7), begun_at=self._tick())
        session.lines.append(b'{"type": "metadata", "protocol_version": "1.10"}\n')
        self._report(session, "startup")
        return session

    def _report(self, session: _Session, source: str) -> None:
        if session.told:
            event = {"event": "start", "session_id": session.session_id, "at": self._tick(), "boottime": self._now}
            self.journal.append(event | {"source": source, "model": TOLD, "model_source": "KIMI_MODEL_NAME"})

    def _fork(self, parent: _Session) -> _Session:
        """`/fork` copies all of the wire, `/undo` a part of it; neither copies sub-agents, nor names the parent."""
        lines, spent = self._chance.choice(parent.boundaries)
        fork = _Session(self._chance.uuid(), parent.bucket, parent.told, begun_at=self._tick())
        fork.lines, fork.spent = parent.lines[:lines], parent.spent[:spent]
        fork.boundaries = [place for place in parent.boundaries if place[0] <= lines]
        if lines == len(parent.lines):
            fork.open_step = parent.open_step
        self._report(fork, "resume")
        for name in fork.spent:
            request = self._truth.requests[name]
            if not parent.told:
                # Nobody says which of them was first: the rule is the least id.
                self._truth.requests[name] = request._replace(session_id=min(request.session_id, fork.session_id))
                self._truth.ambiguous.add(name)
        self._go_on(fork)
        return fork

    def _go_on(self, session: _Session) -> None:
        for _ in range(self._chance.randrange(1, 5)):
            self._turn(session)
            session.boundaries.append((len(session.lines), len(session.spent)))

    def _turn(self, session: _Session) -> None:
        at = self._add(session, "TurnBegin", user_input=self._text())
        self._truth.turns.add(f"{NAME}:{at!r}")
        if session.open_step is not None:
            self._leave(session.open_step, "killed turn")
            session.open_step = None
        for _ in range(self._chance.randrange(1, 4)):
            self._step(session)
        trap = self._chance.choice(
            ("", "", "kill", "interrupt", "fail", "compact", "btw", "steer", "agent", "legacy", "bad")
        )
        match trap:
            case "kill":
                session.open_step = self._add(session, "StepBegin", n=9)
                return
            case "interrupt":
                self._leave(self._add(session, "StepBegin", n=9), "interrupted turn")
                self._add(session, "ContentPart", type="text", text="partial")
            case "fail":
                self._add(session, "StepBegin", n=9)
                self._add(session, "StepInterrupted")
            case "compact":
                self._leave(self._add(session, "CompactionBegin"), "compaction")
                self._add(session, "StatusUpdate", context_usage=0.1, token_usage=None, message_id=None)
            case "btw":
                self._leave(self._add(session, "BtwBegin", id="b", question="?"), "side question")
            case "steer":
                self._truth.turns.add(f"{NAME}:{self._add(session, 'SteerInput', user_input='no')!r}")
            case "agent":
                self._agent(session)
            case "legacy":
                self._legacy_agent(session)
            case "bad":
                self._bad(session)
            case _:
                pass
        self._add(session, "TurnEnd")

    def _step(self, session: _Session) -> None:
        self._add(session, "StepBegin", n=1)
        self._add(session, "ContentPart", type="text", text=self._text())
        if self._chance.likely(0.5):
            self._call(session)
        message_id = None if self._chance.likely(0.2) else f"chatcmpl-{self._chance.number()}"
        if self._chance.likely(0.05):
            self._leave(self._add(session, "StatusUpdate", token_usage=None, message_id="m"), "request without usage")
            return
        line, at, tokens = self._status(message_id)
        session.lines.append(line)
        if self._chance.likely(0.1):
            session.lines.append(line)  # said again
        self._spend(session, f"{NAME}:{at!r}", at, tokens)
        if self._chance.likely(0.2):
            self._add(session, "StatusUpdate", context_usage=0.2, token_usage=None, message_id=None)

    def _status(self, message_id: str | None, tokens: Tokens | None = None) -> tuple[bytes, float, Tokens]:
        at, tokens = self._tick(), tokens or self._chance.tokens()
        stamp = round(at * 1000) if self._chance.likely(0.05) else at
        payload = {"context_usage": 0.1, "token_usage": _usage(tokens), "message_id": message_id, "mcp_status": None}
        return _line(stamp, "StatusUpdate", payload, compact=self._chance.likely(0.1)), at, tokens

    def _spend(self, session: _Session, name: str, at: float, tokens: Tokens, agent: str | None = None) -> None:
        model = TOLD if session.told else CONFIGURED
        self._truth.requests[name] = Request(NAME, session.session_id, round(at, 3), model, tokens, agent)
        session.spent.append(name)

    def _call(self, session: _Session) -> None:
        number = self._chance.number()
        name, arguments, expected = self._chance.choice(
            (
                ("Shell", {"command": "A=1 /usr/bin/git push -f"}, "Shell git"),
                ("Shell", {"command": "'quoted' x"}, "Shell"),
                ("ReadFile", {"path": "x"}, "ReadFile"),
            )
        )
        function = {"name": name, "arguments": json.dumps(arguments)}
        self._add(session, "ToolCall", type="function", id=f"call-{number}", function=function)
        self._truth.tools[f"{NAME}:{number}"] = expected
        if self._chance.likely(0.2):  # the same call, for the client that carries it out
            self._add(session, "ToolCallRequest", id=f"call-{number}", name=name, arguments=function["arguments"])
        self._add(session, "ToolResult", tool_call_id=f"call-{number}", return_value={"output": self._text()})

    def _agent(self, session: _Session) -> None:
        """A sub-agent with a log of its own, mirrored in its parent's, where times are a little later."""
        agent = f"a{self._chance.number():08d}"
        same = self._chance.tokens()
        lines = [
            b'{"type": "metadata", "protocol_version": "1.1"}\n',
            _line(self._tick(), "TurnBegin", {"user_input": "x"}),
        ]
        for _ in range(self._chance.randrange(1, 6)):
            message_id = None if self._chance.likely(0.6) else f"chatcmpl-{self._chance.number()}"
            line, at, tokens = self._status(message_id, same if self._chance.likely(0.6) else None)
            lines.append(line)
            event = json.loads(line)["message"]
            self._add(
                session, "SubagentEvent", parent_tool_call_id="c", agent_id=agent, subagent_type="coder", event=event
            )
            self._spend(session, f"{NAME}:{agent}:{at!r}", at, tokens, agent)
        self.files.add(f"{self._place(session)}/subagents/{agent}/wire.jsonl", *lines)

    def _legacy_agent(self, session: _Session) -> None:
        """Before 1.25 the mirror is the only record."""
        line, _, tokens = self._status(f"chatcmpl-{self._chance.number()}")
        event = json.loads(line)["message"]
        at = self._add(session, "SubagentEvent", task_tool_call_id="call-legacy", event=event)
        self._spend(session, f"{NAME}:legacy:{at!r}", at, tokens, "call-legacy")

    def _bad(self, session: _Session) -> None:
        """One line that can't be counted, with good ones around it."""
        line, _, tokens = self._status("bad")
        usage = _usage(tokens) | {"output": self._chance.choice(BAD_NUMBERS)}
        bad = _line(self._tick(), "StatusUpdate", {"token_usage": usage, "message_id": "bad"})
        deep = line.replace(b'"mcp_status": null', b'"mcp_status": ' + b"[" * 5000 + b"]" * 5000)
        behind, at, whole = self._status("glued")
        kind = self._chance.randrange(7)
        text = _line(self._tick(), "ContentPart", {"type": "text", "text": "x" * self._chance.randrange(9000)})
        session.lines.append(
            (
                bad,
                line[: len(line) // 2] + b"\n",
                deep if deep != line else bad,
                line[:-20] + behind,
                text[: -self._chance.randrange(2, 30)] + json.dumps(json.loads(behind)).encode() + b"\n",
                text[:-9] + b"\n",
                GARBAGE,
            )[kind]
        )
        if kind in (3, 4):
            self._spend(session, f"{NAME}:{at!r}", at, whole)
        self._damaged.add(session.lines[-1])

    def _save(self, session: _Session) -> None:
        torn = [self._status("torn")[0][:-15]] if self._chance.likely(0.3) else []
        if damaged := sum(line in self._damaged for line in session.lines):
            self._truth.skips[f"{self._place(session)}/wire.jsonl"] = damaged
        self.files.add(f"{self._place(session)}/context.jsonl", b'{"role": "user", "content": "x"}\n')
        self.files.add(f"{self._place(session)}/wire.jsonl", *session.lines, *torn)

    def _place(self, session: _Session) -> str:
        return f"{self._root}/sessions/{session.bucket}/{session.session_id}"

    def _add(self, session: _Session, kind: str, **payload: object) -> float:
        at = self._tick()
        session.lines.append(_line(at, kind, payload))
        return at

    def _leave(self, at: float, kind: str) -> None:
        self._truth.unrecorded[f"{NAME}:{at!r}"] = (NAME, kind)

    def _text(self) -> str:
        return self._chance.choice((*ODD_TEXT, "x" * self._chance.randrange(40_000)))

    def _tick(self) -> float:
        self._now = round(self._now + self._chance.uniform(0.002, 20), 3)
        return self._now


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_other": tokens.input,
        "output": tokens.output,
        "input_cache_read": tokens.cache_read,
        "input_cache_creation": tokens.cache_write,
    }


def _line(at: float, kind: str, payload: dict[str, Any], *, compact: bool = False) -> bytes:
    record = {"timestamp": at, "message": {"type": kind, "payload": payload}}
    return json.dumps(record, separators=(",", ":") if compact else None).encode() + b"\n"
