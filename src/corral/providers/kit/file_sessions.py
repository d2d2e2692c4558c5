"""Sessions that are single files in directories: listing those, and reading each again only when it changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from corral.machine.stamps import to_stamp
from corral.machine.visits import Visits
from corral.model.known import Known
from corral.model.record import SessionRecord, Skipped
from corral.providers.kit.stamped import is_settled


def list_entries(path: str, visits: Visits | None = None) -> list[os.DirEntry[str]]:
    """What is in a directory, by name; nothing where there is none. Denied is an OSError: the caller tells it."""
    try:
        with os.scandir(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        found = []
    if visits is not None:
        visits.note(path, [entry.name for entry in found])
    return found


def scan(provider: str, path: str) -> Iterator[os.DirEntry[str] | Skipped]:
    """What is in a directory; nothing where it is missing: a home that was never used."""
    try:
        with os.scandir(path) as entries:
            yield from entries
    except FileNotFoundError:
        return
    except OSError as error:
        yield hide(provider, path, error)


def hide(provider: str, path: str, error: OSError) -> Skipped:
    """A directory that may hold any number of sessions."""
    return Skipped(provider=provider, path=path, reason=f"can't be listed: {error.strerror}", hides_sessions=True)


def read_changed(
    files: Sequence[os.DirEntry[str]],
    provider: str,
    known: Known,
    read: Callable[[os.stat_result], SessionRecord | Skipped],
) -> SessionRecord | Skipped:
    """The record that rests on these files, of which the first is its own; read only if any of them changed."""
    path = files[0].path
    try:
        seen = [entry.stat(follow_symlinks=False) for entry in files]
    except OSError as error:
        return Skipped(provider=provider, path=path, reason=error.strerror or str(error))
    fingerprint = tuple(number for one in seen for number in to_stamp(one))
    if kept := known.find(path, fingerprint):
        return kept
    may_keep = is_settled(fingerprint)
    record = read(seen[0])
    if may_keep and isinstance(record, SessionRecord):
        known.keep(path, fingerprint, record)
    return record
