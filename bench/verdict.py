"""How long it takes to judge one record: a look at its process and the decision. Goal: 100 µs at most."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from corral.machine.host import read_host_facts
from corral.machine.probe import probe_claim
from corral.machine.processes import ProcessTable
from corral.model.claim import Claim, ClaimKind
from corral.model.process import HostFacts
from corral.sessions.decide.liveness import decide_liveness

GOAL_US = 100.0
TABLE_GOAL_US_PER_PROCESS = 10_000 / 300
BATCH = 500
BATCHES = 21


class Row(NamedTuple):
    """One measured thing."""

    what: str
    verdict: str
    median_us: float
    best_us: float
    goal_us: float


def main() -> int:
    """Print one line per kind of record; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print machine-readable numbers")
    as_json = parser.parse_args().json
    host = read_host_facts()
    rows = [_measure_verdict(name, claim, host) for name, claim in _records(host).items()]
    rows.append(_measure_table())
    if as_json:
        print(json.dumps({"schema": 1, "rows": [row._asdict() for row in rows]}, indent=2))
    else:
        print(f"{'what':<34}{'verdict':<28}{'median µs':>11}{'best µs':>9}{'goal µs':>9}")
        for row in rows:
            numbers = f"{row.median_us:>11.1f}{row.best_us:>9.1f}{row.goal_us:>9.1f}"
            print(f"{row.what:<34}{row.verdict:<28}{numbers}")
    return 0 if all(row.best_us <= row.goal_us for row in rows) else 1


def _records(host: HostFacts) -> dict[str, Claim]:
    own = ProcessTable().find(os.getpid())
    assert own is not None and own.identity is not None
    v1 = _claim(host, os.getpid(), written_at=time.time())
    return {
        "v1 record, process runs": v1,
        "v1 record, number reused": _claim(host, os.getpid(), written_at=own.started_at - 60),
        "v1 record, process gone": _claim(host, _free_pid(), written_at=time.time()),
        "v1 record, kernel thread": _claim(host, 2, written_at=time.time()),
        "exact record, process runs": _claim(
            host,
            os.getpid(),
            written_at=time.time(),
            boot_id=own.identity.boot_id,
            pid_ns=own.identity.pid_ns,
            start_ticks=own.start_ticks,
        ),
    }


def _claim(host: HostFacts, pid: int, **fields: object) -> Claim:
    known = {"scope": None, "session_id": "a", "path": "/home/runtime.json", "hostname": host.hostname}
    known |= {"kind": ClaimKind.RUNTIME, "provider": "kimi-cli", "home": "/home", "owner_uid": os.getuid()}
    return Claim(pid=pid, **(known | fields))  # type: ignore[arg-type]


def _free_pid() -> int:
    table = ProcessTable()
    return next(pid for pid in range(4_000_000, 4_100_000) if table.find(pid) is None)


def _measure_verdict(name: str, claim: Claim, host: HostFacts) -> Row:
    verdict = decide_liveness(claim, probe_claim(claim), host, None)

    def judge() -> None:
        for _ in range(BATCH):
            decide_liveness(claim, probe_claim(claim), host, None)

    return _row(name, f"{verdict.liveness}({verdict.rule})", judge, BATCH, GOAL_US)


def _measure_table() -> Row:
    count = sum(1 for _ in ProcessTable())
    name = f"process table, each of {count}"
    return _row(name, "", lambda: (ProcessTable(), None)[1], count, TABLE_GOAL_US_PER_PROCESS)


def _row(name: str, verdict: str, work: Callable[[], None], count: int, goal_us: float) -> Row:
    times: list[float] = []
    for _ in range(BATCHES):
        before = time.perf_counter()
        work()
        times.append((time.perf_counter() - before) / count * 1e6)
    return Row(name, verdict, round(statistics.median(times), 2), round(min(times), 2), round(goal_us, 2))


if __name__ == "__main__":
    sys.exit(main())
