"""Every provider taken through the contract, in a home where nothing was ever written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.machine.processes import ProcessTable
from corral.model.key import Home
from corral.model.process import Reach
from corral.model.record import SessionRecord, TurnState
from corral.model.restore import Program, Refused, Resume, Start
from corral.providers.contract import Environment, Provider, no_usage, not_resumed
from corral.providers.registry import all_providers, find_provider
from corral.sessions.cache import KnownRecords

PROVIDERS = pytest.mark.parametrize("provider", all_providers(), ids=lambda provider: provider.name)


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    return Environment(home_dir=str(tmp_path), variables={"PATH": str(tmp_path)}, extra_homes={})


def first_home(provider: Provider, env: Environment) -> Home:
    (home, *_) = provider.homes(env)
    os.makedirs(home.path)
    return home


def record_of(provider: Provider, home: Home) -> SessionRecord:
    return SessionRecord(
        provider=provider.name,
        home=home.path,
        scope="x",
        session_id="5d3909df-ff7e-4096-9554-5247ee47fb44",
        path=f"{home.path}/x",
        work_dir=home.path,
        title=None,
        created_at=None,
        updated_at=None,
        durable=True,
        turn=TurnState.ENDED,
    )


@PROVIDERS
def test_it_is_found_by_its_name(provider):
    assert find_provider(provider.name) is provider


@PROVIDERS
def test_its_default_home_is_the_persons_own(provider, env):
    home = first_home(provider, env)
    assert (home.provider, home.is_default, home.origin) == (provider.name, True, "default")
    assert home.path.startswith(env.home_dir)


@PROVIDERS
def test_nothing_is_found_where_nothing_was_written(provider, env):
    home = first_home(provider, env)
    assert list(provider.list_sessions(home, KnownRecords(provider.name, home.path, list))) == []
    assert list(provider.list_claims(home, ProcessTable())) == []
    assert list(provider.usage.list_sources(home, None)) == []
    assert provider.usage.read_default_model(home.path) is None
    assert provider.find_program(env) is None


@PROVIDERS
def test_a_stranger_is_none_of_its_processes(provider, env):
    table = ProcessTable()
    own = table.find(os.getpid())
    assert own is not None
    assert provider.recognise(own, table) is None
    assert isinstance(provider.find_reach(own, first_home(provider, env).path), Reach)


@PROVIDERS
def test_what_it_says_it_can_do_is_what_it_has(provider):
    support, capabilities = provider.support, provider.capabilities
    assert capabilities.restore in ("resume", "none")
    assert support.resumes == (provider.plan_resume is not not_resumed)
    assert support.counts == (provider.usage is not no_usage)
    assert support.knows_live or not capabilities.needs_hooks
    assert ("hooks" in capabilities.identified_by) == (provider.hooks() is not None)
    assert capabilities.program in (provider.programs.commands if provider.programs else (capabilities.program,))


@PROVIDERS
def test_it_plans_a_start_and_a_resume_in_a_home_of_its_own(provider, env):
    home = first_home(provider, env)
    elsewhere = Home(provider=provider.name, path=home.path, is_default=False, origin="config")
    program = Program(provider=provider.name, path="/bin/agent", version=None)
    start = provider.plan_start(home.path, None, program, elsewhere)
    resume = provider.plan_resume(record_of(provider, home), program, elsewhere)
    assert isinstance(start, Start | Refused) and isinstance(resume, Resume | Refused)
    for plan in (start, resume):
        if not isinstance(plan, Refused):
            assert plan.argv[0] == "/bin/agent" and set(plan.env) <= set(provider.capabilities.home_variables)
    if isinstance(resume, Resume):
        assert bool(resume.keep) == provider.capabilities.may_destroy_transcript


@PROVIDERS
def test_a_transcript_that_is_not_there_raises_nothing(provider, env):
    record = record_of(provider, first_home(provider, env))
    assert not os.path.exists(provider.transcript.find_path(record))
    assert isinstance(provider.transcript.read_guard(record), Refused | None)
    assert provider.transcript.read_loss(record) is None
