"""Keeping the ledger up to date: what has changed since the last time is found here, and only that is read.

An unchanged answer rests on versions, variables, configuration, prices, the day, and how every file and directory
looked. All of that is kept in `memo`.
"""

from __future__ import annotations

import os
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from corral.machine.places import config_dir, data_dir
from corral.machine.stamps import FIELDS, Group, read_stamps, to_stamp
from corral.machine.visits import Visits, sum_names
from corral.prices import TABLE
from corral.usage.ledger import FINGERPRINT, Ledger
from corral.version import __version__

if TYPE_CHECKING:
    from corral.usage.read import OnProgress

VARIABLES, DECIDERS = "variables", "deciders"
"""What decides where homes are: names of environment variables; files and directories."""
MARGIN_S = 86_400.0
"""Clocks differ: how much later than its file's own time a record may be."""


def update_ledger(
    ledger: Ledger, on_progress: OnProgress | None = None, *, seconds: float | None = None, since: float | None = None
) -> bool:
    """Read everything that was appended since the last time. Safe beside others that do the same.

    With `seconds`, only as much as can be read in about that time: False when something is left for the next time.
    With `since` (epoch seconds), logs that hold nothing from then on may wait (see `scan`).
    """
    if ledger.read_only:
        return False
    # Files that were last modified before this hold nothing from `since` on.
    cutoff = None if since is None else int((since - MARGIN_S) * 1e9)
    changes = look_for_changes(ledger)
    if changes is not None and not changes.files and not ledger.needs_deferred(cutoff):
        return True
    from corral.usage.scan import read_all, read_grown

    if changes is not None and read_grown(ledger, changes, cutoff, on_progress, seconds):
        return True
    return read_all(ledger, on_progress, seconds, cutoff)


def look_for_changes(ledger: Ledger) -> Changes | None:
    """Which files are to be read; None when everything has to be listed."""
    fingerprint = ledger.find_memo(FINGERPRINT)
    if fingerprint is None:
        return None
    known = [(ledger.find_memo(name) or b"").decode(errors="surrogateescape") for name in (VARIABLES, DECIDERS)]
    now = make_fingerprint(*(text.split("\0") if text else [] for text in known))
    if now.encode(errors="surrogateescape") != fingerprint or not ledger.is_priced_by(price_stamp()):
        return None
    watch = load_watch(ledger)
    return None if watch is None else find_changes(watch)


def price_stamp() -> str:
    """Equal as long as every price is: the tables and the configuration are the same files."""
    paths = (TABLE, os.path.join(data_dir(), "prices.json"), os.path.join(config_dir(), "config.toml"))
    return "\0".join((__version__, *map(_stamp, paths)))


