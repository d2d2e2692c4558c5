"""Where kimi-code keeps things: its homes, and the walk over buckets that listing and claims share."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import Struct

from corral.model.key import Home, are_valid_ids, is_valid_id
from corral.model.record import Skipped
from corral.providers import Environment
from corral.system.homes import list_homes

NAME = "kimi-code"
HOME_VARIABLE = "KIMI_CODE_HOME"

_BUCKET_PREFIX = "wd_"
# The second is what `kimi migrate` makes of a kimi-cli session (2026-11).
_SESSION_PREFIXES = ("session_", "ses_")


def homes(env: Environment) -> tuple[Home, ...]:
    return list_homes(
        NAME,
        default=os.path.join(env.home_dir, ".kimi-code"),
        variable=HOME_VARIABLE,
        value=env.variables.get(HOME_VARIABLE),
        extra=env.extra_homes.get(NAME, ()),
    )


class Bucket(Struct, frozen=True):
    """The sessions of one work directory, by name only: nothing in them was looked at."""

    name: str
    path: str
    sessions: tuple[str, ...]


def list_buckets(home: str) -> Iterator[Bucket | Skipped]:
    """Every bucket of a home, and everything in their places that is neither bucket nor session."""
    for entry in _scan(f"{home}/sessions"):
        if isinstance(entry, Skipped):
            yield entry
        elif entry.name.startswith("."):
            continue  # .index-cache, .index-dirty: derived
        elif not entry.is_dir(follow_symlinks=False):
            yield _skip(entry.path, "a link in the place of a bucket" if entry.is_symlink() else "not a bucket")
        elif not entry.name.startswith(_BUCKET_PREFIX) or not is_valid_id(entry.name):
            yield _skip(entry.path, "not a bucket: its name does not begin with wd_")
        else:
            yield from _list_bucket(entry.name, entry.path)


def _list_bucket(name: str, path: str) -> Iterator[Bucket | Skipped]:
    found: list[str] = []
    odd: list[os.DirEntry[str]] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith(_SESSION_PREFIXES) and entry.is_dir(follow_symlinks=False):
                    found.append(entry.name)
                elif not entry.name.startswith("."):
                    odd.append(entry)
    except OSError as error:
        yield _hidden(path, error)
        return
    for entry in odd:
        if entry.is_symlink():
            yield _skip(entry.path, "a link in the place of a session")
        elif entry.is_dir(follow_symlinks=False):
            yield _skip(entry.path, "a directory whose name is no session id of kimi-code")
        else:
            yield _skip(entry.path, "not a session")
    if not are_valid_ids([one.replace("_", "0") for one in found]):
        for one in [one for one in found if not is_valid_id(one)]:
            found.remove(one)
            yield _skip(f"{path}/{one}", "a directory whose name is no session id of kimi-code")
    yield Bucket(name, path, tuple(found))


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
