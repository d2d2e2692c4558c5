"""Kimi CLI, the Python one (`kimi-cli`, up to 1.51): the list of decisions, each in a file of its own."""

from __future__ import annotations

from corral.providers import Capabilities, no_native_claims
from corral.providers.kimi_cli import places, processes, programs, restore, sessions
from corral.providers.kimi_cli.hooks import TARGET

name = places.NAME
capabilities = Capabilities(
    title="Kimi CLI",
    program="kimi",
    picks_id=True,
    identified_by=("hooks", "runtime.json"),
    restore="resume",
    proven_versions=("1.51.0",),
    home_variables=(places.HOME_VARIABLE,),
    needs_hooks=True,
    starts_one_at_a_time=True,
    may_destroy_transcript=True,
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
