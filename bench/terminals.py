"""corral's terminals beside terminado and node-pty with ws, in one run: `python bench/terminals.py [--write]`.

Every server runs as it comes, on loopback; one client speaks to all. They take turns in every round; the best of each
figure counts, and for throughput the median of the ratios of neighbouring runs. `--write` puts the table into docs/benchmarks.md. Goals: ahead of both in throughput, latency and reattaching;
at least 70 % of a bare read loop on a PTY; keys beside ten floods within 100 ms (p99), Ctrl-C within 500 ms; at most
12 MB for a tab, its holder included.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import signal
import sys
import tempfile
import textwrap
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from terminals_kit.measures import (
    LINES,
    OpenTabs,
    make_output,
    measure_bare,
    measure_echo,
    measure_flood,
    measure_throughput,
)
from terminals_kit.sides import SIDES, Side
from terminals_kit.table import BARE, Pairs, Results, merge, note_pairs, render
from usage import describe_machine
from usage_kit.page import write_between

THROUGHPUTS = 3
BEGIN, END = "<!-- terminals table: made by bench/terminals.py -->", "<!-- end of terminals table -->"


def run_round(sides: list[Side], files: dict[str, Path], args: argparse.Namespace, pairs: Pairs) -> list[Results]:
    """Every measure, each for all sides before the next."""
    found: list[Results] = []
    for kind, file in files.items():
        for _ in range(THROUGHPUTS):
            one: Results = {(BARE, kind): asdict(measure_bare(file))}
            one |= {(side.name, kind): asdict(measure_throughput(side, file)) for side in sides}
            note_pairs(pairs, kind, one)
            found.append(one)
    found.append({(side.name, "echo"): measure_echo(side, args.keys) for side in sides})
    found.append({(side.name, "flood"): asdict(measure_flood(side, args.keys // 5)) for side in sides})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=32)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--tabs", type=int, default=100)
    parser.add_argument("--only", nargs="+", choices=[one.__name__.lower() for one in SIDES], help="these sides alone")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    # A job in the background of a script ignores it, and so would every program in the terminals measured here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    load = os.getloadavg()[0]
    root = Path(tempfile.mkdtemp(prefix="corral-bench-"))
    rounds: list[Results] = []
    pairs: Pairs = {}
    sides: list[Side] = []
    try:
        files = {kind: make_output(root, kind, args.megabytes << 20) for kind in LINES}
        for make in SIDES:
            if not args.only or make.__name__.lower() in args.only:
                sides.append(make(root))
        for number in range(args.rounds):
            rounds += run_round(sides, files, args, pairs)
            print(f"round {number + 1} of {args.rounds} done", file=sys.stderr, flush=True)
        tabs = {side.name: OpenTabs(side, args.tabs, files["plain"]) for side in sides}
        for _ in range(args.rounds):
            rounds.append({(name, "reattach"): asdict(some.come_back()) for name, some in tabs.items()})
    finally:
        for side in sides:
            side.stop()
        shutil.rmtree(root, ignore_errors=True)
    results = merge(rounds)
    lines = render(results, pairs, [side.name for side in sides], args.tabs)
    said = [f"{' '.join(key)}: {value}" for key, value in results.items()]
    print(json.dumps(said, indent=2) if args.json else "\n".join(lines))
    if args.write:
        versions = ", ".join(f"{side.name} {side.version}" for side in sides)
        day = datetime.datetime.now(datetime.UTC)
        facts = (
            f"{day:%Y-%m-%d}; best of {args.rounds}; {versions}; {describe_machine()}; load average before: {load:.1f}."
        )
        write_between(BEGIN, END, [textwrap.fill(facts, 100, break_on_hyphens=False), "", *lines])


if __name__ == "__main__":
    main()
