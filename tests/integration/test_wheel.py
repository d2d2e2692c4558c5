"""The wheel: built by the hook with the page in it, installed into a fresh environment, it does all that a checkout does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

from tests.integration.demo.showing import Person, Showing, assert_all_gone, running_in

ROOT = Path(__file__).resolve().parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
SECONDS = 280


def run(*words: object, **more: object) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=SECONDS, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The Python of an environment with the wheel and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    run(*PIP, "--python", python, "install", "-c", ROOT / "constraints.txt", wheel)
    return python


def test_everything_of_the_package_is_in_it_and_the_page_is_built(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        page = archive.read("corral/web/dist/index.html").decode()
    source = ROOT / "src"
    tracked = run("git", "ls-files", "src", cwd=ROOT).split()
    assert {str((ROOT / one).relative_to(source)) for one in tracked} <= names
    assets = re.findall(r'(?:src|href)="\.?/?(assets/[^"]+)"', page)
    assert assets and {f"corral/web/dist/{one}" for one in assets} <= names
    assert not [name for name in names if "node_modules" in name or name.startswith(("tests/", "web/"))]


def test_it_answers_serves_the_page_and_shows_the_demo(installed, tmp_path):
    person = Person(tmp_path)
    (person.home / ".config" / "corral" / "config.toml").unlink()
    corral = installed.parent / "corral"
    assert run(corral, "--version", env=person.env).startswith("corral ")
    assert json.loads(run(corral, "ps", "--json", env=person.env))["schema"] == 1
    showing = Showing(person, program=str(corral))
    try:
        showing.await_ready()
        named = {"Host": showing.link.partition("//")[2].partition("/")[0]}
        page_request = urllib.request.Request(f"{showing.origin}/", headers=named)
        with urllib.request.urlopen(page_request, timeout=60) as answer:
            page = answer.read().decode()
        (script,) = re.findall(r'<script[^>]* src="\.?/?(assets/[^"]+)"', page)
        script_request = urllib.request.Request(f"{showing.origin}/{script}", headers=named)
        with urllib.request.urlopen(script_request, timeout=60) as answer:
            assert "javascript" in answer.headers["Content-Type"] and len(answer.read()) > 1000
        assert showing.sessions()["Rate limiter"]["state"] == "live"
        running = running_in(showing.place)
        assert showing.stop(15) == 0
        assert_all_gone(showing, running)
    finally:
        showing.end()
