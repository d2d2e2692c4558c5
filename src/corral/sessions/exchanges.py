"""The end of a conversation, read when somebody asks: it is kept nowhere."""

from __future__ import annotations

from collections.abc import Sequence

from corral.errors import CorralError
from corral.model.record import Exchange
from corral.model.session import Session
from corral.providers.asking import Asker
from corral.providers.registry import find_provider


def read_last_exchanges(session: Session, most: int) -> Sequence[Exchange]:
    """The last ones, at most that many, oldest first. Raises CorralError when its provider failed."""
    record = session.record
    if record is None:
        return ()
    provider, asker = find_provider(session.provider), Asker()
    read = provider.transcript.read_last
    found = list(asker.each(provider, "read the last exchanges", lambda: read(record, most)))
    if asker.degraded:
        raise CorralError(f"the conversation of {session.key} could not be read: {asker.degraded[0].reason}")
    return found
