"""Reading on in files that are known to have grown, without listing anything."""

from __future__ import annotations

import os

import msgspec

from corral.engine.account import Tell
from corral.engine.catalogue import find_provider
from corral.engine.pricer import TablePricer
from corral.engine.settings import read_settings
from corral.engine.told_sessions import ToldSessions
from corral.engine.usage_reading import Pending, Reader
from corral.engine.usage_storing import HURRIED_BYTES, finish, read_and_store
from corral.engine.usage_watch import Changes, to_grown_memos
from corral.errors import CorralError
from corral.model.usage import UsageSource
from corral.store.ledger import Ledger
from corral.store.ledger_rows import storable
from corral.system import places

_BEGINNING = 4 << 10
"""Where the beginning of a log may tell its family: one that was shorter may be told from others now."""


def read_grown(ledger: Ledger, changes: Changes, tell: Tell | None, seconds: float | None) -> bool:
    """Read files that are not as they were; False when that is not all there is to do."""
    pending: list[Pending] = []
    for path in changes.files:
        one = _find_known(ledger, path)
        if one is None or (seconds is not None and one.size > HURRIED_BYTES):
            return False
        pending.append(one)
    reader = Reader(TablePricer(read_settings()), ToldSessions(places.state_dir()))
    read_and_store(ledger, reader, pending, tell, None, to_grown_memos(changes.watch))
    finish(ledger)
    return True


def _find_known(ledger: Ledger, path: str) -> Pending | None:
    """A file by what the ledger knows of it; None if it has to be listed: what is told of it may have changed too."""
    known = ledger.find_described(storable(path))
    described, before = known if known is not None else (None, None)
    if described is None or before is None:
        return None
    try:
        source = msgspec.json.decode(described, type=UsageSource)
        provider = find_provider(source.provider)
        size = os.stat(path, follow_symlinks=False).st_size
    except (msgspec.MsgspecError, CorralError, OSError):
        return None
    if source.session_id and source.work_dir is None:
        return None
    if source.family is not None and source.agent is None and before.offset < _BEGINNING:
        return None
    return Pending(provider, source, before, max(0, size - before.offset))
