"""Which session was forked from which, where each copied record names the session that it was copied from.

Such a copy names no earlier one: of an event that was copied twice, the logs of the two forks name different origins,
and the fork that comes first is right. Which one that is, only the logs between them say.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.model.usage import UsageSource


class Descent:
    """What several sources say together. A later one is believed before an earlier one."""

    def __init__(self, sources: Iterable[UsageSource]) -> None:
        self._parents: dict[str, str] = {}
        for one in sources:
            if one.family is None and one.parent_id is not None:
                self._parents[one.session_id.lower()] = one.parent_id

    def list_before(self, session_id: str) -> list[str]:
        """The sessions that one comes from, the nearest first, as far as known."""
        found: list[str] = []
        name = session_id.lower()
        while (parent := self._parents.get(name)) is not None and parent not in (session_id.lower(), *found):
            found.append(parent)
            name = parent.lower()
        return found
