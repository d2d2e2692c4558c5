"""Small facts to build verdict tests from: one session record, one judged claim, one recognised process."""

from __future__ import annotations

from corral.model.claim import Claim, ClaimKind
from corral.model.process import ProcessIdentity, Recognised
from corral.model.record import SessionRecord, TurnState
from corral.model.verdict import ClaimVerdict, Liveness

BOOT = "11111111-2222-3333-4444-555555555555"


def identity(pid: int, ticks: int = 1000) -> ProcessIdentity:
    return ProcessIdentity(BOOT, 4026531836, pid, ticks)


def record(**changes: object) -> SessionRecord:
    fields: dict[str, object] = {
        "provider": "kimi-cli",
        "home": "/h/.kimi",
        "scope": "bucket",
        "session_id": "s1",
        "path": "/h/.kimi/sessions/bucket/s1",
        "work_dir": "/src/app",
        "title": "A title",
        "created_at": 1.0,
        "updated_at": 500.0,
        "durable": True,
        "turn": TurnState.ENDED,
    }
    return SessionRecord(**{**fields, **changes})  # pyright: ignore[reportArgumentType]


def claim(pid: int = 10, session_id: str = "s1", **changes: object) -> Claim:
    fields: dict[str, object] = {
        "kind": ClaimKind.JOURNAL,
        "provider": "kimi-cli",
        "home": "/h/.kimi",
        "scope": "bucket",
        "session_id": session_id,
        "path": f"/state/journal/{pid}.json",
        "pid": pid,
        "written_at": 100.0 + pid,
    }
    return Claim(**{**fields, **changes})  # pyright: ignore[reportArgumentType]


def judged(liveness: Liveness, pid: int = 10, *, elsewhere: bool = False, **changes: object) -> ClaimVerdict:
    return ClaimVerdict(
        claim=claim(pid, **changes),  # pyright: ignore[reportArgumentType]
        liveness=liveness,
        rule="rule",
        reason=f"reason of pid {pid}",
        identity=identity(pid) if liveness is Liveness.LIVE else None,
        elsewhere=elsewhere,
    )


def process(
    pid: int, *, group: int | None = None, home: str | None = "/h/.kimi", started_at: float = 50.0
) -> Recognised:
    return Recognised(provider="kimi-cli", identity=identity(pid), started_at=started_at, home=home, group=group or pid)
