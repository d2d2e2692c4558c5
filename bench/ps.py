"""How long `corral ps` takes as a whole process: 2,000 and 20,000 sessions on disk, 20 of them live.

    python bench/ps.py [--sessions 2000 20000] [--runs 9] [--json] [--qwen PATH_OF_QWEN]

Cold means that the cache was deleted before the run; warm is the best of the runs after it. With `--qwen` (or when
the contract tests have installed it) `qwen sessions ps --json` is timed in the same run, on a home of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

LIVE = 20
DIRECTORIES = 40


def make_home(root: Path, sessions: int) -> list[Path]:
    """A kimi-cli home of that many sessions; returns the directories of the first ones, to be made live."""
    data = root / ".kimi"
    work_dirs = [root / "work" / f"project-{number}" for number in range(DIRECTORIES)]
    places: list[Path] = []
    for number in range(sessions):
        work_dir = work_dirs[number % DIRECTORIES]
        bucket = hashlib.md5(str(work_dir).encode(), usedforsecurity=False).hexdigest()
        place = data / "sessions" / bucket / str(uuid.UUID(int=number + (1 << 100)))
        place.mkdir(parents=True)
        (place / "context.jsonl").write_text(
            '{"role": "_system_prompt", "content": "x"}\n{"role": "_checkpoint", "id": 0}\n'
            '{"role": "user", "content": "hello"}\n{"role": "assistant", "content": "hi"}\n'
        )
        turns = [{"type": "metadata", "protocol_version": "1.10"}]
        for turn in range(3):
            at = 1_790_000_000 + number + turn
            turns.append(
                {
                    "timestamp": at,
                    "message": {"type": "TurnBegin", "payload": {"user_input": f"prompt {turn}"}},
                }
            )
            turns.append({"timestamp": at + 0.5, "message": {"type": "TurnEnd", "payload": {}}})
        (place / "wire.jsonl").write_text("".join(json.dumps(line) + "\n" for line in turns))
        (place / "state.json").write_text(json.dumps({"custom_title": f"Session {number}", "archived": False}))
        places.append(place)
    for work_dir in work_dirs:
        work_dir.mkdir(parents=True, exist_ok=True)
    entries = [{"path": str(path), "kaos": "local", "last_session_id": None} for path in work_dirs]
    (data / "kimi.json").write_text(json.dumps({"work_dirs": entries}))
    return places[:LIVE]


def start_live(places: list[Path]) -> list[subprocess.Popen[bytes]]:
    """One real process per directory that claims its session by the sidecar protocol."""
    code = (
        "import sys, time\nfrom corral import sidecar\n"
        "sidecar.write(sys.argv[1], session_id=sys.argv[2], work_dir='/', cli='kimi_cli', version='1.51.0')\n"
        "print('up', flush=True)\ntime.sleep(3600)"
    )
    running: list[subprocess.Popen[bytes]] = []
    for place in places:
        process = subprocess.Popen([sys.executable, "-c", code, str(place), place.name], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        running.append(process)
    return running


def time_command(argv: list[str], env: dict[str, str], runs: int) -> list[float]:
    """Milliseconds of each run."""
    spans: list[float] = []
    for _ in range(runs):
        begun = time.perf_counter()
        subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=True)
        spans.append((time.perf_counter() - begun) * 1000)
    return spans


def measure(sessions: int, runs: int) -> dict[str, float]:
    root = Path(tempfile.mkdtemp(prefix="corral-bench-"))
    env = {"HOME": str(root), "PATH": os.environ["PATH"]}
    corral = str(Path(sys.executable).parent / "corral")
    running: list[subprocess.Popen[bytes]] = []
    try:
        running = start_live(make_home(root, sessions))
        (cold,) = time_command([corral, "ps"], env, 1)
        done = subprocess.run([corral, "ps", "--json"], env=env, capture_output=True, check=True)
        found = [row for row in json.loads(done.stdout)["sessions"] if row["home"].startswith(str(root))]
        assert [row["state"] for row in found] == ["live"] * LIVE, found
        warm = time_command([corral, "ps"], env, runs)
        everything = time_command([corral, "ps", "--all", "--json"], env, min(runs, 3))
        return {
            "cold_ms": cold,
            "warm_ms": min(warm),
            "warm_median_ms": sorted(warm)[len(warm) // 2],
            "all_json_ms": min(everything),
        }
    finally:
        for process in running:
            process.kill()
            process.wait()
        shutil.rmtree(root, ignore_errors=True)


def find_qwen() -> tuple[str, str] | None:
    """The program and the directory of its node, as the contract tests installed them."""
    root = Path(__file__).resolve().parents[1]
    sys.path.insert(0, str(root))
    try:
        from tests.contract.agents import install

        agents = install(lambda line: None)
    except Exception as error:  # noqa: BLE001 - a bench without its peer still measures
        print(f"qwen was not measured: {error}", file=sys.stderr)
        return None
    return str(agents.programs["qwen-code"]), str(agents.node_bin)


def measure_qwen(runs: int) -> dict[str, float] | None:
    """`qwen sessions ps --json` and `corral ps` on one home with Qwen's own registry in it."""
    found = find_qwen()
    if found is None:
        return None
    program, node_bin = found
    root = Path(tempfile.mkdtemp(prefix="corral-bench-"))
    try:
        (root / ".qwen" / "sessions").mkdir(parents=True)
        env = {"HOME": str(root), "PATH": f"{node_bin}:{os.environ['PATH']}"}
        corral = str(Path(sys.executable).parent / "corral")
        qwen_spans: list[float] = []
        corral_spans: list[float] = []
        for _ in range(runs):
            qwen_spans += time_command([program, "sessions", "ps", "--json"], env, 1)
            corral_spans += time_command([corral, "ps", "--json"], env, 1)
        return {"qwen_sessions_ps_ms": min(qwen_spans), "corral_ps_ms": min(corral_spans)}
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="+", default=[2000, 20000])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results: dict[str, object] = {str(count): measure(count, args.runs) for count in args.sessions}
    results["beside_qwen"] = measure_qwen(min(args.runs, 5))
    if args.json:
        print(json.dumps(results, indent=2))
        return
    goals = {2000: 120, 20000: 250}
    for count in args.sessions:
        spans = results[str(count)]
        assert isinstance(spans, dict)
        goal = f" (goal {goals[count]})" if count in goals else ""
        print(
            f"{count:>6} sessions, {LIVE} live: warm {spans['warm_ms']:.0f} ms{goal}, "
            f"median {spans['warm_median_ms']:.0f}, cold {spans['cold_ms']:.0f}, all {spans['all_json_ms']:.0f}"
        )
    beside = results["beside_qwen"]
    if isinstance(beside, dict):
        qwen, own = beside["qwen_sessions_ps_ms"], beside["corral_ps_ms"]
        print(f"qwen sessions ps --json {qwen:.0f} ms, corral ps --json {own:.0f} ms: {qwen / own:.1f} x")


if __name__ == "__main__":
    main()
