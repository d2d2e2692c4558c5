"""Where kimi-cli takes hooks."""

from __future__ import annotations

from corral.model.hook_target import ConfigFormat, HookRules, HookTarget

# kimi-cli 1.51.0 does not start with a bad entry, and has no hooks any more after /new (seen 2026-11).
_RULES = HookRules(
    events=(
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "UserPromptSubmit",
        "Stop",
        "StopFailure",
        "SessionStart",
        "SessionEnd",
        "SubagentStart",
        "SubagentStop",
        "PreCompact",
        "PostCompact",
        "Notification",
    ),
    longest_timeout_s=600,
    coerces=True,
    effect="so it does not start",
)

TARGET = HookTarget(
    provider="kimi-cli",
    config_name="config.toml",
    format=ConfigFormat.TOML_HOOKS,
    events=("SessionStart", "SessionEnd"),
    rules=_RULES,
)
