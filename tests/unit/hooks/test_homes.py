"""`corral hooks` without --home: every home in force, and the advice that is given works for each."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from corral.cli import hooks
from corral.cli.main import main
from corral.model.hook_install import Outcome


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """The command in a home of its own, with three data roots of kimi-cli: default, variable, config."""
    for name in list(os.environ):
        if name.startswith(("KIMI_", "QWEN_", "CORRAL_", "XDG_")):
            monkeypatch.delenv(name)
    for name in ("state", "data", "config", "cache"):
        monkeypatch.setenv(f"CORRAL_{name.upper()}_DIR", str(tmp_path / "corral" / name))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KIMI_SHARE_DIR", str(tmp_path / "moved"))
    (tmp_path / "corral" / "config").mkdir(parents=True)
    (tmp_path / "corral" / "config" / "config.toml").write_text(
        f'[homes]\nkimi-cli = ["~/more", "{tmp_path}/not there"]\n'
    )
    for name in (".kimi", "moved", "more"):
        (tmp_path / name).mkdir()

    def call(*words: str) -> tuple[int, list[dict]]:
        code = main(["hooks", *words, "--json"])
        shown = json.loads(capsys.readouterr().out)
        return code, shown.get("hooks") or shown.get("results")

    return call


def test_status_covers_every_home_in_force(run, tmp_path):
    code, shown = run("status", "kimi-cli")
    assert (code, [Path(one["home"]).name for one in shown]) == (0, ["moved", ".kimi", "more", "not there"])
    assert [one["home_exists"] for one in shown] == [True, True, True, False]


def test_install_and_uninstall_cover_those_that_exist(run, tmp_path):
    code, done = run("install", "kimi-cli")
    assert (code, {one["outcome"] for one in done}) == (0, {Outcome.INSTALLED})
    configs = [tmp_path / name / "config.toml" for name in ("moved", ".kimi", "more")]
    assert [one["config_path"] for one in done] == [str(config) for config in configs]
    assert all("SessionStart" in config.read_text() for config in configs)
    assert not (tmp_path / "not there").exists()
    assert [one["installed"] for one in run("status", "kimi-cli")[1]] == [True, True, True, False]
    assert {one["outcome"] for one in run("uninstall", "kimi-cli")[1]} == {Outcome.REMOVED}
    assert not any(config.exists() for config in configs)


def test_without_a_provider_all_that_have_a_home_are_meant(run, tmp_path):
    (tmp_path / ".qwen").mkdir()
    done = run("install")[1]
    assert [one["provider"] for one in done] == ["kimi-cli"] * 3 + ["qwen-code"]


def test_a_provider_without_any_home_is_refused_by_name(run):
    code, done = run("install", "qwen-code")
    assert (code, done[0]["outcome"]) == (1, Outcome.REFUSED)
    assert "does not exist" in done[0]["message"]


def test_the_remedy_works_for_the_home_that_it_is_about(run, tmp_path):
    run("install", "kimi-cli")
    (tmp_path / "more" / "config.toml").write_text("a = 1\n")
    (broken,) = [one for one in run("status", "kimi-cli")[1] if one["problems"]]
    assert (broken["home"], broken["remedy"]) == (str(tmp_path / "more"), "corral hooks install kimi-cli")
    assert run(*broken["remedy"].split()[2:])[0] == 0
    assert run("status", "kimi-cli")[0] == 0


def test_the_remedy_names_a_home_that_only_the_person_knows(run, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    run("install", "kimi-cli", "--home", str(other))
    (other / "config.toml").write_text("a = 1\n")
    assert [one["problems"] for one in run("status", "kimi-cli")[1]] == [[]] * 4
    (status,) = run("status", "kimi-cli", "--home", str(other))[1]
    assert status["remedy"] == f"corral hooks install kimi-cli --home {other}"


def test_problems_of_one_of_several_homes_say_which():
    from corral.hooks.status import Status

    def status(home: str, *problems: str) -> Status:
        return Status(
            provider="kimi-cli", home=home, config_path=f"{home}/config.toml", home_exists=True, installed=True,
            installed_at=None, events=(), problems=problems,
        )  # fmt: skip

    assert hooks.render_status([status("/a", "is odd"), status("/b")], 100)[-1] == "kimi-cli in /a: is odd"
    assert hooks.render_status([status("/a", "is odd")], 100)[-1] == "kimi-cli: is odd"
