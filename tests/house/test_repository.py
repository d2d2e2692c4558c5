"""The house rules that a reader would check by hand: every part documented, nothing of one machine in the tree."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from corral.cli.main import COMMANDS, main
from corral.providers.registry import all_providers

ROOT = Path(__file__).resolve().parents[2]


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=60)
    return [ROOT / name.decode() for name in done.stdout.split(b"\0") if name and (ROOT / name.decode()).is_file()]


SOURCES = [path for path in tracked() if path.suffix == ".py"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command):
    assert f"corral {command}" in (ROOT / "docs" / "commands.md").read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert f"corral {command}" in said and "exit codes: " in said
    assert [line for line in said.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("provider", all_providers(), ids=lambda provider: provider.name)
def test_every_provider_has_its_page_its_fixtures_and_its_contract(provider):
    module = provider.name.replace("-", "_")
    assert (ROOT / "docs" / "providers" / f"{provider.name}.md").is_file()
    assert any((ROOT / "tests" / "providers" / "fixtures" / provider.name).iterdir())
    assert (ROOT / "tests" / "contract" / f"test_{module}.py").is_file()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_says_what_it_is_for(path):
    text = path.read_text()
    assert not text.strip() or text.lstrip().startswith(('"""', "#!")), (
        "the first line says in one sentence what the file is for"
    )


def test_nothing_names_a_registry_or_a_place_of_one_machine():
    found: list[str] = []
    forbidden = re.compile(
        r"https?://[^\s\"')]*\.(?:whl|tgz|tar\.gz)|\"resolved\": *\"http|registry *= *\"?http"
        rf"|--(?:extra-)?index-url|/{'root'}/|/{'work'}/main"
    )
    for path in tracked():
        if path == Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if forbidden.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_relative_links_in_the_documents_lead_somewhere():
    broken: list[str] = []
    for path in tracked():
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
            if "://" not in target and not (path.parent / target).exists():
                broken.append(f"{path.relative_to(ROOT)} -> {target}")
    assert broken == []


@pytest.mark.parametrize("provider", all_providers(), ids=lambda provider: provider.name)
def test_every_kind_of_call_that_leaves_no_trace_is_named_in_the_documents(provider):
    page = " ".join((ROOT / "docs" / "usage.md").read_text().split())
    assert [kind for kind in provider.usage.unrecorded_kinds if kind not in page] == []
