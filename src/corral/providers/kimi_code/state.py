"""state.json of a kimi-code session. kimi-code does not find a session whose state.json it can't read."""

from __future__ import annotations

from msgspec import Struct

from corral.sidecar.files import Unreadable, read_regular
from corral.system.foreign_json import ForeignDecoder

_LARGEST = 4 << 20
_LATEST_MS = 1e14


class _Custom(Struct):
    kimi_cli_session_id: str | None = None


class State(Struct, rename="camel"):
    """What kimi-code says of a session. Times are in milliseconds; the properties give seconds."""

    id: str
    cwd: str
    title: str | None = None
    last_prompt: str | None = None
    archived: bool = False
    forked_from: str | None = None
    created_at: object = None
    updated_at: object = None
    custom: _Custom | None = None

    @property
    def created_seconds(self) -> float | None:
        return seconds(self.created_at)

    @property
    def updated_seconds(self) -> float | None:
        return seconds(self.updated_at)

    @property
    def migrated_from(self) -> str | None:
        """The id of the kimi-cli session that this one was made from."""
        return self.custom.kimi_cli_session_id if self.custom else None


_STATE = ForeignDecoder(State)


def read_state(path: str) -> State | str:
    """The state, or why it is none, in words."""
    content = read_regular(path, _LARGEST)
    if isinstance(content, Unreadable):
        missing = content.code == "io:ENOENT"
        return "state.json is missing" if missing else f"state.json can't be read: {content.reason}"
    state = _STATE.decode(content.data)
    if state is None:
        return "state.json is not what kimi-code writes"
    if not state.cwd.startswith("/") or "\0" in state.cwd or not _is_unicode(state.cwd):
        return "state.json names no absolute directory"
    return state


def seconds(milliseconds: object) -> float | None:
    if not isinstance(milliseconds, int | float) or isinstance(milliseconds, bool):
        return None
    return milliseconds / 1000 if 0 < milliseconds < _LATEST_MS else None


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
