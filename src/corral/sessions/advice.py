"""What would let corral see the session of a silent agent; only what the person who asks can do."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

from corral.model.process import ProcessMode, Recognised

if TYPE_CHECKING:
    from corral.sessions.trust import Trust


def advise(process: Recognised, trust: Trust | None) -> str:
    """One sentence or command."""
    pid, uid = process.identity.pid, process.uid
    if uid is not None and uid != os.getuid() != 0:
        return f"ask {_name(uid)}, who runs pid {pid}: only that user can say what it has open"
    if process.never_reports:
        return f"quit pid {pid} before you resume: it is a server that does not report what it opens, or may be one"
    standing = trust.reporting.get((process.provider, process.home)) if trust and process.home else None
    if process.home is None and trust is not None:
        standing = next((one for at, one in trust.reporting.items() if at[0] == process.provider), None)
    if standing is None or standing.problem is not None:
        return _advise_hooks(process)
    if not process.shares_mounts:
        return f"quit pid {pid}, or run corral in its container: its hooks can't be seen there"
    why = trust.outdated.get(process.identity) if trust else None
    if why is not None:
        return f"restart pid {pid}, or begin a new session in it: {why}"
    if process.started_at < max(standing.unbroken_since, standing.read_since):
        return f"restart pid {pid}: it started before the hooks were installed, or before their configuration changed"
    if process.mode is ProcessMode.SERVER:
        return f"quit pid {pid} before you resume: this server does not report what it opens"
    return f"restart pid {pid}: it does not report, though the hooks work (has it a configuration of its own?)"


def _advise_hooks(process: Recognised) -> str:
    """Installing helps nobody where the configuration can't be read, is rejected, or switches hooks off."""
    from corral.hooks.status import advise_hooks, read_hook_status

    found = read_hook_status(process.provider, process.home, is_found=True) if process.home is not None else None
    return (advise_hooks(*found) if found else None) or f"corral hooks install {process.provider}"


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
