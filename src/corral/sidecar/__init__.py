"""The runtime.json protocol: a small file in a session's directory names the process that serves it.

Standard library only, and light to import: an agent CLI can embed it as it is. See docs/sidecar.md.

    from corral import sidecar

    claim = sidecar.claim(session_dir, session_id=id, work_dir=cwd, cli="mycli", version="1.2")
    claim.switch(other_dir, other_id)        # the process serves another session now
    claim.release()                          # at exit; the file stays, readers verify it
"""

import os

from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.lifetime import Claim
from corral.sidecar.liveness import Verdict
from corral.sidecar.processes import own_identity, read_identity
from corral.sidecar.record import Refusal, RuntimeRecord, is_valid_id
from corral.sidecar.session_file import NAME, SidecarError, SidecarFile, clear, judge_file, read_file, write

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

claim = Claim


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
