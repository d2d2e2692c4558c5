"""Keeping the ledger: find the files in which providers record usage, read what is new, store it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from zlib import crc32

from msgspec import Struct

from corral.engine.catalogue import all_providers
from corral.engine.gather import environment
from corral.engine.settings import read_settings
from corral.hooks.journal import read_journals
from corral.model.journal import Journal
from corral.model.key import Home
from corral.model.usage import ModelSource, UsageEvent, UsageSource
from corral.providers import Environment, Provider
from corral.sidecar.files import Unreadable, open_regular
from corral.store.cache import Cache
from corral.store.ledger import Ledger, Reading, SourceState
from corral.system import places

_HEAD_BYTES = 1024
_READINGS_AT_ONCE = 200


class Progress(Struct, frozen=True):
    """How far a scan has come, for whoever shows it."""

    done_bytes: int
    total_bytes: int


def update_ledger(ledger: Ledger, tell: Callable[[Progress], None] | None = None) -> None:
    """Read everything that was appended since the last time. Safe beside others that do the same."""
    if ledger.read_only:
        return
    env = environment(read_settings(), Cache(places.cache_dir()))
    known = ledger.source_states()
    pending: list[tuple[Provider, UsageSource, int]] = []
    for provider in all_providers():
        for home in provider.homes(env):
            if os.path.isdir(home.path):
                pending += _find_pending(provider, home, known)
    total = sum(size for _, _, size in pending)
    done = 0
    readings: list[Reading] = []
    models = _Models(env)
    for provider, source, size in pending:
        if reading := _read(provider, source, known.get(source.path), models):
            readings.append(reading)
        done += size
        if len(readings) >= _READINGS_AT_ONCE:
            ledger.store(readings)
            readings = []
        if tell is not None:
            tell(Progress(done, total))
    if readings:
        ledger.store(readings)


def _find_pending(
    provider: Provider, home: Home, known: dict[str, SourceState]
) -> Iterator[tuple[Provider, UsageSource, int]]:
    """The files that are new or not as they were, with the bytes there are to read."""
    for source in provider.list_usage_sources(home):
        try:
            seen = os.stat(source.path, follow_symlinks=False)
        except OSError:
            continue
        before = known.get(source.path)
        if before is None:
            yield provider, source, seen.st_size
        elif (before.device, before.inode, before.size, before.mtime_ns) != (
            seen.st_dev,
            seen.st_ino,
            seen.st_size,
            seen.st_mtime_ns,
        ):
            yield provider, source, max(0, seen.st_size - before.offset)


def _read(provider: Provider, source: UsageSource, before: SourceState | None, models: _Models) -> Reading | None:
    """What is new in one file; from the start when it is not the file it was."""
    fd = open_regular(source.path)
    if isinstance(fd, Unreadable):
        return None
    try:
        seen = os.fstat(fd)
        head = os.pread(fd, _HEAD_BYTES, 0)
        since = 0
        if before is not None and seen.st_size >= before.offset:
            same = crc32(head[: before.head_size]) == before.head and len(head) >= before.head_size
            since = before.offset if same else 0
    except OSError:
        return None
    finally:
        os.close(fd)
    batch = provider.read_usage(source, since)
    state = SourceState(
        seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, crc32(head), len(head), batch.next_offset
    )
    return Reading(source, state, batch, [models.of(provider, source, event) for event in batch.events])


class _Models:
    """The model of events that do not name one: from the journal, else from the config as it is now.

    What is stored stays: a later change of the config prices no history anew.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._journals: dict[str, dict[str, list[tuple[float, str]]]] = {}
        self._configured: dict[tuple[str, str], str | None] = {}

    def of(self, provider: Provider, source: UsageSource, event: UsageEvent) -> tuple[str | None, str]:
        if event.model is not None:
            return event.model, ModelSource.RECORDED
        starts = self._starts(provider.name).get(event.session_id, ())
        told = [model for at, model in starts if at <= event.at]
        if told:
            return told[-1], ModelSource.JOURNAL
        home = (provider.name, source.home)
        if home not in self._configured:
            self._configured[home] = provider.read_default_model(source.home)
        configured = self._configured[home]
        return (configured, ModelSource.CONFIG) if configured else (None, ModelSource.UNKNOWN)

    def _starts(self, provider: str) -> dict[str, list[tuple[float, str]]]:
        if provider not in self._journals:
            found: dict[str, list[tuple[float, str]]] = {}
            for journal in read_journals(places.state_dir(), provider):
                if isinstance(journal, Journal):
                    for event in journal.events:
                        if event.model:
                            found.setdefault(event.session_id, []).append((event.at, event.model))
            for starts in found.values():
                starts.sort()
            self._journals[provider] = found
        return self._journals[provider]
