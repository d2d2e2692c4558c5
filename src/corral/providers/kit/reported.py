"""Part of the hook program: what a CLI told our hook, made safe and absolute. Standard library only."""

# pathlib, re, json and typing are too slow to import in a hook.

from __future__ import annotations

import os

from corral.sidecar.light import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from corral.providers.kit.caller import Caller

    Payload = dict[str, Any]
    """The JSON object on the hook's stdin: foreign data, to be read through `text_of`."""

MAX_PATH = 8192
MAX_BUCKETS = 20_000
MAX_MODEL = 256
START, END, SERVES = "start", "end", "serves"


class Told(NamedTuple):
    """What a CLI reports: that a session began in this process, that it ended there, or that it is the one served."""

    kind: str
    session_id: str
    word: str | None = None
    """The CLI's own: of a start how it began, of an end why it ended."""


def read_by_name(payload: Payload, event: str | None) -> Told | None:
    """In the dialect that most CLIs share: `hook_event_name` and `session_id`. Any other event shows what is served."""
    session_id = text_of(payload, "session_id", 128)
    name = text_of(payload, "hook_event_name", 64)
    if session_id is None or name is None:
        return None
    if name == "SessionEnd":
        return Told(END, session_id, text_of(payload, "reason", 64))
    if name == "SessionStart":
        return Told(START, session_id, text_of(payload, "source", 64))
    return Told(SERVES, session_id)


def text_of(payload: Payload, name: str, limit: int) -> str | None:
    """A text of the payload that is fit to be kept; None for anything else."""
    value = payload.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= limit or "\0" in value:
        return None
    return value


def home_in_force(caller: Caller, variable: str, default: str) -> str:
    """The data root that a variable names, else `default` in the person's home directory.

    The variable is our own: a hook inherits the environment of the CLI that runs it.
    """
    chosen = os.environ.get(variable)
    if not chosen:
        return os.path.normpath(os.path.join(os.path.expanduser("~"), default))
    if chosen == "~" or chosen.startswith("~/"):
        chosen = os.path.expanduser(chosen)
    return os.path.normpath(os.path.join(caller.cwd or "/", chosen))


def candidate_dirs(caller: Caller, payload: Payload) -> Iterator[str]:
    """The work directories that the CLI may have meant, absolute, links kept as given, likeliest first."""
    cwd = text_of(payload, "cwd", MAX_PATH)
    if cwd is None:
        return
    if os.path.isabs(cwd):
        yield cwd
        yield os.path.normpath(cwd)
        return
    # `kimi -w link` reports "link" (kimi-cli 1.51.0, seen 2026-11)
    for base in (caller.cwd, os.path.dirname(caller.cwd), os.environ.get("PWD", "")):
        if os.path.isabs(base):
            yield os.path.normpath(os.path.join(base, cwd))


def first_existing_dir(caller: Caller, payload: Payload, scope: str | None) -> str | None:
    """The likeliest work directory that exists; None when it is not known. `scope` does not matter here."""
    return next(filter(os.path.isdir, candidate_dirs(caller, payload)), None)


def model_in_payload(payload: Payload, home: str) -> tuple[str | None, str | None]:
    """The model that the CLI reports itself, and where that was read."""
    model = text_of(payload, "model", MAX_MODEL)
    return model, "payload" if model else None


def find_bucket(home: str, session_id: str, likely: Iterable[str] = ()) -> str | None:
    """The bucket with the directory `sessions/<bucket>/<id>`: a likely one, else the only one; None without it."""
    root = os.path.join(home, "sessions")
    for bucket in likely:
        if is_directory(os.path.join(root, bucket, session_id)):
            return bucket
    try:
        buckets = os.listdir(root)[:MAX_BUCKETS]
    except OSError:
        return None
    matches = [bucket for bucket in buckets if is_directory(os.path.join(root, bucket, session_id))]
    return matches[0] if len(matches) == 1 else None


def bucket_session_dir(home: str, scope: str, session_id: str) -> str | None:
    """Where a CLI with buckets keeps a session."""
    return os.path.join(home, "sessions", scope, session_id)


def is_directory(path: str) -> bool:
    """Whether it is a directory, and no link to one."""
    import stat

    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
