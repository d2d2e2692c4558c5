"""docs/messages.md lists every message, and none of the words that people have to read twice."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "messages.md"


def test_the_list_of_messages_is_up_to_date():
    done = subprocess.run([sys.executable, "tools/make_messages.py", "--check"], cwd=ROOT, timeout=60)
    assert done.returncode == 0, "run tools/make_messages.py, and read what it changed in docs/messages.md"


def test_the_tool_names_nothing_that_is_gone():
    tool = runpy.run_path(str(ROOT / "tools" / "make_messages.py"))
    modules = {path.relative_to(tool["SOURCE"]).with_suffix("") for path in tool["SOURCE"].rglob("*.py")}
    assert {Path(name.replace(".", "/")) for name in tool["NO_MESSAGES"]} <= modules
    source = "\n".join(path.read_text() for path in tool["SOURCE"].rglob("*.py"))
    gone = [name for name in tool["ERRORS"] | tool["REFUSALS"] if not re.search(rf"\b(class|def) {name}\b", source)]
    assert gone == []


@pytest.mark.parametrize(
    ("twisted", "plain"),
    [
        (r"(?<![Tt]here) is no (?!longer)[a-z]", "is not a …"),
        (r"to nobody", "corral can't see its session"),
        (r"\bvery (process|same|terminal)", "verified, same"),
        (r"way back", "resume with"),
        (r"\bdeeds?\b", "turns, tool calls"),
        (r"\bfooting\b", "fingerprint"),
        (r"\bmend(ed|s)?\b", "fix"),
        (r"\bseal\b", "checksum"),
        (r"\banew\b", "again"),
        (r"\b(tells?|told) (which|so|by)\b", "reports"),
        (r"\b(lies|stands) (in|beside|before|beyond)\b", "is in"),
    ],
)
def test_no_message_has_to_be_read_twice(twisted, plain):
    found = [line for line in PAGE.read_text().splitlines() if re.search(twisted, line)]
    assert found == [], f"say: {plain}"


ODD = re.compile(
    r"\b(deeds?|footing|shelf|anew|way back|reports to nobody|very (process|terminal)|is no command)\b", re.IGNORECASE
)
"""Words that one has to learn before one can read on; docs/glossary.md has those that are worth it."""
WRITTEN = subprocess.run(
    ["git", "ls-files", "*.md", "Makefile", "src/*.py", "src/*.sql", "tools/*.py", "web/src/*"],
    cwd=ROOT, capture_output=True, check=True, text=True, timeout=60,
).stdout.splitlines()  # fmt: skip
LEFT = {"src/corral/providers/kit/conversations.py", "src/corral/providers/kimi_cli/own_log.py"}
"""Still to be said plainly, a line each."""


@pytest.mark.parametrize("name", [name for name in WRITTEN if name not in LEFT])
def test_no_odd_word_is_back(name):
    found = [line for line in (ROOT / name).read_text().splitlines() if ODD.search(line)]
    assert [line for line in found if not line.startswith("FORMER_TABLES = ")] == [], "a ledger of 0.1.0 has one"
