"""Files that documents, docstrings and comments name exist: a module that moves takes its mentions along."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"(?<![\w./<>*-])(?:[\w.-]+/)*[\w.-]+\.(?:py|svelte|sql|ts)(?![\w/])")
PATH = re.compile(r"`([\w.-]+/[\w./-]*)`")
QUOTED = re.compile(r"`[^`\n]+`")
NOT_OURS = {"corral-hook.py"}
"""What is installed elsewhere."""
MADE = {"src/corral/web/dist", "web/node_modules"}
"""Folders that only a build makes."""


def tracked(*patterns: str) -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, check=True, text=True, timeout=60
    )
    return done.stdout.splitlines()


FILES = [PurePath(name) for name in tracked()]
ENDS = {
    "/".join(path.parts[start:]) for file in FILES for path in (file, *file.parents) for start in range(len(path.parts))
}
"""Each file and folder by every end of its path: documents name them from the room in which they are."""


def is_there(name: str) -> bool:
    name = name.rstrip("/")
    return name in ENDS or f"{name}.py" in ENDS or name in NOT_OURS | MADE


@pytest.mark.parametrize("document", tracked("*.md"))
def test_documents_name_files_that_exist(document):
    text = (ROOT / document).read_text()
    named = {name for quoted in QUOTED.findall(text) for name in FILE.findall(quoted)}
    assert sorted(name for name in named if not is_there(name)) == []


def test_the_guides_name_folders_and_modules_that_exist():
    named = set(PATH.findall((ROOT / "CONTRIBUTING.md").read_text()))
    assert len(named) > 50
    assert sorted(name for name in named if not is_there(name)) == []


@pytest.mark.parametrize("module", tracked("src/*.py", "tools/*.py"))
def test_docstrings_and_comments_name_files_that_exist(module):
    text = (ROOT / module).read_text()
    comments = [
        one.string for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type == tokenize.COMMENT
    ]
    documents = [
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    named = {name for said in (*comments, *documents) for name in FILE.findall(said)}
    assert sorted(name for name in named if not is_there(name)) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cli/ps.py", True),
        ("ps.py", True),
        ("tabs/plan", True),
        ("sidebar/", True),
        ("s.py", False),
        ("cli/gone.py", False),
    ],
)
def test_a_name_is_a_whole_end_of_a_path(name, expected):
    assert is_there(name) is expected
