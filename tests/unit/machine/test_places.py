"""Where corral keeps its own files: where the variables say, the same place from every directory."""

from __future__ import annotations

import pytest

from corral.cli.main import main
from corral.errors import CorralError
from corral.machine import places

MOVED = {
    "CORRAL_STATE_DIR": places.state_dir,
    "CORRAL_DATA_DIR": places.data_dir,
    "CORRAL_CACHE_DIR": places.cache_dir,
    "CORRAL_CONFIG_DIR": places.config_dir,
}


@pytest.mark.parametrize("variable", MOVED)
def test_a_variable_moves_its_directory(variable, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, "/elsewhere")
    assert MOVED[variable]() == "/elsewhere"
    monkeypatch.setenv(variable, "")
    assert MOVED[variable]().startswith(str(tmp_path))


@pytest.mark.parametrize("variable", MOVED)
@pytest.mark.parametrize("path", ["state", "./state", "~/state"])
def test_a_relative_path_is_refused_by_name(variable, path, monkeypatch):
    monkeypatch.setenv(variable, path)
    with pytest.raises(CorralError, match=variable):
        MOVED[variable]()


@pytest.mark.parametrize("words", [["ps"], ["hooks", "status"], ["show", "x"], ["config"]])
def test_a_command_with_a_relative_path_is_wrong_usage_and_writes_nothing(words, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CORRAL_STATE_DIR", "state")
    assert main(words) == 2
    assert f"for example CORRAL_STATE_DIR={tmp_path}/state" in capsys.readouterr().err
    assert not (tmp_path / "state").exists()
