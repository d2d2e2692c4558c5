"""Qwen Code (`@qwen-code/qwen-code`): the list of decisions."""

from __future__ import annotations

from corral.providers.contract import Capabilities, Programs, Provider, Transcript, Usage
from corral.providers.qwen_code.homes import HOME_VARIABLE, NAME, RUNTIME_VARIABLE, list_homes
from corral.providers.qwen_code.processes import CHILD_VARIABLES, CLI, list_claims, recognise

# Each part is imported when it is first needed: most commands need few of them. pyright follows it there.


def _sessions():
    from corral.providers.qwen_code import sessions

    return sessions


def _restore():
    from corral.providers.qwen_code import restore

    return restore


def _usage():
    from corral.providers.qwen_code import usage

    return usage


def _hooks():
    from corral.model.hook_target import ConfigFormat, HookTarget

    return HookTarget(
        provider=NAME,
        config_name="settings.json",
        format=ConfigFormat.JSON_HOOKS,
        events=("SessionStart", "SessionEnd"),
    )


def _find_problem(version: str) -> str | None:
    from corral.providers.kit.programs import version_tuple

    if version_tuple(version) < (0, 22):
        return f"version {version} keeps no registry of its processes, so nothing would confirm what it resumed"
    return None


PROVIDER = Provider(
    name=NAME,
    capabilities=Capabilities(
        title="Qwen Code",
        program=CLI.commands[0],
        picks_id=True,
        # Headless runs (`-p`) and old versions write neither registry nor runtime.json: there only hooks tell.
        identified_by=("registry", "runtime.json", "hooks"),
        restore="resume",
        proven_versions=("0.24.4",),
        home_variables=(HOME_VARIABLE, RUNTIME_VARIABLE),
        silent_s=30.0,
        needs_hooks=False,
        servers_report=True,
        poison=CHILD_VARIABLES,
    ),
    # qwen 0.24.4 says its bare number (2026-11)
    programs=Programs(
        commands=CLI.commands,
        product=CLI.package,
        find_problem=_find_problem,
        find_update=lambda path, version, env: _restore().find_update(path, version, env),
    ),
    homes=list_homes,
    list_sessions=lambda home, known: _sessions().list_sessions(home, known),
    list_claims=list_claims,
    recognise=recognise,
    transcript=Transcript(read_guard=lambda record: _restore().read_guard(record)),
    plan_resume=lambda record, program, home: _restore().plan_resume(record, program, home),
    plan_start=lambda work_dir, session_id, program, home: _restore().plan_start(work_dir, session_id, program, home),
    hooks=_hooks,
    usage=Usage(
        list_sources=lambda home, visits: _usage().list_usage_sources(home, visits),
        read=lambda source, since, fd: _usage().read_usage(source, since, fd),
        dated_by_file=True,
        # Billed, and on disk without a trace. Of the other unrecorded ones a trace is found, and counted.
        unrecorded_kinds=(
            "prompt suggestions and the speculative runs behind them",
            "side questions (/btw) and /advisor",
            "session titles, recaps and summaries",
            "approval decisions made by a model",
            "memory look-ups, web page digests, image descriptions and other side queries",
            "turns stopped or killed before a word of the answer was written",
            "compactions that were stopped, and the last request of a sub-agent that was killed",
            "requests that ended in an error",
        ),
    ),
)
