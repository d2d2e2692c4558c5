"""How long `corral usage` takes beside codeburn, ccusage and tokscale, as whole processes on the same generated homes.

    python bench/usage.py [--runs 5] [--small] [--no-peers] [--keep DIR] [--write] [--json]

Homes are seeded: 1 GB of Kimi CLI logs in 2,000 sessions, 0.5 GB of Kimi Code logs in 1,000, and 20,000 small Kimi CLI
sessions; files have the times of their last records, and 8 % of the bytes are of the last 7 days (in one set 40 %).
Cold: what a tool keeps between runs was deleted before (the page cache is warm for all). Week: the same, asked about
the last 7 days alone. Warm: nothing has changed. Grown: one log got one more request. Tools take turns in every round;
the best round counts. `--write` puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import sys
import tempfile
import textwrap
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from usage_kit.kimi_cli import KimiHome, Shape
from usage_kit.kimi_code import KimiCodeHome
from usage_kit.peers import Tool, count_tokens, find_corral, install_peers
from usage_kit.timing import Run, forget, run

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- usage table: made by bench/usage.py -->", "<!-- end of usage table -->"
MEMORY_GOAL_MB = 150
GROWN_LINE = (
    '{"timestamp": %r, "message": {"type": "StatusUpdate", "payload": {"token_usage": {"input_other": 10, "output": 5, '
    '"input_cache_read": 0, "input_cache_creation": 0}, "message_id": "chatcmpl-grown-%d"}}}\n'
)


@dataclass(frozen=True, slots=True)
class Set:
    name: str
    title: str
    make: type[KimiHome] | type[KimiCodeHome]
    shape: Shape
    warm_goal_ms: int | None = None
    week_goal: float | None = None
    """How many times as fast as ccusage the first answer about 7 days should be."""


SETS = (
    Set("k1g", "Kimi CLI, 1 GB, 2,000 sessions", KimiHome, Shape(2_000, 900_000_000, 20_000), 100, 2.0),
    Set(
        "k1g40",
        "the same, 40 % of it of the last 7 days",
        KimiHome,
        Shape(2_000, 900_000_000, 20_000, week_share=0.4),
        100,
        1.0,
    ),
    Set("kcode", "Kimi Code, 0.5 GB, 1,000 sessions", KimiCodeHome, Shape(1_000, 500 << 20, 6_000, seed=3)),
    Set("k20k", "Kimi CLI, 20,000 small sessions", KimiHome, Shape(20_000, 300 << 20, 2_500, seed=2), 250),
)
KINDS = ("cold", "week", "warm", "grown")


@dataclass(frozen=True, slots=True)
class Best:
    """The best of several runs."""

    set: str
    tool: str
    kind: str
    wall_ms: float
    cpu_ms: float
    rss_mb: float


def prepare(root: Path, one: Set, small: bool) -> Path:
    home = root / (one.name + ("-small" if small else ""))
    if not (home / ".complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        shape = (
            replace(one.shape, sessions=one.shape.sessions // 50, total_bytes=one.shape.total_bytes // 50)
            if small
            else one.shape
        )
        # In a process of its own: what a child is said to have held at most includes what its parent held.
        child = os.fork()
        if child == 0:
            try:
                one.make(home, shape).write()
                (home / ".complete").touch()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert (home / ".complete").exists(), f"{home} could not be made"
    return home


def measure(one: Set, home: Path, tools: list[Tool], runs: int, say) -> tuple[list[Best], list[str]]:
    """Every tool cold and warm in turn, then corral after a log has grown. Also which tools can't read this set."""
    found: dict[tuple[str, str], list[Run]] = {}
    blind = [tool.name for tool in tools if not can_read(tool, home)]
    readers = [tool for tool in tools if tool.name not in blind]
    for number in range(runs):
        for tool in readers:
            if tool.week:
                forget(tool, home)
                found.setdefault((tool.name, "week"), []).append(run(tool, home, tool.week))
            forget(tool, home)
            found.setdefault((tool.name, "cold"), []).append(run(tool, home))
            if tool.has_cache:
                found.setdefault((tool.name, "warm"), []).extend(
                    run(tool, home) for _ in range(3 if tool.name == "corral" else 1)
                )
            if tool.name == "corral" and one.make is KimiHome:
                for turn in range(3):
                    grow(home, number * 10 + turn)
                    found.setdefault((tool.name, "grown"), []).append(run(tool, home))
            say(f"{one.name} round {number + 1}: {tool.name} done")
    broken = {name for (name, _), some in found.items() if not all(each.ok for each in some)}
    best = [
        Best(
            one.name,
            name,
            kind,
            min(r.wall_s for r in some) * 1e3,
            min(r.cpu_s for r in some) * 1e3,
            max(r.rss_mb for r in some),
        )
        for (name, kind), some in found.items()
        if name not in broken
    ]
    return best, blind + sorted(broken)


