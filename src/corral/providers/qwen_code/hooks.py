"""Where Qwen Code takes hooks."""

from __future__ import annotations

from corral.model.hook_target import ConfigFormat, HookTarget

TARGET = HookTarget(
    provider="qwen-code",
    config_name="settings.json",
    format=ConfigFormat.JSON_HOOKS,
    events=("SessionStart", "SessionEnd"),
)
