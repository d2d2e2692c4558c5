"""Part of the hook program: Qwen Code as its hook sees it. Standard library only."""

# pathlib, re, json and typing are too slow to import in a hook.

from __future__ import annotations

import os

from corral.providers.kit.caller import find_npm_version, is_node, read_words
from corral.providers.kit.reported import (
    MAX_PATH,
    first_existing_dir,
    home_in_force,
    model_in_payload,
    read_by_name,
    text_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.providers.kit.caller import Caller
    from corral.providers.kit.reported import Payload

name = "qwen-code"
# It reports no end when `/resume` leaves a session (0.24.4, seen 2026-11).
moves_on_start = True
read = read_by_name
PACKAGE = "@qwen-code/qwen-code"
HOME = ("QWEN_HOME", ".qwen")


def recognise(caller: Caller, payload: Payload) -> bool | None:
    if caller.comm == "qwen":
        return True
    return None if is_node(caller) else False


def find_home(caller: Caller) -> str:
    return home_in_force(caller, *HOME)


def find_scope(caller: Caller, payload: Payload, home: str) -> str | None:
    """The project: the transcript is `<project>/chats/<id>.jsonl`, named before it exists (0.24.4, seen 2026-11)."""
    chats, _, file = (text_of(payload, "transcript_path", MAX_PATH) or "").rpartition("/")
    project, _, folder = chats.rpartition("/")
    fits = folder == "chats" and file.startswith(payload["session_id"])
    return os.path.basename(project) or None if fits else None


find_work_dir = first_existing_dir
find_model = model_in_payload


def find_version(caller: Caller) -> str | None:
    # The script is node's first argument that is no option.
    script = next((word for word in read_words(caller)[1:] if word and not word.startswith(b"-")), b"")
    return find_npm_version(caller, os.fsdecode(script), PACKAGE) if script else None


def serves_many(caller: Caller, home: str) -> bool:
    words = read_words(caller)
    return b"--acp" in words or b"--experimental-acp" in words or b"serve" in words[1:4]


def session_dir(home: str, scope: str, session_id: str) -> str | None:
    return None  # it writes its own runtime.json
