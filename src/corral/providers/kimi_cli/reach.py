"""What a kimi-cli that says nothing could have open: the sessions of its directory, unless it is a server."""

from __future__ import annotations

import time

from corral.model.process import WHOLE_HOME, OwnLog, Reach
from corral.providers.kimi_cli.own_log import find_log, read_own_log
from corral.system.processes import Process

_START_S = 60.0


def find_reach(process: Process, home: str) -> Reach:
    """Its terminal UI opens sessions of its own work directory only.

    kimi 1.51.0: its list shows those of other directories, and refuses them; `--session` of another directory's id
    makes a new session here (2026-11). `acp` and `web` open any, and need no terminal, or listen. While it starts,
    its directory is the one it was called in, with `-w` another than the session's: there its log has to tell.
    """
    if process.is_on_terminal is not True or process.listens is not False or process.cwd_id is None:
        return WHOLE_HOME
    log = find_log(process)
    own = read_own_log(process, log) if log is not None else OwnLog(path="", pid=process.pid)
    if not own.whole and time.time() - process.started_at < _START_S:
        return WHOLE_HOME
    return Reach(directories=(process.cwd_id,), ids=own.session_ids, renamed=not own.whole)
