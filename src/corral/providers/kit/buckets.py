"""Walking over a home whose sessions are directories in directories; what can't be listed is told."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from corral.model.record import Skipped


def scan(provider: str, path: str) -> Iterator[os.DirEntry[str] | Skipped]:
    """What is in a directory; nothing where it is missing: a home that was never used."""
    try:
        with os.scandir(path) as entries:
            yield from entries
    except FileNotFoundError:
        return
    except OSError as error:
        yield hidden(provider, path, error)


def hidden(provider: str, path: str, error: OSError) -> Skipped:
    """A directory that may hold any number of sessions."""
    return Skipped(provider=provider, path=path, reason=f"can't be listed: {error.strerror}", hides_sessions=True)


def find_repeated(buckets: Iterable[Iterable[str]]) -> frozenset[str]:
    """The ids that more than one of these has."""
    seen: set[str] = set()
    repeated: set[str] = set()
    for ids in map(set[str], buckets):
        repeated |= seen & ids
        seen |= ids
    return frozenset(repeated)
