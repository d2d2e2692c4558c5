"""Kills writers at random instants and counts the torn files and temps they leave. Run by the kill tests."""

import json
import os
import random
import select
import signal
import sys
import time

sys.path.insert(0, sys.argv[1])

from corral import sidecar
from corral.sidecar import Refusal, RuntimeRecord


def serve(directory: str, ready: int) -> None:
    """A writer's life: report again and again until it is killed."""
    number = 0
    while True:
        result = sidecar.write(
            directory,
            session_id=f"s{number}",
            work_dir="/w" * 500,
            cli="kimi-cli",
            version="1",
            best_effort=True,
        )
        if number == 0:
            os.write(ready, b"." if isinstance(result, RuntimeRecord) else f"! {result}".encode())
        number += 1


def start(directory: str) -> tuple[int, int]:
    """The PID of a new writer, and the descriptor on which it says that its first write is done."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            serve(directory, writer)
        finally:
            os._exit(3)
    os.close(writer)
    return pid, reader


def list_temps(directory: str) -> list[str]:
    return [name for name in os.listdir(directory) if name != "runtime.json"]


def main(directory: str, rounds: int, seed: int) -> dict[str, object]:
    dice = random.Random(seed)
    path = os.path.join(directory, "runtime.json")
    torn: list[str] = []
    failed: list[str] = []
    reads = left_by_kill = left_after_start = 0
    for _ in range(rounds):
        pid, ready = start(directory)
        deadline = time.monotonic() + dice.uniform(0.0, 0.008)
        started = False
        waits = not os.path.exists(path) or dice.random() < 0.5  # the others die before or in their first write
        while (waits and not started) or time.monotonic() < deadline:
            if not started and select.select([ready], [], [], 0)[0]:
                word = os.read(ready, 400).decode()
                started = True
                if word != ".":
                    failed.append(word)
                left_after_start += sum(f"-{pid}-" not in name for name in list_temps(directory))
                deadline = time.monotonic() + dice.uniform(0.0, 0.006)
            if os.path.exists(path):
                reads += 1
                record = sidecar.read(path)
                if isinstance(record, Refusal):
                    torn.append(str(record))
            time.sleep(0.0005)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        if isinstance(record := sidecar.read(path), Refusal):
            torn.append(str(record))
        left_by_kill += bool(list_temps(directory))
    sidecar.write(directory, session_id="last", work_dir="/w", cli="kimi-cli", version="1")
    return {
        "torn": torn,
        "failed": failed,
        "reads": reads,
        "left_by_kill": left_by_kill,
        "left_after_start": left_after_start,
        "left_at_end": list_temps(directory),
    }


print(json.dumps(main(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
