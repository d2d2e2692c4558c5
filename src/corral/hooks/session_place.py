"""Part of the hook program: where the CLI keeps a session: home, work directory, container."""

# pathlib is too slow to import in a hook.

import os
from collections.abc import Iterator

HOME_VARIABLES = {"kimi-cli": "KIMI_SHARE_DIR", "kimi-code": "KIMI_CODE_HOME", "qwen-code": "QWEN_HOME"}
DEFAULT_HOMES = {"kimi-cli": ".kimi", "kimi-code": ".kimi-code", "qwen-code": ".qwen"}
MAX_BUCKETS = 20_000


def find_home(provider: str, process_cwd: str) -> str:
    """The data root in force: a hook inherits the environment of the CLI that runs it."""
    chosen = os.environ.get(HOME_VARIABLES[provider])
    if chosen:
        if chosen == "~" or chosen.startswith("~/"):
            chosen = os.path.expanduser(chosen)
        return os.path.normpath(os.path.join(process_cwd or "/", chosen))
    return os.path.normpath(os.path.join(os.path.expanduser("~"), DEFAULT_HOMES[provider]))


def find_work_dir(cwd: str | None, process_cwd: str, scope: str | None) -> str | None:
    """The absolute work directory, links kept as given; None when it cannot be told."""
    candidates = list(_absolute(cwd, process_cwd)) if cwd else []
    for candidate in candidates:
        if scope and scope == _kimi_bucket(candidate):
            return candidate
    return next((candidate for candidate in candidates if os.path.isdir(candidate)), None)


def find_scope(
    provider: str, home: str, session_id: str, cwd: str | None, process_cwd: str, transcript: str | None
) -> str | None:
    """The name of the directory that holds the session, or None when not exactly one can be told."""
    if provider == "qwen-code":
        # Qwen 0.24.4: <project>/chats/<id>.jsonl, given by name before it exists.
        chats, _, name = (transcript or "").rpartition("/")
        project, _, folder = chats.rpartition("/")
        fits = folder == "chats" and name.startswith(session_id)
        return os.path.basename(project) or None if fits else None
    root = os.path.join(home, "sessions")
    if provider == "kimi-cli" and cwd:
        # The same id can exist in two buckets: the bucket of this very directory goes first.
        for candidate in _absolute(cwd, process_cwd):
            bucket = _kimi_bucket(candidate)
            if _is_directory(os.path.join(root, bucket, session_id)):
                return bucket
    matches = [bucket for bucket in _buckets(root) if _is_directory(os.path.join(root, bucket, session_id))]
    return matches[0] if len(matches) == 1 else None


def session_dir(home: str, scope: str, session_id: str) -> str:
    """Where both Kimis keep a session."""
    return os.path.join(home, "sessions", scope, session_id)


def _absolute(cwd: str, process_cwd: str) -> Iterator[str]:
    """What the CLI may have meant, likeliest first. `kimi -w link` reports "link" (1.51.0, seen 2026-11)."""
    if os.path.isabs(cwd):
        yield cwd
        yield os.path.normpath(cwd)
        return
    for base in (process_cwd, os.path.dirname(process_cwd), os.environ.get("PWD", "")):
        if os.path.isabs(base):
            yield os.path.normpath(os.path.join(base, cwd))


def _kimi_bucket(work_dir: str) -> str:
    try:
        from _md5 import md5  # type: ignore  # hashlib loads OpenSSL: several milliseconds
    except ImportError:
        from hashlib import md5
    return str(md5(os.fsencode(work_dir), usedforsecurity=False).hexdigest())  # type: ignore


def _buckets(root: str) -> list[str]:
    try:
        return os.listdir(root)[:MAX_BUCKETS]
    except OSError:
        return []


def _is_directory(path: str) -> bool:
    import stat

    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
