"""Writes a Qwen Code home with every trap there is, and tells the truth about it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.usage_truth.truth import BAD_NUMBERS, GARBAGE, ODD_TEXT, UNPRICED, Chance, Files, Request, Tokens, Truth

NAME = "qwen-code"
_MONTH = "{}/usage/token-usage-2026-10.jsonl"
_ABORTED = "aborted turn"
_UNCOUNTED = "response without token counts"


@dataclass
class _Session:
    session_id: str
    project: str
    parent: str | None = None
    records: list[dict[str, Any] | bytes] = field(default_factory=list[dict[str, Any] | bytes])
    """Whole records, and lines that are none."""
    last: str | None = None


class QwenHome:
    def __init__(self, chance: Chance, truth: Truth, root: str = ".qwen") -> None:
        self._chance, self._truth, self._root = chance, truth, root
        self.files = Files()
        self._month: list[bytes] = []
        self._damaged: set[str | bytes] = set()
        self._now = 1_792_000_000_000 + chance.randrange(1000)

    def write(self) -> None:
        sessions: list[_Session] = []
        for _ in range(self._chance.randrange(3, 6)):
            session = _Session(self._chance.uuid(), f"-src-app-{self._chance.randrange(3)}")
            self._go_on(session)
            sessions.append(session)
            if self._chance.likely(0.5):
                sessions.append(self._fork(self._chance.choice(sessions)))
        parents = {session.parent for session in sessions}
        for session in sessions:
            if self._chance.likely(0.3):
                self._go_on(session)
            gone = session.parent is None and session.session_id not in parents and self._chance.likely(0.3)
            if gone:
                self._forget(session)
            elif self._is_copied(session, sessions) and self._chance.likely(0.4):
                self._orphan(session, sessions)
            else:
                self._save(session)
        self.files.add(_MONTH.format(self._root), *self._month)
        # Sums of whole runs, which count nothing new.
        rollup = {"sessionId": sessions[0].session_id, "models": {"m": {"inputTokens": 10**9}}}
        self.files.add(f"{self._root}/usage_record.jsonl", json.dumps(rollup).encode() + b"\n")

    def _go_on(self, session: _Session) -> None:
        for _ in range(self._chance.randrange(1, 5)):
            self._turn(session)

    def _turn(self, session: _Session) -> None:
        prompt = self._record(session, "user", message={"role": "user", "parts": [{"text": "do " + self._text()}]})
        self._truth.turns.add(str(prompt["uuid"]))
        for _ in range(self._chance.randrange(1, 4)):
            self._response(session)
        match self._chance.choice(
            ("", "", "tool", "agent", "abort", "zero", "bad", "remember", "slash", "glued", "beside")
        ):
            case "tool":
                event = {"event.name": "qwen-code.tool_call", "function_name": "run_shell_command"}
                event |= {"function_args": {"command": "cd /x && make"}}
                uuid = str(self._telemetry(session, event)["uuid"])
                self._truth.tools[uuid] = "run_shell_command cd"
                self._record(session, "tool_result", message={"role": "user", "parts": [{"text": self._text()}]})
            case "agent":
                self._agent(session)
            case "abort":
                answer = self._record(session, "assistant", message={"role": "model", "parts": [{"text": "part"}]})
                self._truth.unrecorded[str(answer["parentUuid"])] = (NAME, _ABORTED)
            case "zero":
                uuid = str(self._telemetry(session, self._event(Tokens(), None))["uuid"])
                self._truth.unrecorded[uuid] = (NAME, _UNCOUNTED)
            case "bad":
                self._bad(session)
            case "remember":
                self._remember(session)
            case "slash":
                self._record(session, "user", message={"role": "user", "parts": [{"text": "/help"}]})
            case "glued":
                self._response(session)
                self._response(session)
                first, second = session.records[-2:]
                session.records[-2:] = [_line(first)[:-1] + _line(second)]
            case "beside":
                self._response(session, beside=True)
            case _:
                pass

    def _response(self, session: _Session, *, beside: bool = False, agent: str | None = None) -> None:
        given = self._chance.tokens()
        tokens = Tokens(given.input, given.cache_read, 0, given.output, self._chance.randrange(1, 500))
        model = self._chance.choice(("truth-large", "truth-small", UNPRICED))
        event = self._event(tokens, model, beside=beside)
        if agent:
            event |= {"subagent_name": "general-purpose", "subagent_id": agent, "subagent_type": "general-purpose"}
        record = self._telemetry(session, event)
        self._spend(session, str(record["uuid"]), model, tokens, agent)
        self._add_month(session.session_id, event, "general-purpose" if agent else "main")
        if agent is None and self._chance.likely(0.7):
            usage = {"promptTokenCount": 1, "candidatesTokenCount": 1}
            session.records.append(self._make(session, "assistant", message={"role": "model"}, usageMetadata=usage))

    def _event(self, tokens: Tokens, model: str | None, *, beside: bool = False) -> dict[str, Any]:
        whole = tokens.input + tokens.cache_read
        output = tokens.output if beside else tokens.output + tokens.reasoning
        total = whole + tokens.output + tokens.reasoning
        return {
            "event.name": "qwen-code.api_response",
            "event.timestamp": _stamp(self._tick()),
            "response_id": f"chatcmpl-{self._chance.number() % 7}",  # a server that repeats its ids
            "model": model,
            "input_token_count": whole,
            "output_token_count": output,
            "cached_content_token_count": tokens.cache_read,
            "thoughts_token_count": tokens.reasoning,
            "total_token_count": total,
            "response_text": self._text(),
        }

    def _add_month(self, session_id: str, event: dict[str, Any], source: str) -> str:
        self._month.append(
            _line(
                {
                    "schemaVersion": 1,
                    "id": self._chance.uuid(),
                    "timestamp": _stamp(self._tick()),
                    "sessionId": session_id,
                    "model": event["model"] or "unknown",
                    "source": source,
                    "inputTokens": event["input_token_count"] or event["cached_content_token_count"],
                    "outputTokens": event["output_token_count"],
                    "cachedTokens": event["cached_content_token_count"],
                    "thoughtsTokens": event["thoughts_token_count"],
                    "totalTokens": event["total_token_count"],
                }
            )
        )
        return _stamp(self._now)

    def _spend(self, session: _Session, name: str, model: str | None, tokens: Tokens, agent: str | None) -> None:
        at = self._now / 1000
        self._truth.requests[name] = Request(NAME, session.session_id, at, model, tokens, agent)

    def _agent(self, session: _Session) -> None:
        """Its responses are in its session's telemetry, and again in a file of its own."""
        agent = f"general-purpose-{self._chance.number()}"
        for _ in range(self._chance.randrange(1, 3)):
            self._response(session, agent=agent)
        again = {"type": "assistant", "uuid": self._chance.uuid(), "usageMetadata": {"promptTokenCount": 999}}
        place = f"{self._root}/projects/{session.project}/subagents/{session.session_id}/agent-{agent}.jsonl"
        self.files.add(place, _line(again))

    def _remember(self, session: _Session) -> None:
        """The one agent that stands in the monthly file alone."""
        tokens = Tokens(100, 20, 0, 30, 0)
        event = self._event(tokens, "truth-small")
        stamp = self._add_month(session.session_id, event, "managed-auto-memory-remember")
        request = Request(
            NAME, session.session_id, _seconds(stamp), "truth-small", tokens, "managed-auto-memory-remember"
        )
        self._truth.requests[f"{NAME}:remember:{stamp}"] = request

    def _bad(self, session: _Session) -> None:
        event = self._event(Tokens(5, 5, 0, 5, 0), "truth-large")
        number = self._chance.choice([bad for bad in BAD_NUMBERS if bad is not True])
        kind = self._chance.randrange(5)
        if kind == 0:
            record = self._telemetry(session, event | {"output_token_count": number})
            self._damaged.add(str(record["uuid"]))
        elif kind == 1:
            line = _line(self._make(session, "system", subtype="ui_telemetry", systemPayload={"uiEvent": event}))
            session.records.append(line[:-30] + b"\n")
            self._damaged.add(_name(session.records[-1]))
        elif kind == 2:
            line = _line(self._make(session, "system", subtype="ui_telemetry", systemPayload={"uiEvent": event}))
            self._response(session)
            place = next(
                n for n in reversed(range(len(session.records))) if b"api_response" in _line(session.records[n])
            )
            session.records[place] = line[:-30] + _line(session.records[place])  # torn, and gone on behind it
            self._damaged.add(_name(session.records[place]))
        else:
            text = _line(self._make(session, "tool_result", message={"parts": [{"text": self._text()}]}))
            session.records.append(text[:-9] + b"\n" if kind == 3 else GARBAGE)
            self._damaged.add(_name(session.records[-1]))

    def _fork(self, parent: _Session) -> _Session:
        """Every copied record names where it comes from; damaged lines are not copied."""
        fork = _Session(self._chance.uuid(), parent.project, parent.session_id)
        for record in parent.records:
            if isinstance(record, dict):
                origin = {"sessionId": parent.session_id, "messageUuid": record["uuid"]}
                fork.records.append(record | {"sessionId": fork.session_id, "forkedFrom": origin})
        fork.last = parent.last
        self._go_on(fork)
        return fork

    def _is_copied(self, session: _Session, sessions: list[_Session]) -> bool:
        """Forks have copies of it, and those have no forks: copies of copies name the nearer one only."""
        forks = [one.session_id for one in sessions if one.parent == session.session_id]
        return session.parent is None and bool(forks) and not any(one.parent in forks for one in sessions)

    def _orphan(self, session: _Session, sessions: list[_Session]) -> None:
        """Its transcript is gone, and forks have copies: they count, and its lines in the monthly file do not."""
        forks = [one for one in sessions if one.parent == session.session_id]
        copies = [one for fork in forks for one in fork.records if isinstance(one, dict) and "forkedFrom" in one]
        own = {uuid for line in session.records for uuid in _list_uuids(line)} - {one["uuid"] for one in copies}
        for known in (self._truth.requests, self._truth.tools):
            for uuid in own & set(known):
                known.pop(uuid)
        self._truth.turns -= own
        for uuid in own & set(self._truth.unrecorded) - {one["parentUuid"] for one in copies}:
            self._truth.unrecorded.pop(uuid)
        mine = [json.loads(line) for line in self._month]
        mine = [one for one in mine if one["sessionId"] == session.session_id]
        skipped = sum(one["source"] != "managed-auto-memory-remember" for one in mine)
        if skipped:
            self._truth.skips[_MONTH.format(self._root)] += skipped

    def _forget(self, session: _Session) -> None:
        """Its transcript is gone: the monthly file is all that is left, without turns, tools and traces."""
        uuids = {str(record["uuid"]) for record in session.records if isinstance(record, dict)}
        uuids |= {str(record.get("parentUuid")) for record in session.records if isinstance(record, dict)}
        for known in (self._truth.turns, self._truth.tools, self._truth.unrecorded):
            for uuid in uuids & set(known):
                known.discard(uuid) if isinstance(known, set) else known.pop(uuid)
        for name, request in self._truth.requests.items():
            if request.session_id == session.session_id and request.agent and request.agent.startswith("general"):
                self._truth.requests[name] = request._replace(agent="general-purpose")

    def _save(self, session: _Session) -> None:
        torn = [b'{"uuid":"x","type":"system","subtype":"ui_telemetry"'] if self._chance.likely(0.3) else []
        self.files.add(self._path(session), *map(_line, session.records), *torn)
        paths = [self._path(session)]
        if self._chance.likely(0.1):  # archived, and a copy was left behind
            path = self._path(session).replace("/chats/", "/chats/archive/")
            self.files.add(path, *map(_line, session.records))
            paths.append(path)
        if damaged := sum(_name(record) in self._damaged for record in session.records):
            self._truth.skips.update(dict.fromkeys(paths, damaged))

    def _path(self, session: _Session) -> str:
        return f"{self._root}/projects/{session.project}/chats/{session.session_id}.jsonl"

    def _telemetry(self, session: _Session, event: dict[str, Any]) -> dict[str, Any]:
        return self._record(session, "system", subtype="ui_telemetry", systemPayload={"uiEvent": event})

    def _record(self, session: _Session, kind: str, **fields: object) -> dict[str, Any]:
        record = self._make(session, kind, **fields)
        session.records.append(record)
        return record

    def _make(self, session: _Session, kind: str, **fields: object) -> dict[str, Any]:
        uuid = self._chance.uuid()
        record = {"uuid": uuid, "parentUuid": session.last, "sessionId": session.session_id}
        session.last = uuid
        cwd = session.project.replace("-src-", "/src/")
        return record | {"timestamp": _stamp(self._now), "type": kind, "cwd": cwd, "gitBranch": "main", **fields}

    def _text(self) -> str:
        return self._chance.choice((*ODD_TEXT[:4], ODD_TEXT[5], "x" * self._chance.randrange(1, 40_000)))

    def _tick(self) -> int:
        self._now += self._chance.randrange(1, 20_000)
        return self._now


def _list_uuids(record: dict[str, Any] | bytes) -> list[str]:
    """Of a record, and of those that a line holds which is none."""
    return re.findall(r'"(?:uuid|parentUuid)":"([^"]+)"', _line(record).decode(errors="replace"))


def _stamp(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def _name(record: dict[str, Any] | bytes) -> str | bytes:
    return record if isinstance(record, bytes) else str(record["uuid"])


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _line(record: dict[str, Any] | bytes) -> bytes:
    return record if isinstance(record, bytes) else json.dumps(record, separators=(",", ":")).encode() + b"\n"
