"""Kimi Code, the TypeScript one (`@moonshot-ai/kimi-code` 2.x): the list of decisions."""

from __future__ import annotations

from corral.providers.contract import Capabilities, Programs, Provider, Transcript, Usage, no_default_model
from corral.providers.kimi_code.processes import CLI, HOME, NAME, find_reach, recognise
from corral.providers.kimi_code.restore import plan_resume, plan_start, read_guard, read_loss, transcript_path
from corral.providers.kimi_code.sessions import list_sessions

_EVENTS = (
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionResult",
    "UserPromptSubmit", "UserPromptQueued", "TurnStarted", "Stop", "StopFailure", "Interrupt", "SessionStart",
    "SessionEnd", "SessionHeartbeat", "SubagentStart", "SubagentStop", "TaskStarted", "PreCompact", "PostCompact",
    "Notification",
)  # fmt: skip
"""Those that it knows."""


def _usage():
    """Imported when it is first needed: most commands count nothing. pyright follows it there."""
    from corral.providers.kimi_code import usage

    return usage


def _hooks():
    from corral.model.hook_target import ConfigFormat, Heartbeat, HookRules, HookTarget, LaterEvent

    # kimi-code 2.1.0 validates the list as a whole: one bad entry, and it runs none of them (seen 2026-11).
    rules = HookRules(
        events=_EVENTS,
        fields=("event", "matcher", "command", "timeout"),
        # Its reader (smol-toml 1.6) gives up on a number that JavaScript can't hold, and all sections are empty then.
        largest_number=2**53 - 1,
        longest_timeout_s=600,
        effect="so none runs",
    )

    return HookTarget(
        provider=NAME,
        config_name="config.toml",
        format=ConfigFormat.TOML_HOOKS,
        events=("SessionStart", "SessionEnd"),
        # A version that does not know it would ignore every hook (2.1.0, seen 2026-11).
        later_events=(LaterEvent(event="SessionHeartbeat", since=(2, 1, 0)),),
        # It stops when /reload finds no hooks, or a bad entry, though that be mended afterwards (2.1.0, 2026-11).
        heartbeat=Heartbeat(event="SessionHeartbeat", every_s=60.0),
        commands=CLI.commands,
        product=CLI.package,
        rules=rules,
    )


PROVIDER = Provider(
    name=NAME,
    capabilities=Capabilities(
        title="Kimi Code",
        program=CLI.commands[0],
        picks_id=False,
        identified_by=("hooks", "runtime.json"),
        restore="resume",
        proven_versions=("2.1.0",),
        home_variables=(HOME.variable,),
        silent_s=None,
        needs_hooks=True,
        servers_report=True,
    ),
    # kimi-code says its bare number and nothing else; kimi-cli says "kimi, version 1.51.0" (2026-11)
    programs=Programs(commands=CLI.commands, product=CLI.package),
    homes=HOME.list,
    list_sessions=list_sessions,
    recognise=recognise,
    find_reach=find_reach,
    transcript=Transcript(find_path=transcript_path, read_guard=read_guard, read_loss=read_loss),
    plan_resume=plan_resume,
    plan_start=plan_start,
    hooks=_hooks,
    usage=Usage(
        list_sources=lambda home, visits: _usage().list_usage_sources(home, visits),
        read=lambda source, since, fd: _usage().read_usage(source, since, fd),
        read_default_model=no_default_model,
        dated_by_file=True,
        # Calls that kimi-code 2.1 makes and that leave no trace in its logs (2026-11).
        unrecorded_kinds=(
            "session titles made by a service of Kimi",
            "attempts that failed and were repeated",
            "the last turn of a killed process, until the session goes on",
            "the last request of a sub-agent that was killed",
        ),
    ),
)
