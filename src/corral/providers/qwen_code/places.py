"""Qwen's names on disk: project directories, session files, and the working directory of a project."""

from __future__ import annotations

import re

TRANSCRIPT_SUFFIX = ".jsonl"
RUNTIME_SUFFIX = ".runtime.json"
LEDGER_SUFFIX = ".ledger.jsonl"
"""Of a file beside the transcript that the daemon keeps; it is no session."""

# qwen 0.24.4 accepts these as names of transcripts (read in its bundle, 2026-11); it writes lower-case UUIDs.
_SESSION_ID = re.compile(r"(?!-)[0-9a-fA-F-]{32,36}\Z")
_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9]")
_WORKTREES = "/.qwen/worktrees/"


def is_session_id(name: str) -> bool:
    return _SESSION_ID.match(name) is not None


def encode_project(work_dir: str) -> str:
    """The name of the project directory for a working directory. It collides and can't be turned back."""
    # JavaScript replaces UTF-16 units: a character beyond the basic plane becomes two dashes.
    return _NOT_PLAIN.sub(lambda match: "--" if ord(match[0]) > 0xFFFF else "-", work_dir)


def find_resume_dir(work_dir: str, scope: str) -> str | None:
    """The directory in which `qwen --resume` looks into this project; None when the two do not fit.

    A session recorded in one of Qwen's own worktrees is kept by, and resumed from, the repository's root.
    """
    if encode_project(work_dir) == scope:
        return work_dir
    root = work_dir[: work_dir.rfind(_WORKTREES)] if _WORKTREES in work_dir else ""
    return root if root and encode_project(root) == scope else None
