"""The hook program: run by an agent CLI when a session starts or ends, it notes which process serves it."""

# pathlib, re, json and typing are too slow to import in a hook.

from __future__ import annotations

import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.hooks.program.reporter import Reporter
    from corral.providers.kit.caller import Caller
    from corral.providers.kit.reported import Payload

GIVE_UP_SECONDS = 4.0
"""What is given up is lost, and what its process serves unknown. kimi-cli 1.51 itself gives up after 5 s at its end."""
MAX_PAYLOAD_BYTES = 1 << 20


def main(reporters: Sequence[str]) -> None:
    """Never prints, never fails, never stays: whatever happens, the CLI that called us goes on.

    `reporters` are the modules that know one CLI each.
    """
    os.umask(0o077)
    try:
        _thread.start_new_thread(_give_up, ())
    except RuntimeError:
        pass
    try:
        _run(sys.argv[1:], reporters)
    except BaseException:  # noqa: BLE001 - also SystemExit and a KeyboardInterrupt meant for the CLI
        pass
    os._exit(0)


def find_reporter(named: str, modules: Sequence[str], caller: Caller, payload: Payload) -> Reporter | None:
    """The reporter of the CLI that called us; None when it is no CLI that we know.

    `named` is what our command line says. What the process shows outranks it: `kimi migrate` copies kimi-cli's
    hooks into kimi-code's config (kimi-code 2.1.0, seen 2026-11).
    """
    own = f".{named.replace('-', '_')}.reporter"
    may_be: Reporter | None = None
    for module in sorted(modules, key=lambda module: not module.endswith(own)):
        reporter: Reporter = __import__(module, fromlist=["name"])
        answer = reporter.recognise(caller, payload)
        if answer:
            return reporter
        if answer is None and reporter.name == named:
            may_be = reporter
    return may_be


def _give_up() -> None:
    time.sleep(GIVE_UP_SECONDS)
    os._exit(0)


def _run(arguments: list[str], reporters: Sequence[str]) -> None:
    seen_at, boottime, awake = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic()
    named, state_dir = arguments
    if not os.path.isabs(state_dir):
        return
    payload = _read_payload()
    if payload is None:
        return

    from corral.providers.kit.caller import find_caller

    caller = find_caller()
    reporter = find_reporter(named, reporters, caller, payload) if caller else None
    if caller is None or reporter is None:
        return

    from corral.hooks.program.report import Report, note

    event = os.environ.get("CORRAL_HOOK_EVENT")
    note(Report(reporter, caller, payload, state_dir, seen_at, boottime, awake, event))


def _read_payload() -> Payload | None:
    """The JSON object on stdin; None for anything else. An end of file is not waited for."""
    from corral.sidecar.light import loads

    data = b""
    while len(data) <= MAX_PAYLOAD_BYTES:
        part = os.read(0, 1 << 16)
        data += part
        if part and not data.rstrip().endswith(b"}"):
            continue
        try:
            value = loads(data.decode("utf-8"))
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return value  # pyright: ignore[reportUnknownVariableType]
        if not part or value is not None:
            return None
    return None
