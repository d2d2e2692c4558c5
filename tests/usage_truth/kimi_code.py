"""Writes a Kimi Code home with every trap there is, and tells the truth about it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from tests.usage_truth.truth import BAD_NUMBERS, GARBAGE, ODD_TEXT, UNPRICED, Chance, Files, Request, Tokens, Truth

NAME = "kimi-code"
MODELS = {"main": "truth-large", "quick": "truth-small", "other": UNPRICED}
"""The real model of each alias, at first."""


@dataclass
class _Session:
    session_id: str
    bucket: str
    forked_from: str | None = None
    lines: list[bytes] = field(default_factory=list[bytes])
    agents: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    """The logs of its sub-agents."""
    kept: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    """By agent: the log as it was before kimi-code cut it."""
    names: set[str] = field(default_factory=set[str])
    """What its logs tell of: requests, turns, calls and traces."""
    spent: list[tuple[int, str, Tokens]] = field(default_factory=list[tuple[int, str, Tokens]])
    """Time, alias and tokens of its own requests."""
    is_gone: bool = False
    is_silent: bool = False
    """Its state.json is gone."""
    models: dict[str, str] = field(default_factory=lambda: dict(MODELS))
    open_request: int | None = None
    turns: int = 0


class KimiCodeHome:
    def __init__(self, chance: Chance, truth: Truth, root: str = ".kimi-code") -> None:
        self._chance, self._truth, self._root = chance, truth, root
        self.files = Files()
        self._damaged: set[bytes] = set()
        self._now = 1_791_000_000_000 + chance.randrange(1000)

    def write(self) -> None:
        sessions: list[_Session] = []
        for _ in range(self._chance.randrange(3, 6)):
            session = self._start()
            self._go_on(session)
            sessions.append(session)
            if self._chance.likely(0.3):
                self._cut(session)
            if self._chance.likely(0.6):
                sessions.append(self._fork(self._chance.choice(sessions)))
                sessions.append(self._fork(sessions[-1] if self._chance.likely(0.5) else self._chance.choice(sessions)))
        for session in sessions:
            if self._chance.likely(0.3):
                self._go_on(session)
        self._spoil(sessions)
        sessions += [self._make_twin(session) for session in sessions if self._chance.likely(0.3)]
        for session in sessions:
            if not session.is_gone:
                self._save(session)
        self._tell(sessions)
        self._migrate()

    def _spoil(self, sessions: list[_Session]) -> None:
        """In some families one session that was forked is deleted, or a fork loses its state.json."""
        known = {session.session_id: session for session in sessions}
        spoiled: set[str] = set()
        for session in sessions:
            if (first := _list_before(session, known)[-1].session_id) in spoiled or self._chance.likely(0.5):
                continue
            if any(other.forked_from == session.session_id for other in sessions) and self._chance.likely(0.6):
                session.is_gone = True
                spoiled.add(first)
            elif session.forked_from:
                session.is_silent = True
                spoiled.add(first)

    def _make_twin(self, session: _Session) -> _Session:
        """A stranger that spent the same on the same model in the same milliseconds."""
        twin = _Session(f"session_{self._chance.uuid()}", session.bucket, lines=[session.lines[0]])
        for at, alias, tokens in session.spent[:3]:
            twin.models[alias] = "truth-told"
            record = {
                "type": "llm.request",
                "kind": "turn",
                "provider": "p",
                "model": "truth-told",
                "modelAlias": alias,
            }
            twin.lines.append(_line(record | {"time": at - 1}))
            used = {"type": "usage.record", "agentId": "main", "model": alias, "usage": _usage(tokens)}
            twin.lines.append(_line(used | {"usageScope": "turn", "time": at}))
            self._spend(twin, at, "truth-told", tokens, name=f"{NAME}:{twin.session_id}:{at}")
        return twin

    def _cut(self, session: _Session) -> None:
        """A line could not be read: all of the log is kept, and it goes on as far as it was sound."""
        logs = {"main": session.lines, **session.agents}
        agent = self._chance.choice(sorted(logs))
        lines = logs[agent]
        ends = [place for place in range(1, len(lines) + 1) if lines[place - 1].endswith(b"\n")]
        cut = self._chance.choice(ends)
        session.kept[agent] = [*lines[:cut], GARBAGE, *lines[cut:]]
        self._damaged.add(GARBAGE)
        if agent == "main" and cut < len(lines):
            session.open_request = None
        del lines[cut:]
        if agent == "main":
            self._go_on(session)

    def _tell(self, sessions: list[_Session]) -> None:
        """Of several sessions that hold a request the one that is the least of a fork owns it, as far as that is known."""
        known = {session.session_id: session for session in sessions}
        there = [session for session in sessions if not session.is_gone]
        told = {name for session in there for name in session.names}
        truth = self._truth
        for name in [name for name in truth.requests if name.startswith(f"{NAME}:") and name not in told]:
            del truth.requests[name]
        for lost in (truth.tools, truth.unrecorded):
            for name in [name for name in lost if name.startswith(f"{NAME}:") and name not in told]:
                del lost[name]
        truth.turns -= {name for name in truth.turns if name.startswith(f"{NAME}:") and name not in told}
        for name in told & truth.requests.keys():
            holders = sorted((_count_forks(one, known), one.session_id) for one in there if name in one.names)
            truth.requests[name] = truth.requests[name]._replace(session_id=holders[0][1])
            if len(holders) > 1 and holders[0][0] == holders[1][0]:
                truth.ambiguous.add(name)

    def _start(self) -> _Session:
        cwd = f"/src/app-{self._chance.randrange(3)}"
        bucket = f"wd_{cwd.rpartition('/')[2]}_{hashlib.sha256(cwd.encode()).hexdigest()[:12]}"
        session = _Session(f"session_{self._chance.uuid()}", bucket)
        session.lines.append(_line({"type": "metadata", "protocol_version": "1.5", "created_at": self._tick()}))
        return session

    def _fork(self, parent: _Session) -> _Session:
        """All lines are copied, then one says so; state.json names the parent, so the copies are the parent's."""
        fork = _Session(f"session_{self._chance.uuid()}", parent.bucket, parent.session_id, [*parent.lines])
        fork.models, fork.turns = dict(parent.models), parent.turns
        fork.open_request = parent.open_request
        fork.names, fork.kept = set(parent.names), {agent: [*lines] for agent, lines in parent.kept.items()}
        self._add(fork, "forked", agentId="main")
        for agent, lines in parent.agents.items():
            fork.agents[agent] = [*lines, _line({"type": "forked", "agentId": agent, "time": self._tick()})]
        self._go_on(fork)
        return fork

    def _go_on(self, session: _Session) -> None:
        for _ in range(self._chance.randrange(1, 5)):
            self._turn(session)

    def _turn(self, session: _Session) -> None:
        session.turns += 1
        at = self._add(
            session, "turn.prompt", turnId=session.turns, promptId=f"p{self._chance.number()}", input=self._text()
        )
        self._count_turn(session, at)
        if session.open_request is not None:
            self._leave(session, session.open_request, "killed turn")
            session.open_request = None
        for _ in range(self._chance.randrange(1, 4)):
            self._step(session)
        match self._chance.choice(("", "", "kill", "interrupt", "compact", "steer", "agent", "undo", "bad", "model")):
            case "kill":
                session.open_request = self._request(session, "main")
                return
            case "interrupt":
                self._request(session, "main")
                self._add(session, "turn.cancel")
                zero = self._add(
                    session, "usage.record", agentId="main", model="main", usage=_usage(Tokens()), usageScope="turn"
                )
                self._leave(session, zero, "interrupted turn")
                self._add(session, "turn.ended", turnId=session.turns, reason="cancelled")
                return
            case "compact":
                self._add(session, "full_compaction.begin")
                self._request(session, "main")
                self._usage_record(session, "main", "session")
                self._add(session, "full_compaction.complete")
            case "steer":
                at = self._add(session, "turn.steer", messageId=f"m{self._chance.number()}")
                self._count_turn(session, at)
            case "agent":
                self._agent(session)
            case "undo":
                self._add(session, "context.undone", count=1)  # what was undone was spent
            case "bad":
                self._bad(session)
            case "model":
                session.models["main"] = self._chance.choice(list(MODELS.values()))
            case _:
                pass
        self._add(session, "turn.ended", turnId=session.turns, reason="completed")

    def _request(self, session: _Session, alias: str, lines: list[bytes] | None = None) -> int:
        at = self._tick()
        record = {
            "type": "llm.request",
            "kind": "turn",
            "provider": "p",
            "model": session.models[alias],
            "modelAlias": alias,
        }
        (session.lines if lines is None else lines).append(_line(record | {"time": at}))
        return at

    def _step(self, session: _Session) -> None:
        alias = self._chance.choice(("main", "main", "quick", "other"))
        self._request(session, alias)
        self._add(
            session, "context.append_loop_event", agentId="main", event={"type": "content.part", "text": self._text()}
        )
        if self._chance.likely(0.4):
            number = self._chance.number()
            event = {"type": "tool.call", "uuid": f"u{number}", "name": "Bash", "args": {"command": "/bin/ls -l; rm x"}}
            self._add(session, "context.append_loop_event", agentId="main", event=event)
            self._truth.tools[f"{NAME}:{number}"] = "Bash ls"
            session.names.add(f"{NAME}:{number}")
        tokens = self._usage_record(session, alias, "turn")
        # The same figures again, where they are not counted.
        self._add(
            session, "context.append_loop_event", agentId="main", event={"type": "step.end", "usage": _usage(tokens)}
        )
        self._add(session, "agent.message.appended", message={"meta": {"usage": _usage(tokens)}})

    def _usage_record(self, session: _Session, alias: str, scope: str) -> Tokens:
        tokens = self._chance.tokens()
        at = self._add(session, "usage.record", agentId="main", model=alias, usage=_usage(tokens), usageScope=scope)
        if self._chance.likely(0.1):
            session.lines.append(session.lines[-1])  # said again
        self._spend(session, at, session.models[alias], tokens)
        session.spent.append((at, alias, tokens))
        return tokens

    def _spend(
        self, session: _Session, at: int, model: str, tokens: Tokens, agent: str | None = None, name: str | None = None
    ) -> None:
        name = name or f"{NAME}:{at}"
        self._truth.requests[name] = Request(NAME, session.session_id, at / 1000, model, tokens, agent)
        session.names.add(name)

    def _count_turn(self, session: _Session, at: int) -> None:
        self._truth.turns.add(f"{NAME}:{at}")
        session.names.add(f"{NAME}:{at}")

    def _agent(self, session: _Session) -> None:
        agent = f"agent-{self._chance.number()}"
        lines = [_line({"type": "metadata", "protocol_version": "1.5", "created_at": self._tick()})]
        tokens = Tokens()
        for _ in range(self._chance.randrange(1, 3)):
            self._request(session, "quick", lines)
            tokens, at = self._chance.tokens(), self._tick()
            record = {
                "type": "usage.record",
                "agentId": agent,
                "model": "quick",
                "usage": _usage(tokens),
                "usageScope": "turn",
            }
            lines.append(_line(record | {"time": at}))
            self._spend(session, at, session.models["quick"], tokens, agent)
        session.agents[agent] = lines
        self._add(session, "subagent.completed", subagentId=agent, usage=_usage(tokens))

    def _bad(self, session: _Session) -> None:
        self._request(session, "main")
        good = {"type": "usage.record", "agentId": "main", "model": "main", "usage": _usage(self._chance.tokens())}
        usage = _usage(self._chance.tokens()) | {"inputOther": self._chance.choice(BAD_NUMBERS)}
        bad = _line(good | {"usage": usage, "time": self._tick()})
        whole = _line(good | {"time": self._tick()})
        deep = whole[:-2] + b',"x":' + b"[" * 5000 + b"]" * 5000 + b"}\n"
        none = _line(good)
        kind = self._chance.randrange(8)
        event = {"type": "content.part", "text": "x" * self._chance.randrange(9000)}
        text = _line({"type": "context.append_loop_event", "agentId": "main", "event": event, "time": self._tick()})
        session.lines.append(
            (bad, whole[:40] + b"\n", deep, none, whole[:60], text[:-25], text[:-25] + b"\n", GARBAGE)[kind]
        )
        self._damaged.add(session.lines[-1])
        if kind in (4, 5):  # torn, and the next line goes on behind it
            self._usage_record_once(session)

    def _usage_record_once(self, session: _Session) -> None:
        tokens = self._chance.tokens()
        at = self._add(session, "usage.record", agentId="main", model="main", usage=_usage(tokens), usageScope="turn")
        self._spend(session, at, session.models["main"], tokens)

    def _migrate(self) -> None:
        """`kimi migrate` writes old prompts again, without numbers and without usage."""
        session = self._start()
        session.session_id = f"ses_{self._chance.uuid()}"
        self._add(session, "turn.prompt", input="old")
        self._save(session)

    def _save(self, session: _Session) -> None:
        state = {"id": session.session_id, "version": 2, "cwd": "/src/app", "archived": self._chance.likely(0.2)}
        if session.forked_from:
            state["forkedFrom"] = session.forked_from
        if not session.is_silent:
            self.files.add(f"{self._place(session)}/state.json", json.dumps(state).encode())
        torn = [b'{"type":"usage.record","agentId":"main","usage":{"inputOther":1'] if self._chance.likely(0.3) else []
        for agent, lines in {"main": session.lines, **session.agents}.items():
            self._save_log(f"{self._place(session)}/agents/{agent}/wire.jsonl", lines)
        self.files.add(f"{self._place(session)}/agents/main/wire.jsonl", *torn)
        for agent, lines in session.kept.items():
            self._save_log(f"{self._place(session)}/agents/{agent}/wire.jsonl.bak", lines)

    def _save_log(self, path: str, lines: list[bytes]) -> None:
        self.files.add(path, *lines)
        if damaged := sum(line in self._damaged for line in lines):
            self._truth.skips[path] = damaged

    def _place(self, session: _Session) -> str:
        return f"{self._root}/sessions/{session.bucket}/{session.session_id}"

    def _add(self, session: _Session, kind: str, **fields: object) -> int:
        at = self._tick()
        session.lines.append(_line({"type": kind, **fields, "time": at}))
        return at

    def _leave(self, session: _Session, at: int, kind: str) -> None:
        self._truth.unrecorded[f"{NAME}:{at}"] = (NAME, kind)
        session.names.add(f"{NAME}:{at}")

    def _text(self) -> str:
        return self._chance.choice((*ODD_TEXT, "x" * self._chance.randrange(40_000)))

    def _tick(self) -> int:
        self._now += self._chance.randrange(1, 20_000)
        return self._now


def _list_before(session: _Session, known: dict[str, _Session]) -> list[_Session]:
    """A session and those that it was forked from, the nearest first."""
    found = [session]
    while found[-1].forked_from:
        found.append(known[found[-1].forked_from])
    return found


def _count_forks(session: _Session, known: dict[str, _Session]) -> int:
    """How many forks lead to it, as far as is told: behind one that says nothing comes the first one."""
    before = _list_before(session, known)
    told = next((place for place, one in enumerate(before) if one.is_gone or one.is_silent), None)
    return len(before) - 1 if told is None else told + bool(before[told].forked_from)


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "inputOther": tokens.input,
        "output": tokens.output,
        "inputCacheRead": tokens.cache_read,
        "inputCacheCreation": tokens.cache_write,
    }


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"
