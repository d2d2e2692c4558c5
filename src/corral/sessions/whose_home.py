"""Which of our homes a process works in, under whatever path: by device and inode, through its own root."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from msgspec import structs

from corral.machine.process_homes import (
    can_see_root,
    find_in_root,
    identify,
    may_write,
    owns_something,
    shares_our_mounts,
)
from corral.machine.procfs import read_uid
from corral.model.journal import Journal
from corral.model.process import NOTHING, WHOLE_HOME, DirectoryId, Reach, Recognised


def place_process(process: Recognised) -> tuple[Recognised, DirectoryId | None]:
    """The process, and its home as device and inode. Its home is None when it can't be read from here."""
    pid, home = process.identity.pid, process.home
    process = structs.replace(process, uid=read_uid(pid))
    if shares_our_mounts(pid):
        return process, identify(home) if home else None
    if home is None or not can_see_root(pid):
        return structs.replace(process, home=None, shares_mounts=False), None
    return structs.replace(process, shares_mounts=False), find_in_root(pid, home)


def settle_process(process: Recognised, home_id: DirectoryId | None, homes: Mapping[DirectoryId, str]) -> Recognised:
    """The process with its home under the name that we list it by, and with what it may have to do with others."""
    if process.home is None:
        return structs.replace(process, reaches=_suspect(process, homes.values()))
    if home_id is not None and home_id in homes:
        return structs.replace(process, home=homes[home_id])
    if process.shares_mounts:
        return process
    return structs.replace(process, reaches={})  # in a home of its container's own


def settle_journal(journal: Journal, homes: Mapping[DirectoryId, str], boot_id: str | None) -> Journal:
    """The journal with its home under the name that we list it by."""
    # Devices may have other numbers after a reboot; then the path has to do.
    if journal.home_id is None or journal.identity.boot_id != boot_id:
        found = identify(journal.home)
        return structs.replace(journal, home=homes[found]) if found and found in homes else journal
    if (known := homes.get(journal.home_id)) is not None:
        return structs.replace(journal, home=known)
    return structs.replace(journal, home=f"{journal.hostname}:{journal.home}")  # of a container: none of ours


def _suspect(process: Recognised, homes: Iterable[str]) -> dict[str, Reach] | None:
    """The homes that a process of another user, whose own can't be read, may be at work in; None: any, if it is ours.

    Being allowed to write there is not enough: root is, everywhere. Something of that user's must be there, or
    something be written since it began.
    """
    uid = process.uid
    if uid is None or uid == os.getuid():
        return None
    return {
        home: WHOLE_HOME if owns_something(uid, home) else NOTHING
        for home in homes
        if may_write(process.identity.pid, uid, home)
    }
