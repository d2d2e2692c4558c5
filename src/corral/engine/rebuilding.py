"""Making the ledger again: from the logs that exist, and from what only an older one knows."""

from __future__ import annotations

import os
import sqlite3
import time

from corral.engine.account import Tell
from corral.store.ledger import Known, Ledger, is_newer
from corral.store.ledger_backup import list_backups
from corral.store.ledger_old import OldLedger, keep_damaged, read_old
from corral.store.ledger_overlay import Loss, add_known, find_losses
from corral.store.locks import take_lock
from corral.system.light_import import import_msgspec

_WAIT_SECONDS = 60.0


def make_again(
    state_dir: str,
    why: str,
    seen: os.stat_result | None,
    *,
    unwritable: str | None = None,
    tell: Tell | None = None,
    asked_for: bool = False,
) -> Ledger:
    """The ledger, made again in place of the file `seen`; one process at a time. Raises OSError or sqlite3.Error.

    The old file stays, under another name. What is in no log any more comes from it and, if it is damaged, from its
    copies: row by row, and only with a right checksum. What is lost is noted in the new one. `asked_for`: it is in
    order, as far as anybody knows.
    """
    import_msgspec()
    path = os.path.join(state_dir, "ledger.db")
    if unwritable is not None:
        return _make(state_dir, why, path, unwritable=unwritable, tell=tell)
    lock = take_lock(state_dir, "ledger.lock", wait_seconds=_WAIT_SECONDS)
    if lock is None:
        raise sqlite3.OperationalError("another corral has been making it again for long")
    try:
        if seen is None or not os.path.samestat(seen, os.stat(path)):
            ledger = Ledger(state_dir, aside=True)
            ledger.notice = f"the ledger could not be used ({why}): another corral has just made it again"
            return ledger
        if is_newer(path):  # what a newer corral made is its own
            raise sqlite3.DatabaseError(why)
        kept = keep_damaged(path)
        return _make(state_dir, why, kept, tell=tell, asked_for=asked_for)
    finally:
        os.close(lock)


def _make(
    state_dir: str, why: str, kept: str, *, unwritable: str | None = None, tell: Tell | None, asked_for: bool = False
) -> Ledger:
    from corral.engine.scan import scan_homes

    old = _read(kept)
    is_early = old is not None and not old.sealed
    copies = [] if old is not None and old.is_complete() else [*filter(None, map(_read, _list_copies(state_dir)))]
    known = [one for one in (old, *copies) if one is not None]
    ledger = Ledger(state_dir, again=True, unwritable=unwritable)
    try:
        ledger.known = _list_known(known)
        scan_homes(ledger, tell, None)
        saved, losses = _add(ledger, old, known, copies, kept)
        ledger.publish()
    except BaseException:
        ledger.close()
        raise
    place = f"the old one is {kept}"
    if asked_for:
        ledger.notice = f"the ledger was made again from the logs; {place}"
    elif is_early:
        ledger.notice = f"the ledger was {why}: it was made again, with all that it knew; {place}"
    else:
        gone = "" if not losses else "; not all of it could be saved"
        ledger.notice = (
            f"the ledger could not be used ({why}): it was made again from the logs, with {saved} rows that only it and"
            f" its copies knew{gone}; {place}"
        )
    return ledger


def _add(
    ledger: Ledger, old: OldLedger | None, known: list[OldLedger], copies: list[OldLedger], kept: str
) -> tuple[int, list[Loss]]:
    """What is in no log; how many rows that were, and what is lost."""
    from corral.engine.pricer import TablePricer
    from corral.engine.settings import read_settings
    from corral.store.former_keys import Families, settle_keys
    from corral.store.ledger_sums import price_all
    from corral.store.price_origins import note_all_origins

    db = ledger.db
    whole = max((copy.modified_at for copy in copies if copy.is_complete()), default=None)
    before = _count(db)
    changes = db.total_changes
    db.execute("BEGIN IMMEDIATE")
    families = Families(db, known)
    for one in known:
        settle_keys(db, one, families)
        add_known(db, one)
    if db.total_changes > changes:
        pricer = TablePricer(read_settings())
        price_all(db, pricer)
        note_all_origins(db, pricer)
    if old is not None:
        losses = list(find_losses(db, old, whole))
    elif os.path.exists(kept):
        losses = [Loss("requests, turns and calls of tools", None, whole, os.stat(kept).st_mtime)]
    else:
        losses = []
    add_loss = "INSERT INTO losses (noticed_at, what, rows, since, until) VALUES (?, ?, ?, ?, ?)"
    db.executemany(add_loss, [(time.time(), *loss) for loss in losses])
    db.execute("COMMIT")
    return _count(db) - before, losses


def _count(db: sqlite3.Connection) -> int:
    counts = "+".join(f"(SELECT count(*) FROM {table})" for table in ("events", "deeds", "unrecorded"))
    return db.execute(f"SELECT {counts}").fetchone()[0]


def _read(path: str) -> OldLedger | None:
    try:
        return read_old(path)
    except (OSError, sqlite3.Error, UnicodeError):
        return None


def _list_copies(state_dir: str) -> list[str]:
    return list_backups(os.path.join(state_dir, "ledger.db"))


def _list_known(known: list[OldLedger]) -> Known:
    """Homes also where only the row of a log names them. What the ledger itself was told is newer than its copies."""
    homes: dict[str, set[str]] = {}
    described: dict[str, str] = {}
    read: dict[str, set[str]] = {}
    for one in known:
        for provider, path in one.homes | one.described_homes:
            homes.setdefault(provider, set()).add(path)
        for path, source in one.sources.items():
            if isinstance(source.row[-1], str):
                described.setdefault(path, source.row[-1])
        for session in one.sessions.values():
            if session.has_log:
                read.setdefault(session.provider, set()).add(session.session_id)
    return Known(homes, described, read)
