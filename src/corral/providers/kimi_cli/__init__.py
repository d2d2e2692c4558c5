"""Kimi CLI, the Python one (`kimi-cli`, up to 1.51): the list of decisions, each in a file of its own."""

from __future__ import annotations

from corral.providers import Capabilities, lazy_parts, no_loss, no_native_claims
from corral.providers.kimi_cli import places

name = places.NAME
capabilities = Capabilities(
    title="Kimi CLI",
    program="kimi",
    picks_id=True,
    identified_by=("hooks", "runtime.json", "log"),
    restore="resume",
    proven_versions=("1.51.0",),
    home_variables=(places.HOME_VARIABLE,),
    silent_s=30.0,
    needs_hooks=True,
    starts_one_at_a_time=True,
    may_destroy_transcript=True,
)

list_claims = no_native_claims
read_loss = no_loss
__getattr__ = lazy_parts(
    __name__,
    homes="places",
    list_sessions="sessions",
    recognise="processes",
    find_reach="reach",
    find_program="programs",
    transcript_path="restore",
    read_guard="restore",
    plan_resume="restore",
    plan_start="start",
    hook_target="hooks:TARGET",
    list_usage_sources="usage_sources",
    read_usage="usage",
    unrecorded_kinds="usage:UNRECORDED_KINDS",
    read_default_model="default_model",
)
