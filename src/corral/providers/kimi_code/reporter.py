"""Part of the hook program: kimi-code as its hook sees it. Standard library only."""

# pathlib, re, json and typing are too slow to import in a hook.

from __future__ import annotations

import os

from corral.providers.kit.caller import find_npm_version, has_terminal, is_node, read_small, read_variable
from corral.providers.kit.reported import (
    bucket_session_dir,
    find_bucket,
    first_existing_dir,
    home_in_force,
    model_in_payload,
    read_by_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.providers.kit.caller import Caller
    from corral.providers.kit.reported import Payload

name = "kimi-code"
# It starts a fork that it does not move to (2.1.0, seen 2026-11).
moves_on_start = False
read = read_by_name
find_work_dir = first_existing_dir
find_model = model_in_payload
session_dir = bucket_session_dir
MAX_INSTANCES = 64
PACKAGE = "@moonshot-ai/kimi-code"
HOME = ("KIMI_CODE_HOME", ".kimi-code")


def recognise(caller: Caller, payload: Payload) -> bool | None:
    # A process title is a courtesy of the CLI; without it, its client_type and the program have to do.
    return caller.comm == "kimi-code" or (payload.get("client_type") is not None and is_node(caller))


def find_home(caller: Caller) -> str:
    return home_in_force(caller, *HOME)


def find_scope(caller: Caller, payload: Payload, home: str) -> str | None:
    """The one bucket that has the session."""
    return find_bucket(home, payload["session_id"])


def find_version(caller: Caller) -> str | None:
    # It hides its command line, but not the variable in which a shell says what it ran.
    script = read_variable(caller, "_")
    return find_npm_version(caller, script, PACKAGE) if script else None


def serves_many(caller: Caller, home: str) -> bool:
    # It overwrites its command line, but its TUI, the one mode that moves from session to session, needs a
    # terminal. `kimi web` may have one too, and registers itself by PID (2.1.0, seen 2026-11).
    return not has_terminal(caller) or _is_server_instance(caller.pid, home)


def _is_server_instance(pid: int, home: str) -> bool:
    directory = os.path.join(home, "server", "instances")
    wanted = str(pid).encode()
    try:
        names = sorted(os.listdir(directory))[:MAX_INSTANCES]
    except OSError:
        return False
    for entry in names:
        head, found, tail = read_small(os.path.join(directory, entry)).partition(b'"pid":')
        if found and head and tail[:24].lstrip().split(b",")[0].split(b"}")[0].strip() == wanted:
            return True
    return False