def make_fingerprint(variables: Sequence[str], deciders: Sequence[str]) -> str:
    """Equal as long as prices are, and whatever decides where homes are; for a day at most."""
    values = [f"{name}={os.environ.get(name)}" for name in variables]
    # A relative path in a variable means another place in another directory.
    here = os.getcwd() if any(os.environ.get(name, "/")[:1] not in ("/", "~") for name in variables) else ""
    # Listing everything once a day finds what no directory's time could show.
    today = str(int(time.time()) // 86_400)
    return "\0".join(
        (price_stamp(), os.path.expanduser("~"), here, today, *values, *(f"{path}:{_stamp(path)}" for path in deciders))
    )


def _stamp(path: str) -> str:
    """Of a directory only that it is one: what is in it is watched on its own."""
    try:
        seen = os.stat(path)
    except OSError:
        return "-"
    if os.path.isdir(path):
        return f"{seen.st_dev}:{seen.st_ino}"
    return f"{seen.st_dev}:{seen.st_ino}:{seen.st_size}:{seen.st_mtime_ns}"


_NAMES, _STAMPS, _SUMS = "watch.names", "watch.stamps", "watch.sums"
_FILE = -1
"""Stands for a file where a directory has the checksum of its names."""
_TIED = 1 << 40
"""Added to the checksum of the names beside a file: they are compared when the file has changed."""
_UNSURE = (-2,) * FIELDS
"""Equal to no file: it is checked again the next time."""
_GROUP_NAMES = 500
"""So that two processes can share the looking."""
_FINE_NS, _COARSE_NS = 50_000_000, 2_000_000_000
"""A time this near to the listing may hide a later change; where times are whole seconds, more is needed."""


class Watch(NamedTuple):
    """Names below directories; for each its numbers (see stamps), and a checksum of the names in it."""

    groups: list[Group]
    stamps: list[bytes]
    sums: list[bytes]


class Changes(NamedTuple):
    """What is not as it was: files to read, and the watch as it is now."""

    files: list[str]
    watch: Watch


def find_changes(watch: Watch) -> Changes | None:
    """None when names have come or gone: everything has to be listed then."""
    seen = read_stamps(watch.groups, lambda: None)
    if seen == watch.stamps:
        return Changes([], watch)
    files: list[str] = []
    for group, old, new, sums in zip(watch.groups, watch.stamps, seen, watch.sums, strict=True):
        if old != new and not _compare(group, old, new, sums, files):
            return None
    return Changes(files, watch._replace(stamps=seen))


def _compare(group: Group, old: bytes, new: bytes, sums: bytes, files: list[str]) -> bool:
    before, now = memoryview(old).cast("q"), memoryview(new).cast("q")
    for position, (name, known) in enumerate(zip(group.names, memoryview(sums).cast("q"), strict=True)):
        place = slice(position * FIELDS, (position + 1) * FIELDS)
        if before[place] != now[place]:
            path = f"{group.directory.rstrip('/')}/{name}"
            if known == _FILE:
                files.append(path)
            elif known >= _TIED:
                files.append(path)
                if _list_sum(os.path.dirname(path)) != known - _TIED:
                    return False
            elif _list_sum(path) != known:
                return False
    return True


def _list_sum(path: str) -> int:
    try:
        return sum_names(os.listdir(path))
    except OSError:
        return sum_names(())


def make_watch(files: Mapping[str, os.stat_result | None], visits: Visits, begun_ns: int) -> Watch:
    """Of files as they looked before they were read (None: look again), and of what a listing visited.

    `begun_ns` is when the listing began: what changed since then is checked again.
    """
    found: list[tuple[str, tuple[int, ...], int]] = []
    for path, names in visits.directories.items():
        real = os.path.realpath(path) if os.path.islink(path) else path
        found.append((real, _look(real, begun_ns), names))
    for path, seen in files.items():
        beside = visits.tied.get(path)
        stamp = _UNSURE if seen is None else to_stamp(seen)
        found.append((path, stamp, _FILE if beside is None else beside + _TIED))
    groups: dict[str, list[tuple[str, tuple[int, ...], int]]] = {}
    for directory, (path, stamp, names) in zip(_choose_directories([one[0] for one in found]), found, strict=True):
        groups.setdefault(directory, []).append((path[len(directory) :].lstrip("/"), stamp, names))
    parts = [
        (directory, found[begin : begin + _GROUP_NAMES])
        for directory, found in groups.items()
        for begin in range(0, len(found), _GROUP_NAMES)
    ]
    return Watch(
        [Group(directory, [name for name, _, _ in part]) for directory, part in parts],
        [array("q", [number for _, stamp, _ in part for number in stamp]).tobytes() for _, part in parts],
        [array("q", [names for _, _, names in part]).tobytes() for _, part in parts],
    )


def _choose_directories(paths: Sequence[str]) -> Iterator[str]:
    """For each path the directory from which it is checked: two names up where many share that, else four."""
    shared = Counter(_up(path, 2) for path in paths)
    for path in paths:
        near = _up(path, 2)
        yield near if shared[near] >= _GROUP_NAMES // 10 else _up(path, 4)


def _up(path: str, levels: int) -> str:
    parts = path.rsplit("/", levels)
    return parts[0] if len(parts) > levels and parts[0] else os.path.dirname(path)


def _look(path: str, begun_ns: int) -> tuple[int, ...]:
    try:
        seen = os.lstat(path)
    except OSError:
        return (-1,) * FIELDS
    margin = _FINE_NS if seen.st_mtime_ns % 1_000_000_000 else _COARSE_NS
    if max(seen.st_mtime_ns, seen.st_ctime_ns) > begun_ns - margin:
        return _UNSURE
    return to_stamp(seen)


def load_watch(ledger: Ledger) -> Watch | None:
    """What was kept by the last run; None if that can't be used."""
    names, stamps, sums = (ledger.find_memo(name) for name in (_NAMES, _STAMPS, _SUMS))
    if names is None or stamps is None or sums is None:
        return None
    groups: list[Group] = []
    for part in os.fsdecode(names).split("\0\0") if names else ():
        directory, *found = part.split("\0")
        groups.append(Group(directory, found))
    size = 8 * FIELDS
    if len(stamps) != size * sum(len(group.names) for group in groups) or len(stamps) != len(sums) * FIELDS:
        return None
    return Watch(groups, _cut(stamps, groups, size), _cut(sums, groups, 8))


def _cut(packed: bytes, groups: Iterable[Group], size: int) -> list[bytes]:
    parts: list[bytes] = []
    begin = 0
    for group in groups:
        end = begin + len(group.names) * size
        parts.append(packed[begin:end])
        begin = end
    return parts


def to_memos(watch: Watch) -> dict[str, bytes]:
    """As `load_watch` reads it."""
    names = "\0\0".join("\0".join((group.directory, *group.names)) for group in watch.groups)
    return {_NAMES: os.fsencode(names), _STAMPS: b"".join(watch.stamps), _SUMS: b"".join(watch.sums)}


def to_grown_memos(watch: Watch) -> dict[str, bytes]:
    """The same for one with the same names as the one that was kept."""
    return {_STAMPS: b"".join(watch.stamps)}
