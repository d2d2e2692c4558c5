"""Why a line that several sessions hold counts for the one that owns it."""

from __future__ import annotations

from enum import StrEnum


class CopyRule(StrEnum):
    """How the owner of a copied line was found."""

    SAME_SESSION = "same_session"
    PARENT = "parent"
    JOURNAL = "journal"
    LEAST_ID = "least_id"


def decide_rule(
    line_session_id: str, parent_id: str | None, owner_id: str, *, owner_is_told: bool, ambiguous: bool
) -> CopyRule:
    """The rule by which `owner_id` owns a line that stands in a log of another session too.

    `line_session_id` is the session that the line itself names; `parent_id` the one that the log's session names
    as its origin. `owner_is_told`: an agent had reported the owner to our journal before it spent this. A fork of a
    fork names only its parent, and copies lines of the original too; `ambiguous` are copies of equal standing.
    """
    if owner_id in (line_session_id, parent_id):
        return CopyRule.PARENT
    if owner_is_told:
        return CopyRule.JOURNAL
    return CopyRule.PARENT if parent_id is not None and not ambiguous else CopyRule.LEAST_ID


def decide_repeat(session_id: str, file_session_id: str) -> CopyRule:
    """Why a line of `session_id` that was seen before counts no more: it stands in a fork's file, or in its own."""
    return CopyRule.PARENT if file_session_id and file_session_id != session_id else CopyRule.SAME_SESSION
