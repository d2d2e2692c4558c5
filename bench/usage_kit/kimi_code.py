"""A generated Kimi Code home: sessions with their agents' logs, as version 2.1 writes them."""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from pathlib import Path

from usage_kit.kimi_cli import DIRECTORIES, Shape
from usage_kit.text import Text


def _write(path: Path, lines: list[str]) -> None:
    """With the time of its last record, as the CLI would have left it."""
    path.write_text("".join(lines))
    at = int(lines[-1].rpartition('"time":')[2].partition("}")[0].partition(",")[0]) / 1000
    os.utime(path, (at, at))


class KimiCodeHome:
    """Writes the home below `root/.kimi-code`."""

    def __init__(self, root: Path, shape: Shape) -> None:
        self._data = root / ".kimi-code"
        self._shape = shape
        self._chance = random.Random(shape.seed)
        self._text = Text(shape.seed)
        self._calls = 0
        self._now = int(time.time()) // 86_400 * 86_400
        self._prompt = self._text.cut(16_000)
        self._tools = self._text.cut(24_000)

    def write(self) -> None:
        index: list[str] = []
        earlier: list[tuple[str, list[str]]] = []
        for number in range(self._shape.sessions):
            bucket = f"wd_project_{number % DIRECTORIES:012x}"
            session_id = f"session_{uuid.UUID(int=self._chance.getrandbits(128), version=4)}"
            place = self._data / "sessions" / bucket / session_id
            (place / "agents" / "main").mkdir(parents=True)
            parent = None
            if earlier and self._chance.random() < self._shape.fork_share:
                parent, lines = earlier[self._chance.randrange(len(earlier))]
                lines = lines[: len(lines) // 2]
            else:
                lines = self._session(place)
                earlier = [*earlier[-10:], (session_id, lines)]
            _write(place / "agents" / "main" / "wire.jsonl", lines)
            state = {"id": session_id, "version": 2, "cwd": f"/src/project-{number % DIRECTORIES}", "agents": {}}
            if parent is not None:
                state["forkedFrom"] = parent
            (place / "state.json").write_text(json.dumps(state, separators=(",", ":")))
            index.append(json.dumps({"id": session_id, "cwd": state["cwd"]}) + "\n")
        (self._data / "session_index.jsonl").write_text("".join(index))

    def _session(self, place: Path) -> list[str]:
        at = int((self._now - self._shape.choose_days(self._chance) * 86_400) * 1000)
        goal = self._shape.total_bytes / self._shape.sessions * self._chance.lognormvariate(-0.18, 0.6)
        lines = self._head("main", at)
        size, turn = sum(map(len, lines)), 0
        has_agent = self._chance.random() < self._shape.agent_share
        while size < goal:
            begin = len(lines)
            at = self._turn(lines, at, "main", turn)
            size += sum(map(len, lines[begin:]))
            turn += 1
        if has_agent:
            own = self._head("agent-0", at)
            self._turn(own, at, "agent-0", 0)
            (place / "agents" / "agent-0").mkdir()
            _write(place / "agents" / "agent-0" / "wire.jsonl", own)
        return lines

    def _head(self, agent: str, at: int) -> list[str]:
        return [
            f'{{"type":"metadata","protocol_version":"1.5","created_at":{at}}}\n',
            f'{{"type":"profile.bind","agentId":"{agent}","modelAlias":"kimi-k2.5","profileName":"agent",'
            f'"systemPrompt":"{self._prompt}","time":{at}}}\n',
            f'{{"type":"llm.tools_snapshot","agentId":"{agent}","hash":"b391","tools":[{{"name":"Bash",'
            f'"description":"{self._tools}"}}],"time":{at}}}\n',
        ]

    def _turn(self, lines: list[str], at: int, agent: str, turn: int) -> int:
        chance = self._chance

        def tick() -> int:
            nonlocal at
            at += chance.randint(3, 4000)
            return at

        def loop(event: str) -> None:
            lines.append(
                f'{{"type":"context.append_loop_event","agentId":"{agent}","event":{{{event}}},"time":{tick()}}}\n'
            )

        def appended(message: str) -> None:
            lines.append(
                f'{{"message":{{"message":{{{message}}},"meta":{{"source":"tool"}}}},"type":"agent.message.appended",'
                f'"time":{tick()},"kind":"event"}}\n'
            )

        prompt = f"msg_{chance.getrandbits(80):020X}"
        asked = self._text.cut(200)
        content = f'"content":[{{"type":"text","text":"{asked}"}}]'
        lines.append(
            f'{{"type":"turn.prompt","agentId":"{agent}","input":[{{"type":"text","text":"{asked}"}}],"origin":'
            f'{{"kind":"user"}},"promptId":"{prompt}","turnId":{turn},"time":{tick()}}}\n'
        )
        lines.append(
            f'{{"type":"context.append_message","agentId":"{agent}","message":{{"role":"user",{content},"id":"{prompt}",'
            f'"toolCalls":[]}},"time":{tick()}}}\n'
        )
        appended(f'"role":"user",{content}')
        steps = chance.randint(1, 5)
        for step in range(1, steps + 1):
            self._calls += 1
            unique = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            loop(f'"type":"step.begin","uuid":"{unique}","turnId":"{turn}","step":{step}')
            lines.append(
                f'{{"type":"llm.request","agentId":"{agent}","kind":"loop","provider":"kimi","model":"kimi-k2.5",'
                f'"modelAlias":"kimi-k2.5","thinkingEffort":"off","maxTokens":200000,"systemPromptHash":"{unique}",'
                f'"toolsHash":"{unique}","messageCount":{step * 2},"turnStep":"{turn}.{step}","time":{tick()}}}\n'
            )
            used = chance.randint(2_000, 180_000)
            usage = (
                f'"usage":{{"inputOther":{used // 7},"output":{chance.randint(20, 4000)},'
                f'"inputCacheRead":{used - used // 7},"inputCacheCreation":0}}'
            )
            lines.append(
                f'{{"type":"usage.record","agentId":"{agent}","model":"kimi-k2.5",{usage},"usageScope":"turn","time":{tick()}}}\n'
            )
            lines.append(
                f'{{"type":"token_counting.measured","agentId":"{agent}","length":{step},"tokens":{used},"time":{tick()}}}\n'
            )
            said = self._text.cut(900)
            loop(
                f'"type":"content.part","uuid":"{unique}","turnId":"{turn}","step":{step},"stepUuid":"{unique}","part":'
                f'{{"type":"text","text":"{said}"}}'
            )
            for number in range(0 if step == steps else chance.choice((1, 1, 1, 2))):
                call = f"call_{self._calls}_{number}"
                loop(
                    f'"type":"tool.call","uuid":"{unique[:-1]}{number}","turnId":"{turn}","step":{step},"stepUuid":"{unique}",'
                    f'"toolCallId":"{call}","name":"Bash","args":{{"command":"pytest -q tests/{self._calls}"}}'
                )
                result = self._text.cut(int(self._shape.result * chance.lognormvariate(-0.5, 1.0)))
                loop(
                    f'"type":"tool.result","parentUuid":"{unique}","toolCallId":"{call}","result":{{"output":"{result}"}}'
                )
                appended(f'"role":"tool","content":[{{"type":"text","text":"{result}"}}],"toolCallId":"{call}"')
            loop(
                f'"type":"step.end","uuid":"{unique}","turnId":"{turn}","step":{step},"finishReason":"tool_use",{usage},'
                f'"messageId":"chatcmpl-{chance.getrandbits(64):016x}"'
            )
            appended(f'"role":"assistant","content":[{{"type":"text","text":"{said}"}}],"toolCalls":[]')
        lines.append(
            f'{{"type":"turn.ended","agentId":"{agent}","turnId":{turn},"reason":"completed","time":{tick()}}}\n'
        )
        return tick()
