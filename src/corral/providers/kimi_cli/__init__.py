"""Kimi CLI, the Python one (`kimi-cli`, up to 1.51): the list of decisions."""

from __future__ import annotations

from corral.providers.contract import Capabilities, Programs, Provider, Transcript, Usage, no_loss
from corral.providers.kimi_cli.processes import CLI, HOME, NAME, recognise
from corral.providers.kimi_cli.restore import plan_resume, plan_start, read_guard, transcript_path
from corral.providers.kimi_cli.sessions import list_sessions

_EVENTS = (
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "StopFailure", "SessionStart",
    "SessionEnd", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "Notification",
)  # fmt: skip
"""Those that it knows."""


# Imported when they are first needed: most commands need neither. pyright follows them there.


def _own_log():
    from corral.providers.kimi_cli import own_log

    return own_log


def _usage():
    from corral.providers.kimi_cli import usage

    return usage


def _hooks():
    from corral.model.hook_target import ConfigFormat, HookRules, HookTarget

    # kimi-cli 1.51.0 does not start with a bad entry, and has no hooks any more after /new (seen 2026-11).
    rules = HookRules(
        events=_EVENTS,
        longest_timeout_s=600,
        coerces=True,
        effect="so it does not start",
    )

    return HookTarget(
        provider=NAME,
        config_name="config.toml",
        format=ConfigFormat.TOML_HOOKS,
        events=("SessionStart", "SessionEnd"),
        rules=rules,
    )


def _find_problem(version: str) -> str | None:
    # kimi 1.52.0 prints a notice and exits 0 whatever it is asked; bare, it installs kimi-code (2026-11)
    from corral.providers.kit.programs import version_tuple

    if version_tuple(version) >= (1, 52):
        return f"kimi-cli {version} does nothing any more: 1.51.0 is the last release that works"
    return None


PROVIDER = Provider(
    name=NAME,
    capabilities=Capabilities(
        title="Kimi CLI",
        program=CLI.commands[0],
        picks_id=True,
        identified_by=("hooks", "runtime.json", "log"),
        restore="resume",
        proven_versions=("1.51.0",),
        home_variables=(HOME.variable,),
        silent_s=30.0,
        may_destroy_transcript=True,
        needs_hooks=True,
        starts_one_at_a_time=True,
    ),
    programs=Programs(
        commands=CLI.commands,
        product=CLI.package,
        # kimi 1.51 says "kimi, version 1.51.0"; kimi-code says the bare number (2026-11)
        says_before_version="kimi, version ",
        find_problem=_find_problem,
    ),
    homes=HOME.list,
    list_sessions=list_sessions,
    recognise=recognise,
    find_reach=lambda process, home: _own_log().find_reach(process, home),
    transcript=Transcript(find_path=transcript_path, read_guard=read_guard, read_loss=no_loss),
    plan_resume=plan_resume,
    plan_start=plan_start,
    hooks=_hooks,
    usage=Usage(
        list_sources=lambda home, visits: _usage().list_usage_sources(home, visits),
        read=lambda source, since, fd: _usage().read_usage(source, since, fd),
        read_default_model=lambda home: _usage().read_default_model(home),
        dated_by_file=True,
        # Calls that kimi-cli 1.51 makes and that leave no trace in its logs (2026-11).
        unrecorded_kinds=(
            "side questions (/btw) asked in the terminal",
            "session titles made by the web interface",
            "attempts that failed and were repeated",
            "the last turn of a killed process, until the session goes on",
            "the last request of a sub-agent that was killed",
        ),
    ),
)
