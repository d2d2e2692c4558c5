"""Where kimi-cli takes hooks."""

from __future__ import annotations

from corral.model.hook_target import ConfigFormat, HookTarget

TARGET = HookTarget(
    provider="kimi-cli",
    config_name="config.toml",
    format=ConfigFormat.TOML_HOOKS,
    events=("SessionStart", "SessionEnd"),
)
