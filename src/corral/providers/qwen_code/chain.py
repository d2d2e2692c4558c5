"""The chain of records in a Qwen transcript: how much of it a resume would take up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from corral.providers.qwen_code.transcript import RECORD_TYPES
from corral.system.foreign_json import ForeignDecoder
from corral.system.transcripts import Unreadable, open_transcript

_CHAIN_BUDGET = 256 << 20
_ASIDE = frozenset(
    {
        "session_artifact_event",
        "session_artifact_snapshot",
        "session_sources_snapshot",
        "managed_session_header_v1",
        "managed_session_event_v1",
        "managed_session_commit_v1",
    }
)
"""Kinds of `system` records that Qwen keeps out of the chain."""


class ChainFacts(Struct, frozen=True, kw_only=True):
    """What Qwen would take up on a resume."""

    records: int
    """Readable ones."""
    reachable: int
    """Those on the way from the last record back to the beginning, or to a gap."""
    gap: bool
    """The way back ends at a record that is missing: all before it would be lost, without a word."""
    sessions: tuple[str, ...]
    """Every session id that the records name; more than one, and Qwen refuses the file."""
    complete: bool = True
    """False when the file is too large to be checked."""


def read_chain(path: str) -> ChainFacts | Unreadable:
    """Walks the records as `qwen --resume` does: from the last one back by parentUuid, until one is missing.

    qwen 0.24.4, tried 2026-11: a destroyed record costs everything before it, with exit code 0; a foreign
    line between records costs nothing; two records glued on one line are both read.
    """
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return transcript
    parents: dict[str, str | None] = {}
    sessions: dict[str, None] = {}
    last: str | None = None
    count = 0
    with transcript:
        for line in transcript.forward(_CHAIN_BUDGET):
            for link in _links(line.data):
                if link.type not in RECORD_TYPES or not link.uuid or not link.sessionId or link.parentUuid is UNSET:
                    continue
                count += 1
                sessions[link.sessionId] = None
                if link.type == "system" and link.subtype in _ASIDE:
                    continue
                parents.setdefault(link.uuid, link.parentUuid)
                last = link.uuid
        complete = not transcript.exhausted
    reached: set[str] = set()
    gap = False
    while last is not None and last not in reached:
        if last not in parents:
            gap = True
            break
        reached.add(last)
        last = parents[last] or None
    return ChainFacts(records=count, reachable=len(reached), gap=gap, sessions=tuple(sessions), complete=complete)


def _links(data: bytes) -> Iterator[_Link]:
    link = _LINK.decode(data)
    if link is not None:
        yield link
        return
    # Two writers can leave `{…}{…}` on one line; Qwen reads both.
    text = data.decode("utf-8", "replace")
    import json

    decoder = json.JSONDecoder()
    position = 0
    while (position := text.find("{", position)) >= 0:
        try:
            value: Any
            value, position = decoder.raw_decode(text, position)
            yield msgspec.convert(value, _Link)
        except (ValueError, RecursionError):
            return
        except msgspec.ValidationError:
            continue


class _Link(Struct):
    uuid: str | None = None
    parentUuid: str | UnsetType | None = UNSET
    sessionId: str | None = None
    type: str | None = None
    subtype: str | None = None


_LINK = ForeignDecoder(_Link)
