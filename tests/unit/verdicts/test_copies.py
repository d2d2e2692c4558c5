"""Who owns a line that several sessions hold, and by which rule."""

from __future__ import annotations

import pytest

from corral.verdicts.copies import CopyRule, decide_repeat, decide_rule


@pytest.mark.parametrize(
    ("line", "parent", "owner", "owner_is_fork", "rule"),
    [
        ("fork", "origin", "origin", False, CopyRule.PARENT),  # the fork names its origin
        ("origin", None, "origin", False, CopyRule.PARENT),  # the line names it
        ("fork", "other-fork", "origin", False, CopyRule.PARENT),  # a fork of a fork
        ("fork", "gone", "other-fork", True, CopyRule.LEAST_ID),  # two forks, the original is gone
        ("copy", None, "another", False, CopyRule.LEAST_ID),  # nobody names anything
    ],
)
def test_a_copy_belongs_to_its_origin_by_a_rule(
    line: str, parent: str | None, owner: str, owner_is_fork: bool, rule: CopyRule
) -> None:
    found = decide_rule(line, parent, owner, owner_is_fork=owner_is_fork)
    assert found is rule
    assert found.ambiguous is (rule is CopyRule.LEAST_ID)


def test_a_line_that_is_repeated_is_of_its_own_session_or_of_a_fork() -> None:
    assert decide_repeat("s", "s") is CopyRule.SAME_SESSION
    assert decide_repeat("s", "") is CopyRule.SAME_SESSION
    assert decide_repeat("s", "fork") is CopyRule.PARENT
