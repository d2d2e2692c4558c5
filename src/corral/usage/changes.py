"""What an unchanged answer rests on: versions, variables, configuration, prices, the day, and how every file looked."""

from __future__ import annotations

import os
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from corral.machine.places import config_dir, data_dir
from corral.machine.stamps import FIELDS, Group, read_stamps, to_stamp
from corral.machine.visits import Visits, sum_names
from corral.prices import TABLE
from corral.usage.ledger import Ledger
from corral.version import __version__

CURRENCY, CONFIG_PROBLEM, UNKNOWN_PRICES = "currency", "config problem", "unknown prices"


def price_stamp() -> str:
    """Equal as long as every price is: the tables and the configuration are the same files."""
    paths = (TABLE, os.path.join(data_dir(), "prices.json"), os.path.join(config_dir(), "config.toml"))
    return "\0".join((__version__, *map(_stamp, paths)))


def make_fingerprint(variables: Sequence[str], deciders: Sequence[str]) -> str:
    """`variables` and `deciders` (files and directories) are what decides where homes lie."""
    values = [f"{name}={os.environ.get(name)}" for name in variables]
    # A relative path in a variable means another place in another directory.
    here = os.getcwd() if any(os.environ.get(name, "/")[:1] not in ("/", "~") for name in variables) else ""
    # Listing everything once a day mends what no directory's time could tell.
    today = str(int(time.time()) // 86_400)
    return "\0".join(
        (price_stamp(), os.path.expanduser("~"), here, today, *values, *(f"{path}:{_stamp(path)}" for path in deciders))
    )


def find_currency(ledger: Ledger) -> tuple[str, Decimal]:
    """The currency in which money is shown, and how much of it a dollar is."""
    known = ledger.find_memo(CURRENCY) if not ledger.read_only else None
    if known is not None:
        code, _, rate = known.decode().partition(" ")
        return code, Decimal(rate)
    from corral.providers.settings import read_settings

    currency = read_settings().currency
    return (currency.code, currency.rate) if currency else ("USD", Decimal(1))


def find_unknown_prices(ledger: Ledger) -> dict[str, str]:
    """Models, in lower case, that the configuration prices as one that nobody lists; as which one."""
    kept = ledger.find_memo(UNKNOWN_PRICES)
    if kept is None and not ledger.read_only:  # it is not as it was written
        from corral.providers.settings import read_settings
        from corral.usage.price_table import TablePricer

        return TablePricer(read_settings()).list_unknown()
    if not kept:
        return {}
    import json

    return json.loads(kept)


def may_have_problem(ledger: Ledger) -> bool:
    """False when the configuration is known to be in order."""
    return ledger.read_only or ledger.find_memo(CONFIG_PROBLEM) != b""


def _stamp(path: str) -> str:
    """Of a directory only that it is one: what lies in it is watched on its own."""
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
"""Equal to nothing that can be seen: it is looked at the next time."""
_GROUP_NAMES = 500
"""So that two processes can share the looking."""
_FINE_NS, _COARSE_NS = 50_000_000, 2_000_000_000
"""A time this near to the listing may hide a later change; where times are whole seconds, one needs more."""


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
    """None when names have come or gone, so that only a new listing tells."""
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

    `begun_ns` is when the listing began: what changed since then is looked at again.
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
    """For each path the directory from which it is looked at: two names up where many share that, else four."""
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
    """The same for one that looks at the same names as the one that was kept."""
    return {_STAMPS: b"".join(watch.stamps)}
