"""Where kimi-code takes hooks."""

from __future__ import annotations

from corral.model.hook_target import ConfigFormat, HookRules, HookTarget, LaterEvent

# kimi-code 2.1.0 validates the list as a whole: one bad entry, and it runs none of them (seen 2026-11).
_RULES = HookRules(
    events=(
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PermissionRequest",
        "PermissionResult",
        "UserPromptSubmit",
        "UserPromptQueued",
        "TurnStarted",
        "Stop",
        "StopFailure",
        "Interrupt",
        "SessionStart",
        "SessionEnd",
        "SessionHeartbeat",
        "SubagentStart",
        "SubagentStop",
        "TaskStarted",
        "PreCompact",
        "PostCompact",
        "Notification",
    ),
    fields=("event", "matcher", "command", "timeout"),
    longest_timeout_s=600,
    effect="so none runs",
)

TARGET = HookTarget(
    provider="kimi-code",
    config_name="config.toml",
    format=ConfigFormat.TOML_HOOKS,
    events=("SessionStart", "SessionEnd"),
    # A version that does not know it would ignore every hook (2.1.0, seen 2026-11).
    later_events=(LaterEvent(event="SessionHeartbeat", since=(2, 1, 0)),),
    commands=("kimi", "kimi-code"),
    product="@moonshot-ai/kimi-code",
    rules=_RULES,
)
