"""Kimi Code, the TypeScript one (`@moonshot-ai/kimi-code` 2.x): the list of decisions."""

from __future__ import annotations

from corral.providers import Capabilities, no_native_claims
from corral.providers.kimi_code import places, processes, programs, restore, sessions
from corral.providers.kimi_code.hooks import TARGET

name = places.NAME
capabilities = Capabilities(
    title="Kimi Code",
    program="kimi",
    picks_id=False,
    identified_by=("hooks", "runtime.json"),
    restore="resume",
    proven_versions=("2.1.0",),
    home_variables=(places.HOME_VARIABLE,),
    needs_hooks=True,
)

hook_target = TARGET
homes = places.homes
list_sessions = sessions.list_sessions
list_claims = no_native_claims
recognise = processes.recognise
find_program = programs.find_program
transcript = restore.transcript
read_guard = restore.read_guard
plan_resume = restore.plan_resume
