"""Guarding a start: until its provider confirms the session, and then whether the conversation is still there.

`python -m corral.engine.guard TAB [FD …]` guards what was started in a terminal, and keeps the locks that the
descriptors hold meanwhile: the second of them for the first seconds only.
"""

from __future__ import annotations

import os
import sys
import time

from msgspec import structs

from corral.engine.catalogue import find_provider
from corral.engine.selection import Selection
from corral.engine.survey import take_survey
from corral.engine.tabs import list_tabs
from corral.model.claim import ClaimKind
from corral.model.verdict import Liveness
from corral.store.bindings import Bindings
from corral.store.launches import Launch, Launches, find_damage
from corral.system import places
from corral.system.descriptors import is_ready

_GUARD_SECONDS = 120.0
_TURN_SECONDS = 15.0
"""kimi 1.51 reads and writes its registry within the first seconds of a start (2026-11)."""
_GUARD_STEP_SECONDS = 0.25
_LONGEST_STEP_SECONDS = 3.0


def guard_launch(launch: Launch, launches: Launches, turn: list[int]) -> None:
    """Wait until the provider confirms the session, then check what became of it. `turn` is closed early."""
    pid = launch.process.pid
    death = os.pidfd_open(pid)
    deadline, step = time.monotonic() + _GUARD_SECONDS, _GUARD_STEP_SECONDS
    while time.monotonic() < deadline and not is_ready(death, step):
        # Most confirm within seconds; many that do not must not keep the machine busy.
        step = min(step * 1.25, _LONGEST_STEP_SECONDS)
        source = _confirmed_source(launch)
        if source is None:
            while turn and time.time() - launch.launched_at > _TURN_SECONDS:
                os.close(turn.pop())
            continue
        problem = find_damage(launch)
        if problem is None and source == "startup" and launch.copies:
            copy = launch.copies[0].copy
            problem = f"the CLI began a new conversation instead of resuming this one; a copy of it is at {copy}"
        launches.write(structs.replace(launch, confirmed=problem is None, problem=problem))
        return
    if problem := find_damage(launch):
        launches.write(structs.replace(launch, problem=problem))


def _confirmed_source(launch: Launch) -> str | None:
    """How the provider says the session began in our process (or a descendant of it); None until it says so.

    Empty when it says that the session is there, but not how it began.
    """
    from corral.system.processes import ProcessTable

    survey = take_survey(Selection(id_prefix=launch.key.session_id), [find_provider(launch.key.provider)])
    session = next((one for one in survey.sessions if one.key == launch.key), None)
    if session is None:
        return None
    table = ProcessTable()
    sources: list[str] = []
    for judged in session.verdict.evidence:
        if judged.liveness is not Liveness.LIVE or judged.identity is None or judged.claim.kind is ClaimKind.LAUNCH:
            continue
        process = table.find(judged.identity.pid)
        line = [judged.identity.pid, *(one.pid for one in table.ancestors(process))] if process else []
        if launch.process.pid in line:
            sources.append(judged.claim.source or "")
    return max(sources, default=None)


def guard_tab(tab: str, turn: list[int]) -> None:
    """The same for a program in a terminal; then its agent's process is noted, as soon as the provider names it."""
    bindings, launches = Bindings(places.state_dir()), Launches(places.state_dir())
    binding = bindings.find(tab)
    if binding is None or (child := binding.child_process) is None:
        return
    launch = next((one for one in launches.read_all() if one.process == child), None)
    if launch is not None:
        try:
            guard_launch(launch, launches, turn)
        except Exception as error:
            told = f"what became of the session could not be checked after the start: {error!r}"
            launches.write(structs.replace(launch, problem=told))
            raise
    try:
        death = os.pidfd_open(child.pid)
    except ProcessLookupError:
        return
    guarded = _GUARD_SECONDS if launch is None else 0.0
    deadline, step = time.monotonic() + guarded, _GUARD_STEP_SECONDS
    while True:
        list_tabs([tab])  # looking notes the process
        found = bindings.find(tab)
        if found is None or found.agent is not None or time.monotonic() > deadline or is_ready(death, step):
            return
        step = min(step * 2, _LONGEST_STEP_SECONDS)


if __name__ == "__main__":
    guard_tab(sys.argv[1], [int(fd) for fd in sys.argv[2:]][1:])
