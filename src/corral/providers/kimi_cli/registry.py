"""kimi.json: the work directories that kimi-cli knows. Resuming in another one destroys the session."""

from __future__ import annotations

import os
from functools import lru_cache

from msgspec import Struct

from corral.providers.kimi_cli.reporter import bucket_of
from corral.sidecar.files import Unreadable, read_regular
from corral.system.foreign_json import ForeignDecoder

LOCAL = "local"

_LARGEST = 16 << 20


class WorkDir(Struct, frozen=True):
    """One work directory as kimi-cli recorded it: absolute, links not resolved."""

    path: str
    kaos: str
    """Where it is: "local", or the name of another machine."""

    @property
    def bucket(self) -> str:
        # kimi 1.51: not salted, no normalisation beyond what is in the file (2026-11)
        digest = bucket_of(self.path)
        return digest if self.kaos == LOCAL else f"{self.kaos}_{digest}"


class Registry(Struct, frozen=True):
    """All of kimi.json that matters here."""

    by_bucket: dict[str, WorkDir]
    problem: str | None = None
    """Why kimi.json could not be read: kimi-cli refuses to start then. A missing file is no problem."""


class _Entry(Struct):
    path: str
    kaos: str = LOCAL


class _Document(Struct):
    work_dirs: list[_Entry] = []


_DOCUMENT = ForeignDecoder(_Document)


def read_registry(home: str) -> Registry:
    """kimi.json as it is now. It is decoded once for as long as the file stays the same."""
    path = f"{home}/kimi.json"
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return Registry({})
    except OSError as error:
        return Registry({}, f"kimi.json can't be read: {error.strerror}")
    return _read(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: str, *_identity: int) -> Registry:
    content = read_regular(os.path.realpath(path), _LARGEST)
    if isinstance(content, Unreadable):
        return Registry({}, f"kimi.json can't be read: {content.reason}")
    document = _DOCUMENT.decode(content.data)
    if document is None:
        return Registry({}, "kimi.json is not what kimi-cli writes")
    found: dict[str, WorkDir] = {}
    for entry in document.work_dirs:
        work_dir = WorkDir(entry.path, entry.kaos)
        if _is_usable(entry.path):
            found.setdefault(work_dir.bucket, work_dir)
    return Registry(found)


def _is_usable(path: str) -> bool:
    return path.startswith("/") and "\0" not in path and not any("\ud800" <= c <= "\udfff" for c in path)
