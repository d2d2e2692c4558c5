"""Short, stable handles of sessions for views: a hash of the key, so that no path or id is needed to name one."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache

from corral.model.key import SessionKey


def session_ref(key: SessionKey) -> str:
    """16 hex digits; the same as long as provider, home, scope and id are."""
    text = "\0".join((key.provider, _real(key.home), key.scope, key.session_id))
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


@lru_cache(maxsize=256)
def _real(home: str) -> str:
    return os.path.realpath(home)
