"""How each CLI is started afresh: golden command lines, with nothing that approves or trusts."""

from __future__ import annotations

import hashlib

import pytest

from corral.model.key import Home
from corral.model.restore import Program, Refused, Start
from corral.providers.registry import all_providers, find_provider

ID = "5d3909df-ff7e-4096-9554-5247ee47fb44"
GOLDEN = {
    "kimi-cli": ("/bin/kimi", "-w", "/home/dev/my app", "--session", ID),
    "kimi-code": ("/bin/kimi",),
    "qwen-code": ("/bin/qwen", "--session-id", ID),
}
SCOPES = {
    "kimi-cli": hashlib.md5(b"/home/dev/my app").hexdigest(),
    "qwen-code": "-home-dev-my-app",
}


def start(name: str, session_id: str | None, home: str, *, default: bool = True) -> Start | Refused:
    provider = find_provider(name)
    program = Program(provider=name, path=GOLDEN[name][0], version=None)
    place = Home(provider=name, path=home, is_default=default, origin="default")
    return provider.plan_start("/home/dev/my app", session_id, program, place)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_command_line_is_exactly_this(name, tmp_path):
    plan = start(name, ID, str(tmp_path))
    assert isinstance(plan, Start)
    assert (plan.argv, plan.cwd, plan.env) == (GOLDEN[name], "/home/dev/my app", {})
    if find_provider(name).capabilities.picks_id:
        assert plan.key is not None
        assert (plan.key.session_id, plan.key.scope, plan.key.home) == (ID, SCOPES[name], str(tmp_path))
    else:
        assert plan.key is None


@pytest.mark.parametrize("name", GOLDEN)
def test_without_a_chosen_id_none_is_promised(name, tmp_path):
    plan = start(name, None, str(tmp_path))
    assert isinstance(plan, Start)
    assert plan.key is None
    assert ID not in plan.argv


@pytest.mark.parametrize("name", GOLDEN)
def test_a_home_of_its_own_is_named_by_the_variable(name, tmp_path):
    plan = start(name, ID, str(tmp_path), default=False)
    assert isinstance(plan, Start)
    assert list(plan.env.values()) == [str(tmp_path)]
    assert set(plan.env) <= set(find_provider(name).capabilities.home_variables)


def test_kimi_cli_is_not_started_beside_a_broken_registry(tmp_path):
    (tmp_path / "kimi.json").write_text("{")
    plan = start("kimi-cli", ID, str(tmp_path))
    assert isinstance(plan, Refused)


@pytest.mark.parametrize("provider", all_providers(), ids=lambda provider: provider.name)
def test_every_provider_says_how_it_is_started(provider):
    assert callable(provider.plan_start)
