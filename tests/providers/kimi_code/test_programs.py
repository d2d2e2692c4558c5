"""Where kimi-code and its homes are found, and what only has its name."""

from __future__ import annotations

from pathlib import Path

from corral.model.restore import Program
from corral.providers.contract import Environment
from corral.providers.kimi_code import PROVIDER as kimi_code
from tests.providers.kimi_support import install_npm, install_python


class TestProgram:
    def test_kimi_code_is_told_from_kimi_cli(self, tmp_path: Path) -> None:
        cli = install_python(tmp_path / "venv", "1.52.0")
        code = install_npm(tmp_path / "npm", "@moonshot-ai/kimi-code", "2.1.0")
        path = f"{cli.parent}:{code.parent}"
        env = Environment(home_dir=str(tmp_path), variables={"PATH": path}, extra_homes={})
        found = kimi_code.find_program(env)
        assert found == Program(provider="kimi-code", path=str(code), version="2.1.0")

    def test_homes(self, tmp_path: Path) -> None:
        variables = {"KIMI_CODE_HOME": f"{tmp_path}/code"}
        env = Environment(home_dir=str(tmp_path), variables=variables, extra_homes={})
        assert [(home.path, home.is_default) for home in kimi_code.homes(env)] == [(f"{tmp_path}/code", False)]