def can_read(tool: Tool, home: Path) -> bool:
    forget(tool, home)
    first = run(tool, home)
    return first.ok and count_tokens(tool, first.output) > 0


def grow(home: Path, number: int) -> None:
    log = next(iter(sorted(home.glob(".kimi/sessions/*/*/wire.jsonl"))))
    with log.open("a") as file:
        file.write(GROWN_LINE % (1_794_000_000.5 + number, number))


def render(results: list[Best], blind: dict[str, list[str]], tools: list[Tool]) -> list[str]:
    by = {(one.set, one.tool, one.kind): one for one in results}
    lines = [
        "| Set | | " + " | ".join(tool.name for tool in tools) + " | goals for corral |",
        "|---|---|" + "---:|" * len(tools) + "---|",
    ]
    for one in SETS:
        if not any(result.set == one.name for result in results):
            continue
        for kind in KINDS:
            cells = [_cell(by, blind, one, tool, kind) for tool in tools]
            if any(cell not in ("–", "can't read") for cell in cells):
                lines.append(
                    f"| {one.title if kind == 'cold' else ''} | {kind} | "
                    + " | ".join(cells)
                    + f" | {_goals(by, one, kind)} |"
                )
        lines.append(
            "| | peak memory | "
            + " | ".join(_memory(by, one, tool) for tool in tools)
            + f" | {_memory_goal(by, one)} |"
        )
    return lines


def _cell(by, blind: dict[str, list[str]], one: Set, tool: Tool, kind: str) -> str:
    if tool.name in blind.get(one.name, []):
        return "can't read"
    best = by.get((one.name, tool.name, kind))
    if best is None:
        return "no cache" if kind == "warm" and not tool.has_cache else "–"
    shown = f"{best.wall_ms:,.0f} ms"
    own = by.get((one.name, "corral", kind))
    return shown if tool.name == "corral" or own is None else f"{shown} ({best.wall_ms / own.wall_ms:.1f}×)"


def _goals(by, one: Set, kind: str) -> str:
    own = by.get((one.name, "corral", kind))
    if own is None:
        return ""
    if kind == "week" and one.week_goal is not None and (other := by.get((one.name, "ccusage", "week"))) is not None:
        ratio = other.wall_ms / own.wall_ms
        return f"{one.week_goal:g}× ccusage: {'met' if ratio >= one.week_goal else f'missed ({ratio:.1f}×)'}"
    if kind == "warm" and one.warm_goal_ms is not None:
        return f"≤ {one.warm_goal_ms} ms: {'met' if own.wall_ms <= one.warm_goal_ms else 'missed'}"
    return ""


def _memory(by, one: Set, tool: Tool) -> str:
    found = [best.rss_mb for (name, of, _), best in by.items() if (name, of) == (one.name, tool.name)]
    return f"{max(found):,.0f} MB" if found else "–"


def _memory_goal(by, one: Set) -> str:
    most = max((best.rss_mb for (name, of, _), best in by.items() if (name, of) == (one.name, "corral")), default=0)
    return f"≤ {MEMORY_GOAL_MB} MB: {'met' if most <= MEMORY_GOAL_MB else 'missed'}"


def describe_machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = int(Path("/proc/meminfo").read_text().split()[1]) >> 20
    return f"{os.cpu_count()} cores of {model}, {memory} GB, {platform.system()} {platform.release().partition('-')[0]}, Python {platform.python_version()}"


def write_page(lines: list[str], tools: list[Tool], runs: int, load: float) -> None:
    text = PAGE.read_text()
    head, tail = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    versions = ", ".join(f"{tool.name} {tool.version}" for tool in tools)
    said = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}; best of {runs}; {versions}; {describe_machine()}; load average before: {load:.1f}."
    PAGE.write_text("\n".join([head, "", textwrap.fill(said, 100, break_on_hyphens=False), "", *lines, "", tail]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sets", nargs="+", choices=[one.name for one in SETS], default=[one.name for one in SETS])
    parser.add_argument("--small", action="store_true", help="a fiftieth of everything, to try the bench itself")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--keep", type=Path, help="where homes are made and kept for the next time")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    root = args.keep or Path(tempfile.mkdtemp(prefix="corral-bench-"))

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        tools = [find_corral(), *([] if args.no_peers else install_peers())]
        results: list[Best] = []
        blind: dict[str, list[str]] = {}
        for one in SETS:
            if one.name in args.sets:
                found, blind[one.name] = measure(one, prepare(root, one, args.small), tools, args.runs, say)
                results += found
    finally:
        if args.keep is None:
            shutil.rmtree(root, ignore_errors=True)
    lines = render(results, blind, tools)
    print(json.dumps([asdict(one) for one in results], indent=2) if args.json else "\n".join(lines))
    if args.write:
        write_page(lines, tools, args.runs, load)


if __name__ == "__main__":
    main()
