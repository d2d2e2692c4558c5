"""Qwen Code (`@qwen-code/qwen-code`): the list of decisions, each in a file of its own."""

from __future__ import annotations

from corral.providers import Capabilities
from corral.providers.qwen_code import claims, processes, programs, restore, sessions
from corral.providers.qwen_code import homes as data_roots
from corral.providers.qwen_code.hooks import TARGET

name = data_roots.NAME
capabilities = Capabilities(
    title="Qwen Code",
    program="qwen",
    picks_id=True,
    # Headless runs (`-p`) and old versions write neither registry nor runtime.json: there only hooks tell.
    identified_by=("registry", "runtime.json", "hooks"),
    restore="resume",
    proven_versions=("0.24.4",),
    home_variables=(data_roots.HOME_VARIABLE, data_roots.RUNTIME_VARIABLE),
    needs_hooks=False,
    poison=processes.CHILD_VARIABLES,
)

hook_target = TARGET
homes = data_roots.list_homes
list_sessions = sessions.list_sessions
list_claims = claims.list_claims
recognise = processes.recognise
find_program = programs.find_program
transcript = restore.transcript
read_guard = restore.read_guard
plan_resume = restore.plan_resume
