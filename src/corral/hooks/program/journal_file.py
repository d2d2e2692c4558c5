"""Part of the hook program: the journal of one process on disk: locked, read, extended, kept small, swept."""

# pathlib, re, json and typing are too slow to import in a hook.

from __future__ import annotations

import os

from corral.model.open_sessions import open_sessions
from corral.sidecar.atomic import Directory
from corral.sidecar.files import FileBytes, read_regular
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.light import NamedTuple, cast, dumps, loads

SCHEMA = 1
MAX_BYTES = 8 << 20
MAX_EVENTS = 500
KEPT_EVENTS = 400
LOCK_TRIES = 12
"""Each waits a quarter of a second: agents that start together write one after the other."""
MARK = ".report"
SWEEP_EVERY_SECONDS = 86_400
SWEEP_AGE_SECONDS = 30 * 86_400
MAX_JOURNALS = 2_000

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Fields = dict[str, Any]


class Header(NamedTuple):
    """What does not change while a process lives."""

    provider: str
    identity: ProcessIdentity
    hostname: str
    home: str
    """As the process names it, which may be in a container."""
    home_id: list[int] | None
    """Device and inode of the home: the same wherever it is mounted. None when it can't be read."""


def directory_of(state_dir: str, provider: str) -> str:
    return os.path.join(state_dir, "journal", provider)


def path_of(directory: str, identity: ProcessIdentity) -> str:
    """A PID that is used again gets a file of its own, by its start."""
    return os.path.join(directory, f"{identity.pid}-{identity.start_ticks}.json")


def begin_report(path: str, writer: ProcessIdentity, kind: str, boottime: float) -> str | None:
    """Leave a mark beside a journal, before its lock is waited for; None when not even that can be written.

    It is taken away when the report is in the journal. If it stays, and its writer does not, that report was lost.
    """
    directory, name = os.path.split(path)
    about, by = name.removesuffix(".json"), f"{writer.pid}-{writer.start_ticks}"
    mark = os.path.join(directory, f".{about}.{by}.{kind}.{boottime * 1e6:.0f}{MARK}")
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError:
        return None
    return mark


def end_report(mark: str, *, is_all_told: bool) -> None:
    """The report is in the journal. If it says all that counts now, reports lost before it are not missed any more."""
    directory, own = os.path.split(mark)
    _, about, _, _, at = own.removesuffix(MARK).split(".")
    try:
        for name in os.listdir(directory) if is_all_told else [own]:
            parts = name.removesuffix(MARK).split(".")
            if name.endswith(MARK) and parts[1] == about and int(parts[4]) <= int(at):
                os.unlink(os.path.join(directory, name))
    except (OSError, ValueError, IndexError):
        pass  # another hook has just removed them, or the file is not ours


def open_locked(directory: str) -> Directory | None:
    """The directory, made if need be, and locked against other hooks of that provider; None when that fails.

    The lock goes with the process, so a killed hook blocks nobody.
    """
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        place = Directory(directory)
    except OSError:
        return None
    if any(place.lock() for _ in range(LOCK_TRIES)):
        return place
    place.__exit__()
    return None


def load(path: str, header: Header) -> Fields:
    """The journal of exactly this process, or a new one if there is none that can be read."""
    found = read_regular(path, MAX_BYTES)
    if isinstance(found, FileBytes):
        try:
            fields = loads(found.data.decode("utf-8"))
        except (ValueError, RecursionError):
            fields = None
        if _is_ours(fields, header):
            return cast("Fields", fields)
    return {
        "schema": SCHEMA,
        "provider": header.provider,
        "boot_id": header.identity.boot_id,
        "pid_ns": header.identity.pid_ns,
        "pid": header.identity.pid,
        "start_ticks": header.identity.start_ticks,
        "hostname": header.hostname,
        "home": header.home,
        "home_id": header.home_id,
        "version": None,
        "many": False,
        "events": [],
        "dropped_events": 0,
        "heard": None,
        "runtime_files": [],
    }


