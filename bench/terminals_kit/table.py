"""The figures of all rounds as one table, with the goals and whether they were met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

Results = dict[tuple[str, str], Any]
BARE = "bare loop"
Number = Callable[[Any], float]
Pairs = dict[tuple[str, str], list[float]]
"""By kind of output and what corral is compared with: its throughput divided by the other's, run by run."""


def note_pairs(pairs: Pairs, kind: str, one: Results) -> None:
    """Of runs that followed each other: what else the machine did slowed all of them."""
    own = one.get(("corral", kind))
    for (name, _), other in one.items():
        if own is not None and name != "corral":
            pairs.setdefault((kind, name), []).append(own["mb_per_s"] / other["mb_per_s"])


def merge(rounds: list[Results]) -> Results:
    """The best of every figure by itself: more is better for throughput alone."""
    found: Results = {}
    for one in rounds:
        for key, value in one.items():
            found[key] = _better(found[key], value) if key in found else value
    return found


def _better(one: Any, other: Any, name: str = "") -> Any:
    if isinstance(one, Mapping):
        return {key: _better(one[key], other[key], key) for key in one}
    return max(one, other) if name in ("mb_per_s", "grown_mb") else min(one, other)


def render(results: Results, pairs: Pairs, sides: list[str], tabs: int) -> list[str]:
    lines = [
        f"| | {BARE} | " + " | ".join(sides) + " | goals for corral |",
        "|---|---:|" + "---:|" * len(sides) + "---|",
    ]
    rows: list[tuple[str, str, str, Number, list[str]]] = []
    for kind in ("plain", "coloured"):
        rate = _field("mb_per_s")
        rows.append((f"{kind} output to the client", kind, "{:.1f} MB/s", rate, _rate_goals(pairs, kind)))
        rows.append(("processor time of the server", kind, "{:.1f} ms/MB", _field("cpu_ms_per_mb"), []))
    for title, name, limit, of in (
        ("key to echo, idle", "echo", None, lambda one: one),
        ("key to echo, ten tabs flooding", "flood", 100, _field("echo_ms")),
    ):
        for part in ("p50", "p99"):
            number = _path(of, part)
            goals = _ahead(results, sides, name, number)
            if limit and part == "p99":
                goals.insert(0, _at_most(results, name, number, limit, "ms"))
            rows.append((f"{title}, {part}", name, "{:.2f} ms", number, goals))
    stop = _field("interrupt_ms")
    rows.append(
        ("Ctrl-C in all ten, the slowest", "flood", "{:.0f} ms", stop, [_at_most(results, "flood", stop, 500, "ms")])
    )
    rows.append(("memory grown by the flood", "flood", "{:.1f} MB", _field("grown_mb"), []))
    seconds, size = _field("seconds"), _field("mb_per_tab")
    rows.append(
        (f"{tabs} tabs reattached", "reattach", "{:.2f} s", seconds, _ahead(results, sides, "reattach", seconds))
    )
    rows.append(("memory per tab", "reattach", "{:.2f} MB", size, [_at_most(results, "reattach", size, 12, "MB")]))
    for title, name, form, number, goals in rows:
        cells = [_cell(results, side, name, form, number) for side in (BARE, *sides)]
        lines.append(f"| {title} | " + " | ".join(cells) + f" | {'; '.join(goal for goal in goals if goal)} |")
    return lines


def _field(name: str) -> Number:
    return lambda one: one[name]


def _path(of: Number, name: str) -> Number:
    return lambda one: of(one)[name]  # type: ignore[index]


def _cell(results: Results, side: str, name: str, form: str, number: Number) -> str:
    found = results.get((side, name))
    if found is None:
        return "–"
    value = number(found)
    return "never" if value == float("inf") else form.format(value)


def _rate_goals(pairs: Pairs, kind: str) -> list[str]:
    goals: list[str] = []
    for (of, name), ratios in pairs.items():
        if of == kind:
            least, words = (0.7, "≥ 0.7 of the bare loop") if name == BARE else (1.0, f"ahead of {name}")
            ratio = median(ratios)
            goals.append(f"{words}: {'met' if ratio >= least else 'missed'} ({ratio:.2f})")
    return goals


def _ahead(results: Results, sides: list[str], name: str, number: Number) -> list[str]:
    own = results.get(("corral", name))
    if own is None:
        return []
    goals: list[str] = []
    for side in sides:
        if side != "corral":
            times = number(results[side, name]) / number(own)
            goals.append(f"ahead of {side}: {'met' if times > 1 else 'missed'} ({times:.2f}×)")
    return goals


def _at_most(results: Results, name: str, number: Number, limit: float, unit: str) -> str:
    own = results.get(("corral", name))
    return "" if own is None else f"≤ {limit:g} {unit}: {'met' if number(own) <= limit else 'missed'}"
