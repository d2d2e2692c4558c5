"""A claim for a process's life: the file follows the process from session to session, strictly in order."""

import os

from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.record import Refusal
from corral.sidecar.writing import clear, write

_NOTHING_OF_OURS = ("not-ours", "unsupported", "not-a-regular-file", "malformed")
"""What lies there is another's: our own file is gone already."""


class Claim:
    """What one process says it serves. No method raises for what the disk or another process does: each
    returns the problem, or None, and `problem` keeps the last one."""

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
        self._session_dir: str | None = os.fspath(session_dir)
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

        Calls from several threads run one after the other, each to its end; the last one decides.
        """
        with self._lock:
            new_dir = os.fspath(session_dir)
            if self._session_dir is not None:
                self._left.add(self._session_dir)
            self._left.discard(new_dir)
            self._session_dir, self._session_id = new_dir, session_id
            self._work_dir = self._work_dir if work_dir is None else work_dir
            left = self._clear_left()
            self.problem = self._write() or left
            return self.problem

    def refresh(self) -> Refusal | None:
        """Write the file again: at any event of the session. Takes it over once its other holder is dead."""
        with self._lock:
            left = self._clear_left()
            self.problem = self._write() or left
            return self.problem

    def release(self, *, remove: bool = False) -> Refusal | None:
        """The claim ends. The file stays, as the protocol says, unless `remove` is true."""
        with self._lock:
            if remove and self._session_dir is not None:
                self._left.add(self._session_dir)
            self._session_dir = None
            self.problem = self._clear_left()
            return self.problem

    def _write(self) -> Refusal | None:
        if self._session_dir is None:
            return Refusal("released", "This claim was released.")
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
