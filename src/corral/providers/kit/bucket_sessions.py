"""Sessions that are directories in buckets, one bucket for each work directory: `sessions/<bucket>/<id>/…`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, structs

from corral.machine.stamps import read_stamps
from corral.machine.visits import Visits
from corral.model.key import are_valid_ids, is_valid_id
from corral.model.known import Known
from corral.model.record import Resting, SessionRecord, Skipped
from corral.providers.kit.file_sessions import hide
from corral.providers.kit.stamped import Stamped, list_stamped, make_group

REPEATED = "the same id exists in another bucket: these are two sessions"


class Bucket(Struct, frozen=True):
    """The sessions of one work directory, by name only: nothing in them was looked at."""

    name: str
    path: str
    sessions: tuple[str, ...]
    legacy: frozenset[str] = frozenset()
    """Ids that have a single file beside the directories, as older versions wrote."""


class BucketRules(Struct, frozen=True, kw_only=True):
    """What a CLI calls its buckets and sessions."""

    provider: str
    refuse_bucket: Callable[[str], str | None]
    """Why a directory of this name is not one of its buckets; None when it is one."""
    prefixes: tuple[str, ...] = ("",)
    """Of the directories of its sessions."""
    odd_name: str
    """What is said of a directory that is not a session."""
    legacy_suffix: str | None = None
    """Of the single files of older versions; None where there never were any."""
    passes_dots: bool = False
    """Names that begin with a dot are derived, and passed over."""

    def visit(self, home: str, visits: Visits) -> Iterator[Bucket]:
        """The buckets alone, for whoever looks into every session anyway and notes where."""
        visits.scan_below(f"{home}/sessions")
        return (bucket for bucket in self.list(home) if not isinstance(bucket, Skipped))

    def list(self, home: str) -> Iterator[Bucket | Skipped]:
        """Every bucket of a home, and everything in their places that is neither bucket nor session."""
        try:
            with os.scandir(f"{home}/sessions") as entries:
                yield from self._sort(entries)
        except FileNotFoundError:
            return  # a home that was never used
        except OSError as error:
            yield hide(self.provider, f"{home}/sessions", error)

    def _sort(self, entries: Iterable[os.DirEntry[str]]) -> Iterator[Bucket | Skipped]:
        for entry in entries:
            if self.passes_dots and entry.name.startswith("."):
                continue
            if not entry.is_dir(follow_symlinks=False):
                reason = "a link in the place of a bucket" if entry.is_symlink() else "not a bucket"
                yield self._skip(entry.path, reason)
            elif (reason := self.refuse_bucket(entry.name)) is not None:
                yield self._skip(entry.path, f"not a bucket: {reason}")
            else:
                yield from self._scan_bucket(entry.name, entry.path)

    def _scan_bucket(self, name: str, path: str) -> Iterator[Bucket | Skipped]:
        sessions: list[str] = []
        others: list[os.DirEntry[str]] = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name.startswith(self.prefixes) and entry.is_dir(follow_symlinks=False):
                        sessions.append(entry.name)
                    elif not (self.passes_dots and entry.name.startswith(".")):
                        others.append(entry)
        except OSError as error:
            yield hide(self.provider, path, error)
            return
        if not are_valid_ids([one.replace("_", "0") for one in sessions]):
            for odd in [one for one in sessions if not is_valid_id(one)]:
                sessions.remove(odd)
                yield self._skip(f"{path}/{odd}", self.odd_name)
        legacy: set[str] = set()
        for entry in others:
            session_id = entry.name.removesuffix(self.legacy_suffix) if self.legacy_suffix else entry.name
            if entry.is_symlink():
                yield self._skip(entry.path, "a link in the place of a session")
            elif entry.is_dir(follow_symlinks=False):
                yield self._skip(entry.path, self.odd_name)
            elif session_id != entry.name and is_valid_id(session_id):
                legacy.add(session_id)
            else:
                yield self._skip(entry.path, "not a session")
        yield Bucket(name, path, tuple(sessions), frozenset(legacy))

    def _skip(self, path: str, reason: str) -> Skipped:
        return Skipped(provider=self.provider, path=path, reason=reason)


def _nothing(session_id: str) -> tuple[int, ...]:
    return ()


class BucketReader(Struct, frozen=True, kw_only=True):
    """How the sessions of one bucket are read."""

    read: Callable[[str], SessionRecord]
    outside: object = None
    """All that records depend on beside their files, said in the same words in every run."""
    fingerprint: Callable[[str], tuple[int, ...]] = _nothing
    """The part of it that concerns one session."""
    also: Iterable[SessionRecord | Skipped] = ()
    """Sessions that are no directories, read each time."""


def list_bucket_sessions(
    found: Iterable[Bucket | Skipped],
    files: Sequence[str],
    known: Known,
    read_in: Callable[[Bucket], BucketReader],
) -> Iterator[SessionRecord | Resting | Skipped]:
    """`files` are all that a record rests on. Of an id that several buckets have, each record says so."""
    buckets: list[Bucket] = []
    for one in found:
        if isinstance(one, Skipped):
            yield one
        else:
            buckets.append(one)
    repeated = find_repeated(bucket.legacy.union(bucket.sessions) for bucket in buckets)
    groups = [make_group(bucket.path, bucket.sessions, files) for bucket in buckets]
    for bucket, stamps in zip(buckets, read_stamps(groups, known.load), strict=True):
        yield from _list_in(Stamped(bucket.path, bucket.sessions, files, stamps), known, read_in(bucket), repeated)


def _list_in(
    seen: Stamped, known: Known, reader: BucketReader, repeated: frozenset[str]
) -> Iterator[SessionRecord | Resting | Skipped]:
    def mark(record: SessionRecord) -> SessionRecord:
        is_repeated = record.session_id in repeated
        return structs.replace(record, notes=(REPEATED, *record.notes)) if is_repeated else record

    outside = (sorted(repeated.intersection(seen.ids)), reader.outside)
    yield from list_stamped(
        seen,
        known,
        outside,
        lambda one: (one in repeated, *reader.fingerprint(one)),
        lambda one: mark(reader.read(one)),
    )
    yield from (one if isinstance(one, Skipped) else mark(one) for one in reader.also)


def find_repeated(buckets: Iterable[Iterable[str]]) -> frozenset[str]:
    """The ids that more than one of these has."""
    seen: set[str] = set()
    repeated: set[str] = set()
    for ids in map(set[str], buckets):
        repeated |= seen & ids
        seen |= ids
    return frozenset(repeated)
