"""Kimi Code, the TypeScript one (`@moonshot-ai/kimi-code` 2.x): the list of decisions."""

from __future__ import annotations

from corral.providers import Capabilities, lazy_parts, no_default_model, no_native_claims
from corral.providers.kimi_code import places

name = places.NAME
capabilities = Capabilities(
    title="Kimi Code",
    program="kimi",
    picks_id=False,
    identified_by=("hooks", "runtime.json"),
    restore="resume",
    proven_versions=("2.1.0",),
    home_variables=(places.HOME_VARIABLE,),
    silent_s=None,
    needs_hooks=True,
    servers_report=True,
)

list_claims = no_native_claims
read_default_model = no_default_model
__getattr__ = lazy_parts(
    __name__,
    homes="places",
    list_sessions="sessions",
    recognise="processes",
    find_reach="reach",
    find_program="programs",
    transcript_path="restore",
    read_guard="restore",
    read_loss="damage",
    plan_resume="restore",
    plan_start="start",
    hook_target="hooks:TARGET",
    list_usage_sources="usage_sources",
    read_usage="usage",
    unrecorded_kinds="usage:UNRECORDED_KINDS",
)
