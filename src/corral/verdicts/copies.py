"""Why a line that several sessions hold counts for the one that owns it."""

from __future__ import annotations

from enum import StrEnum


class CopyRule(StrEnum):
    """How the owner of a copied line was found."""

    SAME_SESSION = "same_session"
    PARENT = "parent"
    LEAST_ID = "least_id"

    @property
    def ambiguous(self) -> bool:
        """The provider does not say which of them is the original; the total is exact all the same."""
        return self is CopyRule.LEAST_ID


def decide_rule(line_session_id: str, parent_id: str | None, owner_id: str, *, owner_is_fork: bool) -> CopyRule:
    """The rule by which `owner_id` owns a line that stands in a log of another session too.

    `line_session_id` is the session that the line itself names; `parent_id` the one that the log's session names
    as its origin. A fork of a fork copies lines of an original that it does not name: only two forks whose original
    is gone can't be told apart.
    """
    if owner_id in (line_session_id, parent_id):
        return CopyRule.PARENT
    return CopyRule.PARENT if parent_id is not None and not owner_is_fork else CopyRule.LEAST_ID


def decide_repeat(session_id: str, file_session_id: str) -> CopyRule:
    """Why a line of `session_id` that was seen before counts no more: it stands in a fork's file, or in its own."""
    return CopyRule.PARENT if file_session_id and file_session_id != session_id else CopyRule.SAME_SESSION
