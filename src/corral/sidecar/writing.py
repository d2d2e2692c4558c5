"""Writing and clearing a runtime.json, with a choice for each call: raise the problem, or return it."""

# ruff: noqa: F811 - it knows only typing's own overload

from __future__ import annotations

import os
import time

from corral.sidecar import processes
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.light_typing import overload
from corral.sidecar.record import Refusal, RuntimeRecord, is_valid_cli
from corral.sidecar.session_file import NAME, Holder, find_holder, identify_directory, put, refuse_error, take_away

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal


class SidecarError(Exception):
    """A runtime.json was not written or cleared; `refusal` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.reason} [{refusal.code}]")
        self.refusal = refusal


@overload
def write(
    session_dir: str | os.PathLike[str],
    *,
    session_id: str,
    work_dir: str,
    cli: str,
    version: str,
    provider: str | None = None,
    process: ProcessIdentity | int | None = None,
    reported_by: str | None = None,
    best_effort: Literal[False] = False,
) -> RuntimeRecord: ...
@overload
def write(
    session_dir: str | os.PathLike[str],
    *,
    session_id: str,
    work_dir: str,
    cli: str,
    version: str,
    provider: str | None = None,
    process: ProcessIdentity | int | None = None,
    reported_by: str | None = None,
    best_effort: bool,
) -> RuntimeRecord | Refusal: ...
def write(
    session_dir: str | os.PathLike[str],
    *,
    session_id: str,
    work_dir: str,
    cli: str,
    version: str,
    provider: str | None = None,
    process: ProcessIdentity | int | None = None,
    reported_by: str | None = None,
    best_effort: bool = False,
) -> RuntimeRecord | Refusal:
    """Write `<session_dir>/runtime.json`: this process, or `process`, serves the session from now on.

    The file of another process that is alive, or not proven dead, is left alone (`held:…`). The session
    directory must exist. `cli` names the program: `kimi-cli` gives the field `kimi_cli_version`. Undecodable
    bytes in `work_dir` become U+FFFD. `reported_by` says who writes in the name of the process. With `best_effort`,
    every problem is returned as a Refusal; without, it is raised as SidecarError.
    """
    directory = os.fspath(session_dir)
    result = _write(directory, session_id, work_dir, cli, version, provider, process, reported_by)
    if isinstance(result, Refusal) and not best_effort:
        raise SidecarError(result)
    return result


@overload
def clear(
    path: str | os.PathLike[str],
    *,
    process: ProcessIdentity | int | None = None,
    best_effort: Literal[False] = False,
) -> None: ...
@overload
def clear(
    path: str | os.PathLike[str],
    *,
    process: ProcessIdentity | int | None = None,
    best_effort: bool,
    unverified: bool = False,
) -> Refusal | None: ...
def clear(
    path: str | os.PathLike[str],
    *,
    process: ProcessIdentity | int | None = None,
    best_effort: bool = False,
    unverified: bool = False,
) -> Refusal | None:
    """Remove a runtime.json (or the one in a session directory) that names this process, or `process`.

    Anybody else's file stays: `not-ours`, or the reader's own refusal. A file that is gone already is no
    problem. With `best_effort`, a problem is returned; without, it is raised as SidecarError. `unverified` is a
    person's word that a process which can't be looked at from here (another host, a container) has ended; one
    that is seen to live keeps its file all the same.
    """
    file = os.fspath(path)
    if os.path.isdir(file):
        file = os.path.join(file, NAME)
    refusal = _clear(file, process, unverified)
    if refusal is not None and not best_effort:
        raise SidecarError(refusal)
    return refusal


def _write(
    session_dir: str,
    session_id: str,
    work_dir: str,
    cli: str,
    version: str,
    provider: str | None,
    process: ProcessIdentity | int | None,
    reported_by: str | None,
) -> RuntimeRecord | Refusal:
    if not is_valid_cli(cli):
        return Refusal("invalid:cli", "The name of the CLI must be lower-case letters, digits, '-' and '_'.")
    try:
        holder = find_holder(process)
        if isinstance(holder, Refusal):
            return holder
        identity = holder.identity
        directory_id = identify_directory(session_dir)
        record = RuntimeRecord(
            pid=holder.pid,
            session_id=session_id,
            work_dir=os.fsencode(work_dir).decode("utf-8", "replace"),
            hostname=processes.hostname(),
            started_at=time.time(),
            cli=cli.replace("-", "_"),
            version=version,
            provider=provider,
            boot_id=(identity.boot_id or None) if identity else None,
            start_ticks=identity.start_ticks if identity else None,
            pid_ns=identity.pid_ns if identity else None,
            dir_device=directory_id[0] if directory_id else None,
            dir_inode=directory_id[1] if directory_id else None,
            reported_by=reported_by,
        )
        return put(session_dir, record, holder) or record
    except OSError as error:
        return refuse_error(error, session_dir)
    except ValueError:
        return Refusal("invalid:path", f"{session_dir!r} is not a path.")


def _clear(path: str, process: ProcessIdentity | int | None, unverified: bool) -> Refusal | None:
    holder = find_holder(process)
    if isinstance(holder, Refusal):
        holder = Holder(process if isinstance(process, int) else os.getpid(), None)  # it is gone: see take_away
    try:
        return take_away(path, holder, unverified)
    except FileNotFoundError:
        return None
    except OSError as error:
        return refuse_error(error, path)
    except ValueError:
        return Refusal("invalid:path", f"{path!r} is not a path.")
