"""The hook program: run by an agent CLI when a session starts or ends, it notes which process serves it."""

# pathlib is too slow to import in a hook.

import _thread
import os
import sys
import time
from typing import Any, cast

GIVE_UP_SECONDS = 1.0
MAX_PAYLOAD_BYTES = 1 << 20
PROVIDERS = ("kimi-cli", "kimi-code", "qwen-code")
MOVES_ON_START = ("kimi-cli", "qwen-code")
"""A start means that the process has left its other session. Qwen 0.24.4 reports no end when `/resume` leaves
one; kimi-code starts a fork that it does not move to (seen 2026-11)."""


def main() -> None:
    """Never prints, never fails, never stays: whatever happens, the CLI that called us goes on."""
    os.umask(0o077)
    try:
        _thread.start_new_thread(_give_up, ())
    except RuntimeError:
        pass
    try:
        _run(sys.argv[1:])
    except BaseException:  # noqa: BLE001 - also SystemExit and a KeyboardInterrupt meant for the CLI
        pass
    os._exit(0)


def _give_up() -> None:
    time.sleep(GIVE_UP_SECONDS)
    os._exit(0)


def _run(arguments: list[str]) -> None:
    seen_at, boottime = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
    provider, state_dir = arguments
    if provider not in PROVIDERS or not os.path.isabs(state_dir):
        return
    payload = _read_payload()
    if payload is None:
        return

    from corral.hooks.cli_process import find_cli

    process = find_cli(provider, payload.get("client_type"))
    if process is None:
        return

    from corral.hooks.report import Report, note

    note(Report(process, payload, state_dir, seen_at, boottime))


def _read_payload() -> dict[str, Any] | None:
    """The JSON object on stdin; None for anything else. An end of file is not waited for."""
    import json

    data = b""
    while len(data) <= MAX_PAYLOAD_BYTES:
        part = os.read(0, 1 << 16)
        data += part
        if part and not data.rstrip().endswith(b"}"):
            continue
        try:
            value = json.loads(data.decode("utf-8"))
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return cast(dict[str, Any], value)
        if not part or value is not None:
            return None
    return None
