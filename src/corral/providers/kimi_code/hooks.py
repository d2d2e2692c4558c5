"""Where kimi-code takes hooks."""

from __future__ import annotations

from corral.model.hook_target import ConfigFormat, HookTarget, LaterEvent

TARGET = HookTarget(
    provider="kimi-code",
    config_name="config.toml",
    format=ConfigFormat.TOML_HOOKS,
    events=("SessionStart", "SessionEnd"),
    # A version that does not know it would ignore every hook (2.1.0, seen 2026-11).
    later_events=(LaterEvent(event="SessionHeartbeat", since=(2, 1, 0)),),
    commands=("kimi", "kimi-code"),
    product="@moonshot-ai/kimi-code",
)
