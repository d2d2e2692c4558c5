"""A claim for a process's life: the file follows the process from session to session, strictly in order."""

import os

from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.record import Refusal
from corral.sidecar.session_file import clear, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_NOTHING_OF_OURS = ("not-ours", "unsupported", "not-a-regular-file", "malformed")
"""The file there belongs to somebody else: ours is already gone."""

_RELEASED = Refusal("released", "This claim was released: a process that goes on needs a new one.")


class Claim:
    """What one process says it serves. No method raises for what the disk or another process does: each
    returns the problem, or None, and `problem` keeps the last one.

    In a child that was forked, the copy speaks for the child and has nothing of its parent's. A copy of one that was
    made for a named `process` is refused there: two that speak for one process would not know of each other.
    """

    def __init__(
        self,
        session_dir: str | os.PathLike[str],
        *,
        session_id: str,
        work_dir: str,
        cli: str,
        version: str,
        provider: str | None = None,
        process: ProcessIdentity | None = None,
    ) -> None:
        from threading import Lock  # a hook that only writes never pays for it

        self._lock = Lock()
        self._maker = os.getpid()
        self._released = False
        self._file_stays = False
        self._session_dir = os.fspath(session_dir)
        self._left: set[str] = set()
        """Directories of sessions that this process has left and whose file it could not clear yet."""
        self._session_id = session_id
        self._work_dir = work_dir
        self._cli = cli
        self._version = version
        self._provider = provider
        self._process = process
        self.problem: Refusal | None = None
        self.refresh()

    def switch(
        self, session_dir: str | os.PathLike[str], session_id: str, work_dir: str | None = None
    ) -> Refusal | None:
        """This process serves another session now: the old file is cleared, then the new one written.

        Calls from several threads run one after the other, each to its end; the last one decides. After a release
        nothing is written: `released`.
        """
        return self._in_turn(lambda: self._switch(os.fspath(session_dir), session_id, work_dir))

    def refresh(self) -> Refusal | None:
        """Write the file again: at any event of the session. Takes it over once its other holder is dead."""
        return self._in_turn(self._refresh)

    def release(self, *, remove: bool = False) -> Refusal | None:
        """The claim ends, for good. The file stays, as the protocol says, unless `remove` is true.

        A second release only tries again to clear what the first could not.
        """
        return self._in_turn(lambda: self._release(remove))

    def _in_turn(self, act: "Callable[[], Refusal | None]") -> Refusal | None:
        if os.getpid() != self._maker:
            if self._process is not None:
                told = f"This claim was made in process {self._maker}, for a process that it named."
                self.problem = Refusal("forked", told)
                return self.problem
            self._start_in_child()
        with self._lock:
            self.problem = act()
            return self.problem

    def _start_in_child(self) -> None:
        """A thread of the parent may have held the lock while it forked; what the parent left is the parent's."""
        from threading import Lock

        self._lock = Lock()
        self._left = set()
        self._maker = os.getpid()

    def _switch(self, session_dir: str, session_id: str, work_dir: str | None) -> Refusal | None:
        if not self._released:
            self._left.add(self._session_dir)
            self._left.discard(session_dir)
            self._session_dir, self._session_id = session_dir, session_id
            self._work_dir = self._work_dir if work_dir is None else work_dir
        return self._refresh()

    def _refresh(self) -> Refusal | None:
        left = self._clear_left()
        return self._write() or left

    def _release(self, remove: bool) -> Refusal | None:
        if not self._released:
            self._released, self._file_stays = True, not remove
            if remove:
                self._left.add(self._session_dir)
            return self._clear_left()
        return self._clear_left() or (_RELEASED if remove and self._file_stays else None)

    def _write(self) -> Refusal | None:
        if self._released:
            return _RELEASED
        result = write(
            self._session_dir,
            session_id=self._session_id,
            work_dir=self._work_dir,
            cli=self._cli,
            version=self._version,
            provider=self._provider,
            process=self._process,
            best_effort=True,
        )
        return result if isinstance(result, Refusal) else None

    def _clear_left(self) -> Refusal | None:
        """Clear what was left behind; what can't be cleared now is tried again at the next event."""
        problem = None
        for directory in sorted(self._left):
            refusal = clear(directory, process=self._process, best_effort=True)
            if refusal is None or refusal.code in _NOTHING_OF_OURS:
                self._left.discard(directory)
            else:
                problem = refusal
        return problem
