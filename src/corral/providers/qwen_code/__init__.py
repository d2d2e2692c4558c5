"""Qwen Code (`@qwen-code/qwen-code`): the list of decisions, each in a file of its own."""

from __future__ import annotations

from corral.providers import Capabilities, lazy_parts, no_default_model, no_loss, reaches_whole_home
from corral.providers.qwen_code import processes
from corral.providers.qwen_code.homes import HOME_VARIABLE, NAME, RUNTIME_VARIABLE, list_homes

name = NAME
capabilities = Capabilities(
    title="Qwen Code",
    program="qwen",
    picks_id=True,
    # Headless runs (`-p`) and old versions write neither registry nor runtime.json: there only hooks tell.
    identified_by=("registry", "runtime.json", "hooks"),
    restore="resume",
    proven_versions=("0.24.4",),
    home_variables=(HOME_VARIABLE, RUNTIME_VARIABLE),
    silent_s=30.0,
    needs_hooks=False,
    servers_report=True,
    poison=processes.CHILD_VARIABLES,
)

homes = list_homes
find_reach = reaches_whole_home
read_default_model = no_default_model
read_loss = no_loss
__getattr__ = lazy_parts(
    __name__,
    list_sessions="sessions",
    recognise="processes",
    find_program="programs",
    transcript_path="restore",
    read_guard="restore",
    plan_resume="restore",
    plan_start="start",
    hook_target="hooks:TARGET",
    list_usage_sources="usage_sources",
    read_usage="usage",
    unrecorded_kinds="usage:UNRECORDED_KINDS",
    list_claims="claims",
)
