"""Where kimi-cli keeps things: its homes, and the walk over buckets that listing and claims share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from msgspec import Struct

from corral.model.key import Home, are_valid_ids, is_valid_id
from corral.model.record import Skipped
from corral.providers import Environment
from corral.system.homes import list_homes

NAME = "kimi-cli"
HOME_VARIABLE = "KIMI_SHARE_DIR"

# md5 of the work directory's path; for a directory on another machine (kaos) with its name before it.
_BUCKET = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]*_)?[0-9a-f]{32}\Z")
_LEGACY_SUFFIX = ".jsonl"


def homes(env: Environment) -> tuple[Home, ...]:
    return list_homes(
        NAME,
        default=os.path.join(env.home_dir, ".kimi"),
        variable=HOME_VARIABLE,
        value=env.variables.get(HOME_VARIABLE),
        extra=env.extra_homes.get(NAME, ()),
    )


class Bucket(Struct, frozen=True):
    """The sessions of one work directory, by name only: nothing in them was looked at."""

    name: str
    path: str
    directories: tuple[str, ...]
    legacy: frozenset[str]
    """Ids that have a `<id>.jsonl` beside the directories: what versions before directories wrote."""


def list_buckets(home: str) -> Iterator[Bucket | Skipped]:
    """Every bucket of a home, and everything in their places that is neither bucket nor session."""
    root = f"{home}/sessions"
    for entry in _scan(root):
        if isinstance(entry, Skipped):
            yield entry
        elif not entry.is_dir(follow_symlinks=False):
            yield _skip(entry.path, "a link in the place of a bucket" if entry.is_symlink() else "not a bucket")
        elif _BUCKET.match(entry.name) is None:
            # kimi 1.51: `--session ../x` makes such a directory (2026-11)
            yield _skip(entry.path, "not a bucket: its name is no hash of a directory")
        else:
            yield from _list_bucket(entry.name, entry.path)


def _list_bucket(name: str, path: str) -> Iterator[Bucket | Skipped]:
    directories: list[str] = []
    others: list[os.DirEntry[str]] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
                else:
                    others.append(entry)
    except OSError as error:
        yield _hidden(path, error)
        return
    if not are_valid_ids(directories):
        for odd in [one for one in directories if not is_valid_id(one)]:
            directories.remove(odd)
            yield _skip(f"{path}/{odd}", "a directory whose name is no valid session id")
    legacy: set[str] = set()
    for entry in others:
        if entry.is_symlink():
            yield _skip(entry.path, "a link in the place of a session")
        elif entry.name.endswith(_LEGACY_SUFFIX) and is_valid_id(entry.name.removesuffix(_LEGACY_SUFFIX)):
            legacy.add(entry.name.removesuffix(_LEGACY_SUFFIX))
        else:
            yield _skip(entry.path, "not a session")
    yield Bucket(name, path, tuple(directories), frozenset(legacy))


def _scan(path: str) -> Iterator[os.DirEntry[str] | Skipped]:
    try:
        with os.scandir(path) as entries:
            yield from entries
    except FileNotFoundError:
        return  # a home that was never used
    except OSError as error:
        yield _hidden(path, error)


def _skip(path: str, reason: str) -> Skipped:
    return Skipped(provider=NAME, path=path, reason=reason)


def _hidden(path: str, error: OSError) -> Skipped:
    return Skipped(provider=NAME, path=path, reason=f"can't be listed: {error.strerror}", hides_sessions=True)
