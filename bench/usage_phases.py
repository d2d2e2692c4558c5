"""Where the processor time of a first `corral usage` goes, step by step, beside all of ccusage's on the same logs.

    python bench/usage_phases.py [--runs 5] [--keep DIR] [--set k1g]

Steps are cumulative: bytes read, lines found in them, lines told apart, requests and calls taken from them, rows made and
priced, rows stored. All in one process; the best of the runs counts. What stands before "taken" is the least that Python
pays for looking at every line at all.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from usage import SETS, prepare
from usage_kit.peers import install_peers
from usage_kit.timing import run

from corral.model.key import Home
from corral.model.usage import UsageSource
from corral.providers.kimi_cli.usage import LOG as KIMI_CLI_LOG
from corral.providers.kimi_code.usage import LOG as KIMI_CODE_LOG
from corral.providers.kit.blocks import read_blocks
from corral.providers.registry import find_provider
from corral.providers.settings import read_settings
from corral.usage.homes import ReportedSessions
from corral.usage.ledger import Ledger
from corral.usage.price_table import TablePricer
from corral.usage.read import Pending, Reader

PLACES = {"kimi-cli": (".kimi", KIMI_CLI_LOG), "kimi-code": (".kimi-code", KIMI_CODE_LOG)}


def measure(step: Callable[[], object], runs: int) -> float:
    best = float("inf")
    for _ in range(runs):
        gc.collect()
        begun = time.process_time()
        step()
        best = min(best, time.process_time() - begun)
    return best


def over_blocks(sources: Sequence[UsageSource], look: Callable[[bytearray, int], None]) -> None:
    for source in sources:
        fd = os.open(source.path, os.O_RDONLY)
        for block in read_blocks(fd, 0, os.fstat(fd).st_size):
            look(block.data, block.length)
        os.close(fd)


def find_lines(data: bytearray, length: int) -> None:
    start = 0
    while start < length:
        start = data.find(b"\n", start, length) + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep", metavar="DIR", help="keep the generated homes here, and use those that are there")
    parser.add_argument("--set", choices=[one.name for one in SETS], default="k1g")
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        one = next(one for one in SETS if one.name == asked.set)
        home = prepare(Path(asked.keep or temporary), one, asked.small)
        name = "kimi-code" if one.name == "kcode" else "kimi-cli"
        place, log = PLACES[name]
        provider = find_provider(name)
        listed = Home(provider=name, path=str(home / place), is_default=True, origin="default")
        sources = list(provider.usage.list_sources(listed, None))
        reader = Reader(TablePricer(read_settings()), ReportedSessions(f"{temporary}/state"))
        pending = [Pending(provider, source, None, 0) for source in sources]

        def match_lines(data: bytearray, length: int) -> None:
            start, match, find = 0, log.dull_line.match, data.find
            while start < length:
                end = find(b"\n", start, length)
                match(data, start, end)
                start = end + 1

        def take() -> None:
            for source in sources:
                fd = os.open(source.path, os.O_RDONLY)
                provider.usage.read(source, 0, fd)
                os.close(fd)

        def store() -> None:
            with tempfile.TemporaryDirectory() as state:
                ledger = Ledger(state, aside=True)
                ledger.store_rows([rows for one in pending if (rows := reader.read(one))], reader.pricer)
                ledger.publish()
                ledger.close()

        gc.disable()
        steps: list[tuple[str, Callable[[], object]]] = [
            ("read", lambda: over_blocks(sources, lambda _data, _length: None)),
            ("lines found", lambda: over_blocks(sources, find_lines)),
            ("told apart", lambda: over_blocks(sources, match_lines)),
            ("taken", take),
            ("rows made and priced", lambda: [reader.read(one) for one in pending]),
            ("stored", store),
        ]
        print(f"{one.title}: {len(sources)} files; load {os.getloadavg()[0]:.1f}")
        for title, step in steps:
            print(f"{title:24}{measure(step, asked.runs):8.2f} s")
        ccusage = next(tool for tool in install_peers() if tool.name == "ccusage")
        print(f"{'ccusage, all of it':24}{min(run(ccusage, home).cpu_s for _ in range(asked.runs)):8.2f} s")


if __name__ == "__main__":
    main()
