"""Where kimi-cli and its homes are found, and what only has its name."""

from __future__ import annotations

import os
from pathlib import Path

from corral.model.restore import Program
from corral.providers.contract import Environment
from corral.providers.kimi_cli import PROVIDER as kimi_cli
from tests.providers.kimi_support import install_npm, install_python


class TestHomes:
    def env(self, home: Path, variables: dict[str, str], *extra: str) -> Environment:
        return Environment(home_dir=str(home), variables=variables, extra_homes={"kimi-cli": extra})

    def test_the_default_home(self, tmp_path: Path) -> None:
        (home,) = kimi_cli.homes(self.env(tmp_path, {}))
        assert (home.path, home.is_default, home.origin) == (f"{tmp_path}/.kimi", True, "default")

    def test_the_variable_comes_first_and_the_default_stays_if_it_exists(self, tmp_path: Path) -> None:
        env = self.env(tmp_path, {"KIMI_SHARE_DIR": f"{tmp_path}/other"})
        assert [home.path for home in kimi_cli.homes(env)] == [f"{tmp_path}/other"]
        (tmp_path / ".kimi").mkdir()
        assert [home.origin for home in kimi_cli.homes(env)] == ["KIMI_SHARE_DIR", "default"]

    def test_one_directory_by_two_names_is_one_home(self, tmp_path: Path) -> None:
        (tmp_path / ".kimi").mkdir()
        (tmp_path / "link").symlink_to(".kimi")
        env = self.env(tmp_path, {"KIMI_SHARE_DIR": f"{tmp_path}/link"}, f"{tmp_path}/.kimi", f"{tmp_path}/more")
        found = kimi_cli.homes(env)
        assert [(home.path, home.is_default) for home in found] == [
            (f"{tmp_path}/link", True),
            (f"{tmp_path}/more", False),
        ]


class TestProgram:
    def env(self, *directories: Path, programs: dict[str, str] | None = None) -> Environment:
        path = os.pathsep.join(str(directory) for directory in directories)
        return Environment(home_dir="/nowhere", variables={"PATH": path}, extra_homes={}, programs=programs or {})

    def test_kimi_cli_is_told_from_kimi_code(self, tmp_path: Path) -> None:
        code = install_npm(tmp_path / "npm", "@moonshot-ai/kimi-code", "2.1.0")
        cli = install_python(tmp_path / "venv", "1.51.0")
        found = kimi_cli.find_program(self.env(code.parent, cli.parent))
        assert found == Program(provider="kimi-cli", path=str(cli), version="1.51.0")
        assert kimi_cli.find_program(self.env(code.parent)) is None

    def test_the_tombstone_is_found_and_has_a_problem(self, tmp_path: Path) -> None:
        dead = install_python(tmp_path / "dead", "1.52.0")
        found = kimi_cli.find_program(self.env(dead.parent))
        assert found is not None
        assert "1.51.0 is the last" in (found.problem or "")

    def test_a_working_one_later_on_path_is_preferred_to_the_tombstone(self, tmp_path: Path) -> None:
        dead = install_python(tmp_path / "dead", "1.52.0")
        kept = install_python(tmp_path / "kept", "1.51.0", command="kimi-legacy")
        found = kimi_cli.find_program(self.env(dead.parent, kept.parent))
        assert found == Program(provider="kimi-cli", path=str(kept), version="1.51.0")

    def test_a_pipx_link_and_a_configured_program(self, tmp_path: Path) -> None:
        script = install_python(tmp_path / "venvs" / "kimi-cli", "1.51.0")
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "kimi").symlink_to(script)
        found = kimi_cli.find_program(self.env(tmp_path / "bin"))
        assert found is not None
        assert (found.path, found.version) == (str(tmp_path / "bin" / "kimi"), "1.51.0")
        chosen = kimi_cli.find_program(self.env(programs={"kimi-cli": str(script)}))
        assert chosen is not None
        assert chosen.path == str(script)

    def test_a_script_of_ones_own_is_passed_over(self, tmp_path: Path) -> None:
        own = tmp_path / "kimi"
        own.write_text('#!/bin/sh\nexec /opt/kimi/bin/kimi "$@"\n')
        own.chmod(0o755)
        assert kimi_cli.find_program(self.env(tmp_path)) is None
