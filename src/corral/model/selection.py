"""Which sessions a question is about. Selecting narrows what is answered; it never decides a state."""

from __future__ import annotations

from msgspec import Struct

from corral.model.key import spoken_id
from corral.model.session import Session
from corral.model.verdict import State

NOTEWORTHY = frozenset({State.LIVE, State.PENDING, State.ELSEWHERE, State.UNKNOWN, State.ORPHANED})
"""What `corral ps` lists without `--all`."""


class Selection(Struct, frozen=True, kw_only=True):
    """All sessions, narrowed by whatever is given."""

    states: frozenset[State] | None = None
    id_prefix: str | None = None
    pid: int | None = None
    under: str | None = None
    """An absolute directory: only sessions that ran in it or below."""
    besides: frozenset[str] = frozenset()
    """Ids that are wanted whatever their state is."""
    deleted: bool = False
    """Also sessions that are not on disk any more and that no process serves, if a claim still names them."""

    @property
    def is_narrow(self) -> bool:
        """About one session: then all its evidence is wanted, also that of processes long gone."""
        return self.id_prefix is not None

    def names(self, session_id: str, *, only: bool) -> bool:
        """Asked for by its name: the whole id, or a prefix that is `only` its own."""
        return bool(self.id_prefix) and (only or self.id_prefix in (session_id, spoken_id(session_id)))

    def covers(self, work_dir: str | None) -> bool:
        """Whether a session that ran there is asked about at all."""
        if self.under is None:
            return True
        return work_dir is not None and (work_dir + "/").startswith(self.under.rstrip("/") + "/")

    def wants_state(self, state: State) -> bool:
        return self.states is None or state in self.states

    def wants(self, state: State, session_id: str) -> bool:
        """Cheap and before anything about the session is answered."""
        if session_id in self.besides:
            return True
        if not self.wants_state(state):
            return False
        if self.id_prefix is None or session_id.startswith(self.id_prefix):
            return True
        return spoken_id(session_id).startswith(self.id_prefix)

    def admits(self, session: Session) -> bool:
        """The rest, on the answered session."""
        return self.pid is None or self.pid in session.pids