def find_left(events: list[Fields], session_id: str) -> float | None:
    """When the process left that session last, in seconds of CLOCK_BOOTTIME; None if it never did."""
    ends = (event["boottime"] for event in events if event["event"] == "end" and event["session_id"] == session_id)
    return max(ends, default=None)


def pairs_of(events: list[Fields]) -> list[tuple[bool, str]]:
    return [(event["event"] == "start", event["session_id"]) for event in events]


def add_event(fields: Fields, event: Fields) -> None:
    """Insert an event by CLOCK_BOOTTIME: hooks that run at the same time get the lock in any order."""
    events: list[Fields] = fields["events"]
    position = len(events)
    while position and events[position - 1]["boottime"] > event["boottime"]:
        position -= 1
    events.insert(position, event)
    if len(events) > MAX_EVENTS:
        _compact(fields)


def encode(fields: Fields) -> bytes:
    return (dumps(fields) + "\n").encode("ascii")


def sweep(directory: str, now: float) -> None:
    """At most once a day: removes journals of dead processes that are old or too many."""
    from corral.providers.kit.caller import read_stat

    marker = os.path.join(directory, ".swept")
    try:
        if now - os.lstat(marker).st_mtime < SWEEP_EVERY_SECONDS:
            return
    except OSError:
        pass
    os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    os.utime(marker, (now, now))
    aged: list[tuple[float, str]] = []
    for name in os.listdir(directory):
        if _numbers(name) is not None or name.endswith(".tmp"):
            aged.append((os.lstat(os.path.join(directory, name)).st_mtime, name))
    aged.sort(reverse=True)
    for rank, (modified_at, name) in enumerate(aged):
        numbers = _numbers(name)
        if numbers is None:
            if now - modified_at > SWEEP_EVERY_SECONDS:  # a temp that a killed hook left behind
                os.unlink(os.path.join(directory, name))
        elif rank >= MAX_JOURNALS or now - modified_at > SWEEP_AGE_SECONDS:
            stat = read_stat(numbers[0])
            if stat is None or stat.start_ticks != numbers[1]:
                os.unlink(os.path.join(directory, name))


def _numbers(name: str) -> tuple[int, int] | None:
    """PID and start ticks in the name of a journal, or of a mark beside it; None for any other file."""
    if name.endswith(MARK):
        name = name[1:].partition(".")[0] + ".json"
    pid, dash, ticks = name.removesuffix(".json").partition("-")
    if not (name.endswith(".json") and dash and pid.isdecimal() and ticks.isdecimal()):
        return None
    return int(pid), int(ticks)


def _is_ours(fields: object, header: Header) -> bool:
    if not isinstance(fields, dict):
        return False
    known = cast("Fields", fields)
    same = ("boot_id", "pid_ns", "pid", "start_ticks")
    if known.get("schema") != SCHEMA or tuple(known.get(name) for name in same) != tuple(header.identity):
        return False
    events = known.get("events")
    if not isinstance(events, list) or not isinstance(known.get("runtime_files"), list):
        return False
    return all(_is_event(event) for event in cast("list[object]", events))


def _is_event(event: object) -> bool:
    if not isinstance(event, dict):
        return False
    known = cast("Fields", event)
    return (
        known.get("event") in ("start", "end")
        and isinstance(known.get("session_id"), str)
        and isinstance(known.get("boottime"), (int, float))
    )


def _compact(fields: Fields) -> None:
    """Drop the oldest events of sessions that have ended; if all are open, the oldest of all."""
    events: list[Fields] = fields["events"]
    open_ids = {events[position]["session_id"] for position in open_sessions(pairs_of(events))}
    surplus = len(events) - KEPT_EVENTS
    kept: list[Fields] = []
    for event in events:
        if surplus > 0 and event["session_id"] not in open_ids:
            surplus -= 1
        else:
            kept.append(event)
    if len(kept) > 2 * MAX_EVENTS:
        kept = kept[-2 * MAX_EVENTS :]
    fields["dropped_events"] = int(fields.get("dropped_events") or 0) + len(events) - len(kept)
    fields["events"] = kept
