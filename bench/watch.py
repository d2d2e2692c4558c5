"""How soon `corral watch` and the server tell of a change, and what an idle server costs, with 2,000 sessions on disk.

    python bench/watch.py [--sessions 2000] [--rounds 60] [--idle-seconds 60] [--json] [--write]

Goals: death -> event 50 ms and write -> event 150 ms (p99); an idle server at most 1 % of a core and 90 MB (PSS).
"""

from __future__ import annotations

import argparse
import datetime
import http.client
import json
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ps import make_home, start_live
from usage import describe_machine
from usage_kit.page import write_between

LIVE = 5
BEGIN, END = "<!-- watch table: made by bench/watch.py -->", "<!-- end of watch table -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--idle-seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    if os.getuid() == 0 and os.getpid() != 1 and "CORRAL_BENCH_ALONE" not in os.environ:
        # Alone in a PID namespace: agents that happen to run on this machine would be looked at too.
        words = ["unshare", "-pf", "--mount-proc", "env", "CORRAL_BENCH_ALONE=1", sys.executable, *sys.argv]
        return subprocess.call(words)
    root = Path(tempfile.mkdtemp(prefix="corral-bench-"))
    running: list[subprocess.Popen[Any]] = []
    try:
        places = make_home(root, args.sessions)
        running += start_live(places[:LIVE])
        env = {"HOME": str(root), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        server = subprocess.Popen(
            [sys.executable, "-m", "corral", "serve"], env=env, stdout=subprocess.PIPE, text=True, cwd=root
        )
        running.append(server)
        assert server.stdout is not None
        server.stdout.readline()
        idle = measure_idle(server.pid, args.idle_seconds)
        events = follow(root)
        next(events)
        writes = measure_writes(events, places[:LIVE], args.rounds)
        deaths = measure_deaths(events, places[LIVE : LIVE + 1] * args.rounds, running)
    finally:
        for process in running:
            process.kill()
            process.wait()
        shutil.rmtree(root, ignore_errors=True)
    report = {"sessions": args.sessions, "idle": idle, "write_ms": spread(writes), "death_ms": spread(deaths)}
    print(json.dumps(report) if args.json else render(report))
    if args.write:
        facts = (
            f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}; {describe_machine()}; load average before: {load:.1f}."
        )
        write_between(BEGIN, END, [textwrap.fill(facts, 100, break_on_hyphens=False), "", *tabulate(report)])
    return 0


def follow(root: Path) -> Iterator[tuple[float, str, Any]]:
    """When each event arrived, its name and its body; read in a thread, so that the time is right."""
    state = root / ".local" / "state" / "corral" / "server"
    connection = http.client.HTTPConnection("127.0.0.1", int((state / "port").read_text()), timeout=120)
    token = (state / "token").read_text()
    connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    arrived: queue.Queue[tuple[float, str, Any]] = queue.Queue()

    def read() -> None:
        name = ""
        while line := response.readline():
            now = time.monotonic()
            key, _, value = line.decode().rstrip("\n").partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                arrived.put((now, name, json.loads(value)))

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield arrived.get(timeout=60)


def wait_for(events: Iterator[tuple[float, str, Any]], session_id: str, **wanted: str) -> float:
    for at, name, body in events:
        if name == "session" and body["session"]["session_id"] == session_id:
            found = {**body["session"], "change": body["change"]}
            if all(found[key] == value for key, value in wanted.items()):
                return at
    raise AssertionError("the stream ended")


def measure_writes(events: Iterator[tuple[float, str, Any]], places: list[Path], rounds: int) -> list[float]:
    """A new title in the files of a live session, and an event that carries it."""
    spans: list[float] = []
    for number in range(rounds):
        place = places[number % len(places)]
        time.sleep(0.5)
        title = f"round {number}"
        begun = time.monotonic()
        (place / "state.new").write_text(json.dumps({"custom_title": title, "archived": False}))
        (place / "state.new").replace(place / "state.json")  # as the CLI does it
        spans.append((wait_for(events, place.name, title=title) - begun) * 1000)
    return spans


def measure_deaths(
    events: Iterator[tuple[float, str, Any]], places: list[Path], running: list[subprocess.Popen[Any]]
) -> list[float]:
    """A live agent is killed, and an event says that its session is no longer served."""
    spans: list[float] = []
    for place in places:
        (process,) = start_live([place])
        running.append(process)
        wait_for(events, place.name, state="live")
        time.sleep(0.5)
        begun = time.monotonic()
        process.kill()
        spans.append((wait_for(events, place.name, change="ended") - begun) * 1000)
        process.wait()
    return spans


def measure_idle(pid: int, seconds: float) -> dict[str, float]:
    time.sleep(5)
    before = cpu_seconds(pid)
    time.sleep(seconds)
    used = cpu_seconds(pid) - before
    return {"cpu_percent": round(used / seconds * 100, 2), "pss_mb": round(pss_bytes(pid) / 1e6, 1)}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pss_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def spread(spans: list[float]) -> dict[str, float]:
    ordered = sorted(spans)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return {"p50": round(statistics.median(ordered), 2), "p99": round(p99, 2), "rounds": len(ordered)}


def tabulate(report: dict[str, Any]) -> list[str]:
    """For the page, with the goals and whether they were met."""
    idle, write, death = report["idle"], report["write_ms"], report["death_ms"]
    rows = [
        (
            "a process ends → event",
            f"p50 {death['p50']:.1f} ms, p99 {death['p99']:.1f} ms",
            50,
            death["p99"],
            "ms (p99)",
        ),
        (
            "a file is written → event",
            f"p50 {write['p50']:.1f} ms, p99 {write['p99']:.1f} ms",
            150,
            write["p99"],
            "ms (p99)",
        ),
        ("idle server, processor", f"{idle['cpu_percent']:.2f} % of a core", 1, idle["cpu_percent"], "%"),
        ("idle server, memory", f"{idle['pss_mb']:.1f} MB", 90, idle["pss_mb"], "MB"),
    ]
    lines = [f"| {report['sessions']:,} sessions, {LIVE} live | | goal |", "|---|---:|---|"]
    for title, found, goal, value, unit in rows:
        lines.append(f"| {title} | {found} | ≤ {goal} {unit}: {'met' if value <= goal else 'missed'} |")
    return lines


def render(report: dict[str, Any]) -> str:
    idle, write, death = report["idle"], report["write_ms"], report["death_ms"]
    return "\n".join(
        [
            f"{report['sessions']} sessions on disk, {LIVE} of them live",
            f"idle server     {idle['cpu_percent']:6.2f} % of a core   {idle['pss_mb']:6.1f} MB      (goals 1 %, 90 MB)",
            f"write -> event  p50 {write['p50']:6.1f} ms   p99 {write['p99']:6.1f} ms      (goal p99 150 ms)",
            f"death -> event  p50 {death['p50']:6.1f} ms   p99 {death['p99']:6.1f} ms      (goal p99 50 ms)",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
