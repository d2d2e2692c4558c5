"""Which process has which thread loaded, by the locks that Codex holds."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import structs

from corral.machine.processes import Process, ProcessTable
from corral.model.claim import Claim
from corral.model.key import Home, SessionKey
from corral.model.process import ProcessMode
from corral.providers.codex.processes import NAME, is_thread_id, recognise
from corral.providers.codex.rollouts import find_thread_id, read_meta
from corral.providers.kit.lock_claims import list_lock_claims

LOCKS = "thread-writer-locks"
_ENDING = ".lock"


def list_claims(home: Home, table: ProcessTable) -> Iterator[Claim]:
    """Every loaded thread, with its holder. The file alone says nothing: a killed process leaves it."""
    held: dict[int, list[Claim]] = {}
    for claim in _list_held(home, table):
        held.setdefault(claim.pid, []).append(claim)
    for pid, claims in held.items():
        process = table.find(pid)
        front = _find_front(process, [claim.session_id for claim in claims], table) if process is not None else None
        for claim in claims:
            yield structs.replace(claim, foreground=None if front is None else claim.session_id == front)


def _list_held(home: Home, table: ProcessTable) -> Iterator[Claim]:
    directory = os.path.join(home.path, LOCKS)
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        thread_id = name.removesuffix(_ENDING)
        if thread_id == name or not is_thread_id(thread_id):
            continue  # .coordination.lock
        path = os.path.join(directory, name)
        for claim in list_lock_claims(path, SessionKey(NAME, home.path, "", thread_id), table):
            process = table.find(claim.pid)
            # A turn that was left open before this process began is not its own.
            yield structs.replace(claim, many=True, written_at=process.started_at if process is not None else None)


def _find_front(process: Process, thread_ids: list[str], table: ProcessTable) -> str | None:
    """The one that its window shows, where only one of them can be: sub-agents are never shown.

    A thread that was left by /new or /resume stays loaded for 60 s (0.166.0, 2026-11): among several nothing tells.
    """
    found = recognise(process, table)
    if found is None or found.mode is ProcessMode.SERVER:
        return None
    if len(thread_ids) > 1:
        logs = {find_thread_id(os.path.basename(path)): path for _, path in process.descriptors()}
        # One without a log has never been prompted, as a sub-agent is at once.
        metas = {one: read_meta(logs[one]) for one in thread_ids if one in logs}
        thread_ids = [one for one in thread_ids if (meta := metas.get(one)) is None or meta.parent is None]
    return thread_ids[0] if len(thread_ids) == 1 else None
