"""What each room offers to others: a door grows only where somebody means it to."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOMS = Path(__file__).resolve().parents[2] / "src" / "corral"
DOORS = {
    "hooks": "find_silence hook_providers install_hooks lack_hooks read_statuses uninstall_hooks",
    "sessions": "appearance_of check_sidecar examine find_session full_name has_ended list_provider_facts list_sessions"
    " list_state_words read_last_exchanges report_session report_survey session_ref take_survey watch_sessions",
    "tabs": "end_tab find_tab_started_on find_to_kill find_way forget_tab keep_tabs kill_process kill_session list_tabs"
    " look_at plan_resume report_tabs resume_in_place start_tab switch_client",
    "terminals": "filter_queries find_terminal list_terminals open_client open_line own_tab say_end terminals_dir"
    " track_modes",
    "top": "meter_session report_metering report_shown start_meter",
    "usage": "acknowledge_losses ask_sql check_budget check_usage explain_session list_prices"
    " list_unknown_prices list_views parse_budget parse_query read_on rebuild_ledger refresh_prices report_fresh"
    " report_stored sum_sessions_today sum_spending take_glance update_ledger",
}


@pytest.mark.parametrize("room", DOORS)
def test_a_door_offers_these_functions_and_no_others(room):
    body = ast.parse((ROOMS / room / "__init__.py").read_text()).body
    assert sorted(one.name for one in body if isinstance(one, ast.FunctionDef)) == DOORS[room].split()
    inner = {path.stem for path in (ROOMS / room).iterdir()}
    assert inner.isdisjoint(DOORS[room].split()), "a submodule of that name would take the function's place"


@pytest.mark.parametrize("room", DOORS)
def test_opening_a_door_imports_nothing_behind_it(room):
    code = f"import sys, corral.{room}; print(*(name for name in sys.modules if name.startswith('corral.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) == {f"corral.{room}", "corral.version"}
