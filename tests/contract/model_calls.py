"""What the fake model server keeps of each call: what was asked, what for, and what it was billed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SUBTASK = "SUBTASK"  # starts the prompt of every sub-agent that the server asks for, so that its calls are known


class Kind(StrEnum):
    """What a call was for, as far as its text tells."""

    TURN = "turn"
    SUBAGENT = "subagent"
    COMPACTION = "compaction"
    TITLE = "title"
    SIDE = "side"  # side question, suggestion, classifier, memory extractor: not part of the conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """Tokens as reported: `cached` is part of `prompt`, `reasoning` is part of `output`. Totals add."""

    prompt: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: Billed) -> Billed:
        return Billed(
            prompt=self.prompt + other.prompt,
            cached=self.cached + other.cached,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
        )


@dataclass(slots=True, kw_only=True)
class Call:
    """One request to the model. `billed` is None until the usage was sent: a killed call never has any."""

    number: int
    kind: Kind
    model: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[str]
    prompt: str  # what the user said last, which steers the answer; "" if a tool result came after it
    prompt_cache_key: str | None
    headers: Mapping[str, str]
    completion_id: str
    stream: bool
    answer: str = ""
    billed: Billed | None = None
    done: bool = False
    killed: bool = False  # the client went away in mid-answer
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


def total(calls: Iterable[Call]) -> Billed:
    """The sum of what these calls were billed."""
    return sum((call.billed for call in calls if call.billed is not None), Billed())


# Phrases of the CLIs' own instructions: claude-code 2.1.325, kimi-cli 1.51.0, kimi-code 2.1.0, qwen-code 0.24.4,
# codex 0.166.0 (2026-11).
_COMPACTION = re.compile(
    "task to compact this conversation|Create a handoff summary for the|component that summarizes a conversation"
    "|Do NOT call any tools. Respond with plain text only|For this reply only: write what the instructions above"
    "|focused on helping the next LLM"
)
_SIDE_QUESTION = re.compile(
    r"<system-reminder>[^<]*(side question|side-channel conversation)|Reply with ONLY the suggestion"
)
_TITLE = re.compile(r"\btitle\b", re.I)
_TITLE_WITH_SCHEMA = re.compile("Generate the session title now")  # the schema is offered as a tool


def tell_kind(messages: Sequence[Mapping[str, Any]], tools: Sequence[str]) -> Kind:
    """What a call is for. One that offers tools and has none of the known phrases is a turn."""
    users = [text for message in messages if message.get("role") == "user" for text in texts(message)]
    last = "\n".join(texts(messages[-1])) if messages else ""
    instructions = "\n".join(text for message in messages[:1] for text in texts(message)) + "\n" + last
    if _COMPACTION.search(instructions if not tools else last):
        return Kind.COMPACTION
    if _TITLE_WITH_SCHEMA.search(last):
        return Kind.TITLE
    if any(_SIDE_QUESTION.search(text) for text in users):
        return Kind.SIDE
    if any(text.startswith(f"{SUBTASK} ") or f"\n{SUBTASK} " in text for text in users):
        return Kind.SUBAGENT
    if tools:
        return Kind.TURN
    return Kind.TITLE if _TITLE.search(instructions) else Kind.SIDE


def texts(message: Mapping[str, Any]) -> list[str]:
    """The text parts of one message, whichever of the two shapes it has."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]


def steering_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """The last paragraph that the user said, without the CLI's reminders; "" after a tool result."""
    said: list[str] = []
    for message in reversed(messages):
        if message.get("role") != "user":
            break
        said = texts(message) + said
    # A prompt that was never answered is joined to the next one by a blank line when kimi-code resumes.
    paragraphs = [part.strip() for text in said for part in text.split("\n\n")]
    plain = [part for part in paragraphs if part and not part.startswith("<") and not part.endswith(">")]
    return plain[-1] if plain else ""
