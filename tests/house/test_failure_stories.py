"""docs/failure-stories.md is a checked list: every story is there, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "failure-stories.md").read_text()
STORIES = {f"T{number}" for number in range(1, 53)}
NOT_YET = {"T9", "T11", "T14", "T24", "T25", "T47"}
"""Those of agent CLIs that corral does not know yet."""


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def rows() -> dict[str, str]:
    return dict(re.findall(r"^\| (T\d+) \|(.*)$", TEXT, re.MULTILINE))


def test_every_story_is_there_once():
    found = re.findall(r"^\| (T\d+) \|", TEXT, re.MULTILINE)
    assert sorted(found) == sorted(STORIES)


def test_every_story_names_a_test_or_says_that_it_waits():
    without = {name for name, row in rows().items() if "::" not in row}
    assert without == NOT_YET
    assert {name for name, row in rows().items() if "not yet" in row} == NOT_YET


def test_every_test_that_is_named_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 60
    missing = [f"{path}::{name}" for path, name in named if name not in names_in(ROOT / path)]
    assert missing == []


def test_every_story_that_a_test_claims_to_tell_is_told_here():
    for path in (ROOT / "tests" / "integration" / "stories").glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                told = re.findall(r"T\d+", (ast.get_docstring(node) or "").partition(":")[0])
                assert told, f"{node.name} does not say which story it tells"
                for name in told:
                    assert node.name in rows()[name], f"{name} does not name {node.name}"
