"""What one hook costs the CLI that waits for it: `python bench/hook.py [--runs N] [--json]`."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from corral.hooks.command import base_interpreter, hook_command, place_program

BUDGET_P95_MS = 50.0
PR_SET_NAME = 15


class Cost(NamedTuple):
    """Sorted milliseconds: what a clock on the wall says, and what the processor spent."""

    wall: list[float]
    cpu: list[float]


def measure(command: str, payloads: list[bytes], env: dict[str, str]) -> Cost:
    """The cost of each run, spawned as the CLIs do it: /bin/sh -c, the event on stdin, awaited."""
    wall: list[float] = []
    cpu: list[float] = []
    for payload in payloads:
        before = os.times()
        started = time.perf_counter()
        subprocess.run(["/bin/sh", "-c", command], input=payload, capture_output=True, env=env, check=True)
        wall.append((time.perf_counter() - started) * 1000)
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        cpu.append(spent * 1000)
    return Cost(sorted(wall), sorted(cpu))


def events(runs: int, root: Path) -> list[bytes]:
    """A session ends and another starts, over and over, as with /new."""
    names = [f"session-{number % 20}" for number in range(runs)]
    for name in names:
        (root / "home" / "sessions" / "bucket" / name).mkdir(parents=True, exist_ok=True)
    kinds = (
        {"hook_event_name": "SessionStart", "source": "startup"},
        {"hook_event_name": "SessionEnd", "reason": "exit"},
    )
    made = [{**kinds[number % 2], "session_id": names[number // 2], "cwd": str(root)} for number in range(runs)]
    return [json.dumps(event).encode() for event in made]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    # The hook looks for its CLI among its ancestors: for once, that is us.
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"Kimi Code", 0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        place_program(str(root / "data"), str(root / "state"))
        env = {**os.environ, "KIMI_SHARE_DIR": str(root / "home")}
        payloads = events(args.runs, root)
        bare = measure(f"{base_interpreter()} -I -S -c pass || :", payloads, env)
        hook = measure(hook_command("kimi-cli", str(root / "data"), str(root / "state")), payloads, env)
        journals = list((root / "state" / "journal" / "kimi-cli").glob("*.json"))
        assert len(journals) == 1 and len(json.loads(journals[0].read_text())["events"]) > 1
    result = {"runs": args.runs, "budget_p95_ms": BUDGET_P95_MS, "load_average": os.getloadavg()[0]}
    for name, cost in (("hook", hook), ("bare_python", bare)):
        result[f"{name}_p50_ms"] = round(cost.wall[len(cost.wall) // 2], 1)
        result[f"{name}_p95_ms"] = round(cost.wall[int(len(cost.wall) * 0.95)], 1)
        result[f"{name}_cpu_mean_ms"] = round(sum(cost.cpu) / len(cost.cpu), 1)
    if args.json:
        print(json.dumps(result))
    else:
        for name in ("hook", "bare_python"):
            p50, p95, cpu = (result[f"{name}_{part}_ms"] for part in ("p50", "p95", "cpu_mean"))
            print(f"{name:<12} p50 {p50:6.1f} ms   p95 {p95:6.1f} ms   processor {cpu:6.1f} ms")
        print(f"budget       p95 {BUDGET_P95_MS:6.1f} ms when idle; load now {result['load_average']:.1f}")
    return 0 if result["hook_p95_ms"] <= BUDGET_P95_MS else 1


if __name__ == "__main__":
    sys.exit(main())
