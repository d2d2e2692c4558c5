"""A claim for a process's life: the file follows the process from session to session, strictly in order."""

import os

from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.record import Refusal
from corral.sidecar.writing import clear, write


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
            left = self._clear() if new_dir != self._session_dir else None
            self._session_dir, self._session_id = new_dir, session_id
            self._work_dir = self._work_dir if work_dir is None else work_dir
            self.problem = self._write() or left
            return self.problem

    def refresh(self) -> Refusal | None:
        """Write the file again: at any event of the session. Takes it over once its other holder is dead."""
        with self._lock:
            self.problem = self._write()
            return self.problem

    def release(self, *, remove: bool = False) -> Refusal | None:
        """The claim ends. The file stays, as the protocol says, unless `remove` is true."""
        with self._lock:
            self.problem = self._clear() if remove else None
            self._session_dir = None
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

    def _clear(self) -> Refusal | None:
        if self._session_dir is None:
            return None
        problem = clear(self._session_dir, process=self._process, best_effort=True)
        # Where the file is another's, nothing of ours was left behind.
        return None if problem is not None and problem.code in ("not-ours", "unsupported") else problem
