"""`corral usage --explain` as people read it: each file, its counts, every line that did not simply count, and why."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from corral.cli.screen import paint, tilde
from corral.cli.usage_table import say_money
from corral.machine.text import printable
from corral.model.usage import TokenUsage

if TYPE_CHECKING:
    from corral.usage import FileReport, LineReport, ModelReport, UsageExplanation

_COLOURS = {"merged": "grey", "skipped": "amber", "unrecorded": "violet", "unread": "amber", "counted": "green"}
_KNOWN_BY = {
    "recorded": "named in the log",
    "journal": "reported by corral's hook when the session started",
    "config": "assumed: the CLI's configuration as it was when the line was first read",
    "unknown": "neither the log, the journal nor the configuration names it",
}
_KINDS = {"session": "", "sub-agent": " (a sub-agent)", "home": " (of the whole home)", "fork": " (of a fork)"}


def render(explanation: UsageExplanation, zone: tzinfo, *, colour: bool) -> list[str]:
    """The count first, then what it rests on."""
    lines = [
        f"{explanation.session}  {tilde(explanation.work_dir)}",
        f"{_plural(explanation.events, 'request')} counted, {_plural(explanation.turns, 'turn')},"
        f" {_plural(explanation.tool_calls, 'call')} of tools",
    ]
    for file in explanation.files:
        lines += _file_lines([line for line in explanation.lines if line.path == file.path], file, colour)
    if not explanation.files:
        lines.append("- its logs are gone: all of this is from the ledger alone")
    if explanation.kept:
        first, last = (datetime.fromtimestamp(explanation.kept[end].at, zone) for end in (0, -1))
        lines.append(
            f"- in the ledger only: {_plural(len(explanation.kept), 'request')} whose lines are gone,"
            f" {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
        )
    for model in explanation.models:
        lines += _model_lines(model)
    if explanation.unrecorded:
        kinds = ", ".join(f"{count:,} × {kind}" for kind, count in explanation.unrecorded.items())
        lines.append(f"- left a trace, and no tokens: {kinds}")
    lines.append("- this CLI never writes down: " + "; ".join(explanation.untraced))
    lines += [f"- note: {loss.say()}" for loss in explanation.losses]
    if explanation.notice:
        lines.append(f"- note: {explanation.notice}")
    return lines


def _file_lines(lines: list[LineReport], file: FileReport, colour: bool) -> Iterator[str]:
    outcomes = ("counted", "merged", "skipped", "unrecorded", "unread")
    counts = [f"{getattr(file, name):,} {name}" for name in outcomes if getattr(file, name)]
    yield f"- {tilde(file.path)}{_KINDS[file.kind]}: {', '.join(counts) or 'nothing of it is usage'}"
    groups: dict[tuple[str, str], list[int]] = {}
    plain = "the first line with this event id"
    for line in lines:
        if line.reason != plain:
            groups.setdefault((line.outcome, line.reason), []).append(line.offset)
    for (outcome, reason), offsets in groups.items():
        where = ("byte " if len(offsets) == 1 else "bytes ") + ", ".join(map(str, offsets))
        yield f"    {paint(outcome, _COLOURS[outcome], colour)}: {printable(reason)}"
        yield f"        {where}"
    if file.read_to is not None and file.read_to < file.size:
        yield f"    the last {file.size - file.read_to:,} bytes are no whole line yet"


def _model_lines(model: ModelReport) -> Iterator[str]:
    name = printable(model.model) if model.model else "unknown model"
    yield f"- {name}: {_plural(model.events, 'request')}, {_say_tokens(model.tokens)}"
    yield f"    model: {_KNOWN_BY.get(model.known_by, model.known_by)}"
    if model.amount is None:
        yield "    price: none is known, so it is in no sum"
        return
    dated = f" of {model.dated}" if model.dated else ""
    assumed = f", assumed to be {model.priced_as}" if model.assumed else f", listed as {model.priced_as}"
    yield f"    price: {say_money(model.amount, model.currency)} by {model.source}{dated}{assumed}"


def _say_tokens(tokens: TokenUsage) -> str:
    kinds = (
        ("input", tokens.input),
        ("cache read", tokens.cache_read),
        ("cache write", tokens.cache_write),
        ("1-hour cache write", tokens.cache_write_1h),
        ("output", tokens.output),
        ("reasoning", tokens.reasoning),
    )
    return ", ".join(f"{count:,} {name}" for name, count in kinds if count) or "no tokens"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
