"""The Python in the documents runs as it stands, in a home with one session, and names only what corral exports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import corral

ROOT = Path(__file__).resolve().parents[2]
SESSION = "session_5d3909df-ff7e-4096-9554-5247ee47fb44"
GIVEN = {
    "README.md": "",
    "docs/python-api.md": "",
    "docs/sidecar.md": """
import os
session_dir, session_id, other_dir, other_id = "one", "1", "two", "2"
os.mkdir(session_dir)
os.mkdir(other_dir)
""",
}
SAID = {"docs/python-api.md": f" {SESSION} Not now ("}


def examples_of(document: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S))


def test_every_document_with_python_in_it_is_run():
    documents = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    with_python = {str(path.relative_to(ROOT)) for path in documents if "```python" in path.read_text()}
    assert with_python == GIVEN.keys()


@pytest.mark.parametrize("document", GIVEN)
def test_the_examples_run(document, tmp_path):
    (tmp_path / ".kimi-code" / "sessions" / "wd_app_1" / SESSION).mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", GIVEN[document] + examples_of(document)],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert SAID.get(document, "") in done.stdout


@pytest.mark.parametrize("document", GIVEN)
def test_the_examples_import_from_the_top(document):
    imported = re.findall(r"^(?:from|import) (corral\S*)", examples_of(document), re.M)
    assert imported and set(imported) == {"corral"}


def test_every_attribute_of_a_session_that_the_page_lists_exists():
    table = (ROOT / "docs" / "python-api.md").read_text().partition("## Session\n")[2].partition("\n\nStates")[0]
    listed = {
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    }
    assert listed >= {"key", "state", "restore", "record"}
    assert [name for name in sorted(listed) if not hasattr(corral.Session, name)] == []
