"""Where Qwen Code keeps its things: its homes, and the runtime directory of each."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from corral.model.claim import ClaimKind
from corral.model.record import Skipped
from corral.providers.qwen_code import PROVIDER as qwen_code
from tests.providers.evidence import all_claims
from tests.providers.qwen_support import Place, environment
from tests.providers.reading import Memory


def test_the_default_home_is_in_force_without_variables(tmp_path: Path) -> None:
    [home] = qwen_code.homes(environment(tmp_path))
    assert (home.path, home.is_default, home.places) == (str(tmp_path / ".qwen"), True, {})


def test_the_variable_moves_the_home_and_the_default_one_is_still_listed(tmp_path: Path) -> None:
    (tmp_path / ".qwen").mkdir()
    first, second = qwen_code.homes(environment(tmp_path, {"QWEN_HOME": "~/other"}))
    assert (first.path, first.is_default, first.origin) == (str(tmp_path / "other"), False, "QWEN_HOME")
    assert (second.path, second.is_default) == (str(tmp_path / ".qwen"), True)


@pytest.mark.parametrize(
    "line",
    [
        "QWEN_HOME=~/moved",
        'export QWEN_HOME="~/moved"',
        "QWEN_HOME='~/moved' # why",
        "A=1\nQWEN_HOME: ~/moved\n",
        "QWEN_HOME = ~/moved",
    ],
)
@pytest.mark.parametrize("place", [".env", ".qwen/.env"])
def test_an_env_file_moves_the_default_home(tmp_path: Path, line: str, place: str) -> None:
    (tmp_path / ".qwen").mkdir()
    (tmp_path / place).write_text(line)
    first, second = qwen_code.homes(environment(tmp_path))
    assert (first.path, first.is_default, first.origin) == (str(tmp_path / "moved"), True, ".env")
    assert (second.path, second.is_default) == (str(tmp_path / ".qwen"), False)


def test_an_empty_variable_is_neither_a_home_nor_a_reason_to_ask_env_files(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("QWEN_HOME=~/moved")
    assert qwen_code.homes(environment(tmp_path, {"QWEN_HOME": ""}))[0].path == str(tmp_path / ".qwen")


@pytest.mark.parametrize(
    ("settings", "variables", "expected"),
    [
        ('{"advanced": {"runtimeOutputDir": "~/run"}}', {}, "run"),
        ('{ // why\n "advanced": { /* x */ "runtimeOutputDir": "~/run" } }', {}, "run"),
        ('{"url": "http://x//y", "advanced": {"runtimeOutputDir": "~/run"}}', {}, "run"),
        ('{"advanced": {"runtimeOutputDir": "~/run"}}', {"QWEN_RUNTIME_DIR": "~/var"}, "var"),
        ('{"advanced": {"runtimeOutputDir": ""}}', {}, None),
        ('{"advanced": {"runtimeOutputDir": 5}}', {}, None),
        ('{"advanced": ', {}, None),
        ("{}", {"QWEN_RUNTIME_DIR": "~/.qwen"}, None),
    ],
)
def test_where_the_sessions_lie(tmp_path: Path, settings: str, variables: dict[str, str], expected: str | None) -> None:
    (tmp_path / ".qwen").mkdir()
    (tmp_path / ".qwen" / "settings.json").write_text(settings)
    [home] = qwen_code.homes(environment(tmp_path, variables))
    assert home.places == ({"runtime": str(tmp_path / expected)} if expected else {})


def test_sessions_are_read_from_the_runtime_directory_and_the_registry_from_the_home(
    place: Place, tmp_path: Path
) -> None:
    (place.root / "projects").rename(tmp_path / "projects")
    moved = msgspec.structs.replace(place.home, places={"runtime": str(tmp_path)})
    assert len(list(qwen_code.list_sessions(moved, Memory()))) == 6
    assert {claim.kind for claim in all_claims(qwen_code, moved)} == {ClaimKind.REGISTRY, ClaimKind.RUNTIME}


def test_a_relative_runtime_directory_is_told(place: Place) -> None:
    (place.root / "settings.json").write_text('{"advanced": {"runtimeOutputDir": ".qwen-run"}}')
    [told] = place.listing()
    assert isinstance(told, Skipped)
    assert "relative" in told.reason
    assert {claim.kind for claim in place.claims()} == {ClaimKind.REGISTRY}


def test_homes_of_the_config_are_listed_and_each_directory_once(tmp_path: Path) -> None:
    (tmp_path / ".qwen").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / ".qwen")
    homes = qwen_code.homes(environment(tmp_path, extra=(str(tmp_path / "link"), str(tmp_path / "more"))))
    assert [(Path(home.path).name, home.origin) for home in homes] == [
        (".qwen", "default"),
        ("more", "config"),
    ]
