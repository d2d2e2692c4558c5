"""What the children of agents prove about their sessions."""

from __future__ import annotations

from collections.abc import Iterable

from corral.model.claim import Claim, ClaimKind
from corral.model.process import Recognised


def child_claims(recognised: Iterable[Recognised]) -> list[Claim]:
    """One for each process that told a child, which still runs, in which session it was started."""
    return [
        Claim(
            kind=ClaimKind.CHILD,
            provider=process.provider,
            home=process.home,
            scope=None,
            session_id=told.session_id,
            path=f"/proc/{told.child_pid}/environ",
            pid=told.parent_pid,
            written_at=told.at,
            boot_id=process.identity.boot_id,
            pid_ns=process.identity.pid_ns,
            start_ticks=process.identity.start_ticks,
            work_dir=process.work_dir,
            version=process.version,
        )
        for process in recognised
        if process.home is not None and (told := process.told) is not None
    ]
