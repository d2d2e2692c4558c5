"""The runtime.json protocol: a small file in a session's directory names the process that serves it.

Standard library only, and light to import: an agent CLI can embed it as it is. See docs/sidecar.md.

    from corral import sidecar

    claim = sidecar.claim(session_dir, session_id=id, work_dir=cwd, cli="mycli", version="1.2")
    claim.switch(other_dir, other_id)        # the process serves another session now
    claim.release()                          # at exit; the file stays, readers verify it
"""

from __future__ import annotations

import os

from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.liveness import Verdict
from corral.sidecar.processes import own_identity, read_identity
from corral.sidecar.record import Refusal, RuntimeRecord, is_valid_id
from corral.sidecar.session_file import NAME, SidecarFile, judge_file, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sidecar.lifetime import Claim
    from corral.sidecar.lifetime import Claim as claim
    from corral.sidecar.writing import SidecarError, clear, write

__all__ = [
    "NAME",
    "Claim",
    "ProcessIdentity",
    "Refusal",
    "RuntimeRecord",
    "SidecarError",
    "SidecarFile",
    "Verdict",
    "check",
    "claim",
    "clear",
    "is_valid_id",
    "own_identity",
    "read",
    "read_file",
    "read_identity",
    "write",
]

_WRITERS = {
    "Claim": ("lifetime", "Claim"),
    "claim": ("lifetime", "Claim"),
    "SidecarError": ("writing", "SidecarError"),
    "clear": ("writing", "clear"),
    "write": ("writing", "write"),
}
"""What only a writer needs; readers, who are more, don't pay for it."""


def __getattr__(name: str) -> object:
    if name not in _WRITERS:
        raise AttributeError(f"module 'corral.sidecar' has no attribute {name!r}")
    import importlib

    file, attribute = _WRITERS[name]
    found = getattr(importlib.import_module(f"corral.sidecar.{file}"), attribute)
    globals()[name] = found
    return found


def read(path: str | os.PathLike[str]) -> RuntimeRecord | Refusal:
    """The record in a runtime.json, or a named refusal. Never raises, never blocks, never changes the file.

    A record is what somebody once wrote; whether that process still lives is another question: `check`.
    """
    return read_file(os.fspath(path)).record


def check(path: str | os.PathLike[str]) -> Verdict | Refusal:
    """Whether the process that the file names is alive: `live`, `stale`, `remote-host` or `unknown`, and why.

    It knows this file alone. `corral explain` weighs it against everything else that is known.
    """
    return judge_file(os.fspath(path))
