"""What a session is called: the only key anything is joined on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

_ID = re.compile(r"(?!-)(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,128}\Z")


_PREFIXED_UUID = re.compile(r"[a-z]+_(?=[0-9a-f]{8}-[0-9a-f]{4}-)")


class SessionKey(Struct, frozen=True):
    """One session on this machine. `scope` is the provider's own container where ids can repeat in a home."""

    provider: str
    home: str
    scope: str
    session_id: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.session_id}"


class Home(Struct, frozen=True, kw_only=True):
    """A provider's data root in force. Two homes are two worlds."""

    provider: str
    path: str
    is_default: bool
    """True when the provider would choose it with none of its variables set."""
    origin: str
    """How it was found, in words: "default", "KIMI_SHARE_DIR", "config", "pid 4711", "journal"."""
    places: Mapping[str, str] = {}
    """Further directories of the same home, by the provider's own names for them; the root itself is not among them."""


def are_valid_ids(session_ids: Sequence[str]) -> bool:
    """The same for many at once, in a few steps however many there are: a listing asks this of thousands.

    False means that at least one of them has to be asked about alone.
    """
    together = "".join(session_ids)
    if not (together.isascii() and together.replace("-", "0").isalnum()):
        return not session_ids
    return max(map(len, session_ids)) <= 128 and "\n-" not in "\n" + "\n".join(session_ids) and "" not in session_ids


def spoken_id(session_id: str) -> str:
    """The part of an id that distinguishes sessions: `session_5d39…` is spoken as `5d39…`."""
    return _PREFIXED_UUID.sub("", session_id, count=1)


def is_valid_id(session_id: str) -> bool:
    """Ids are keys, not paths: a closed alphabet, no leading dash, never `.` or `..`."""
    return _ID.match(session_id) is not None
