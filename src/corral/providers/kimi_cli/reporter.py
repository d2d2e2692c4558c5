"""Part of the hook program: kimi-cli as its hook sees it. Standard library only."""

# pathlib, re, json and typing are too slow to import in a hook.

from __future__ import annotations

import os

from corral.providers.kit.caller import find_python_version, has_terminal, read_words
from corral.providers.kit.reported import (
    MAX_MODEL,
    bucket_session_dir,
    candidate_dirs,
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

name = "kimi-cli"
moves_on_start = True
read = read_by_name
session_dir = bucket_session_dir
HOME = ("KIMI_SHARE_DIR", ".kimi")
_WORDS = (b"kimi", b"kimi-cli", b"kimi-legacy", b"kimi_cli")


def recognise(caller: Caller, payload: Payload) -> bool | None:
    # A process title is a courtesy of the CLI; without it the program behind the process has to do. Only
    # kimi-code reports a client_type (2.1.0), and `kimi migrate` copies our hook to it (seen 2026-11).
    if caller.comm == "Kimi Code":
        return True
    if payload.get("client_type") is not None or not (caller.comm.startswith("python") or caller.comm == "kimi"):
        return False
    return any(word.rpartition(b"/")[2] in _WORDS for word in read_words(caller))


def find_home(caller: Caller) -> str:
    return home_in_force(caller, *HOME)


def find_scope(caller: Caller, payload: Payload, home: str) -> str | None:
    """The bucket that has the session. An id can exist in two: that of this very directory goes first."""
    likely = (bucket_of(candidate) for candidate in candidate_dirs(caller, payload))
    return find_bucket(home, payload["session_id"], likely)


def find_work_dir(caller: Caller, payload: Payload, scope: str | None) -> str | None:
    for candidate in candidate_dirs(caller, payload):
        if scope == bucket_of(candidate):
            return candidate
    return first_existing_dir(caller, payload, scope)


def find_model(payload: Payload, home: str) -> tuple[str | None, str | None]:
    model, source = model_in_payload(payload, home)
    if model:
        return model, source
    if model := os.environ.get("KIMI_MODEL_NAME"):
        return model[:MAX_MODEL], "KIMI_MODEL_NAME"
    # kimi-cli 1.51.0 writes its model nowhere: the default at the start of the session is the best there is.
    from corral.sidecar.files import FileBytes, read_regular

    found = read_regular(os.path.realpath(os.path.join(home, "config.toml")), 1 << 20)
    if not isinstance(found, FileBytes) or b"default_model" not in found.data:
        return None, None
    import tomllib

    try:
        model = tomllib.loads(found.data.decode("utf-8")).get("default_model")
    except (ValueError, RecursionError):
        return None, None
    return (model[:MAX_MODEL], "config.toml") if isinstance(model, str) and model else (None, None)


def find_version(caller: Caller) -> str | None:
    return find_python_version(caller, "kimi_cli")


def serves_many(caller: Caller, home: str) -> bool:
    # It overwrites its command line, but its TUI, the one mode that moves from session to session, needs a
    # terminal. Without one it is a one-shot run, which has a single session anyway, or a server.
    return not has_terminal(caller)


def bucket_of(work_dir: str) -> str:
    try:
        from _md5 import md5  # type: ignore  # hashlib loads OpenSSL: several milliseconds
    except ImportError:
        from hashlib import md5
    # Not os.fsencode: kimi 1.51 takes UTF-8 whatever the locale (2026-11).
    path = work_dir.encode("utf-8", "surrogateescape")
    return str(md5(path, usedforsecurity=False).hexdigest())  # type: ignore
