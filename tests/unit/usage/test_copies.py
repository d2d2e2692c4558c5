"""Who owns a line that several sessions hold, and by which rule."""

from __future__ import annotations

import pytest

from corral.usage.explain import CopyRule, decide_repeat, decide_rule


@pytest.mark.parametrize(
    ("line", "parent", "owner", "told", "ambiguous", "rule"),
    [
        ("fork", "origin", "origin", False, False, CopyRule.PARENT),  # the fork names its origin
        ("origin", None, "origin", False, False, CopyRule.PARENT),  # the line names it
        ("fork", "other-fork", "origin", False, False, CopyRule.PARENT),  # a fork of a fork
        ("copy", None, "origin", True, False, CopyRule.JOURNAL),  # an agent reported the owner before
        ("fork", "gone", "other-fork", False, True, CopyRule.LEAST_ID),  # two forks, the original is gone
        ("copy", None, "another", False, True, CopyRule.LEAST_ID),  # nobody names anything
    ],
)
def test_a_copy_belongs_to_its_origin_by_a_rule(
    line: str, parent: str | None, owner: str, told: bool, ambiguous: bool, rule: CopyRule
) -> None:
    assert decide_rule(line, parent, owner, owner_is_reported=told, ambiguous=ambiguous) is rule


def test_a_line_that_is_repeated_is_of_its_own_session_or_of_a_fork() -> None:
    assert decide_repeat("s", "s") is CopyRule.SAME_SESSION
    assert decide_repeat("s", "") is CopyRule.SAME_SESSION
    assert decide_repeat("s", "fork") is CopyRule.PARENT
