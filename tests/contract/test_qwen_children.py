"""qwen-code 0.24.4: what the environment of a tool says about the session, for real."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.contract.corral_cli import Corral
from tests.contract.drive_qwen_code import QwenCode
from tests.contract.processes import Proc, descendants, environ, find_marked, stop_all
from tests.contract.steps import PrintRun, find_session

WAIT_SECONDS = 60.0
VARIABLE = "QWEN_CODE_SESSION_ID"
# Qwen refuses to sleep, and takes the end of its shell for the end of the tool.
HOLD = "tail -f /dev/null"


@contextmanager
def held(driver: QwenCode, run: PrintRun) -> Iterator[None]:
    """Ends the tools that hold the run, and waits for its end."""
    try:
        yield
    finally:
        deadline = time.monotonic() + WAIT_SECONDS
        while tools := [proc for proc in find_marked("HOME", str(driver.home.root)) if proc.comm == "tail"]:
            stop_all(tools)
            if time.monotonic() > deadline:
                raise TimeoutError(f"tools come back: {tools}")
        run.wait()


def wait_tool(driver: QwenCode, count: int = 1) -> list[Proc]:
    """The shells that run the tools, each with the id that it was given."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        tails = [proc for proc in find_marked("HOME", str(driver.home.root)) if proc.comm == "tail"]
        if len(tails) == count:
            return tails
        if time.monotonic() > deadline:
            raise TimeoutError(f"no tool runs: {tails}")
        time.sleep(0.05)


def test_a_print_run_without_hooks_is_live_while_it_runs_a_tool(qwen_code: QwenCode) -> None:
    bare = Corral(qwen_code.home, qwen_code.name)
    qwen_code.print_run("an older one says thyme")
    older = find_session(qwen_code, "an older one says thyme")
    run = PrintRun(qwen_code, f"RUN:{HOLD}; true")
    with held(qwen_code, run):
        (tool,) = wait_tool(qwen_code)
        session_id = environ(tool.pid)[VARIABLE]
        survey = bare.wait(lambda survey: not survey["unattributed"], "all processes are accounted for")
        states = {row["session_id"]: (row["state"], row["pids"]) for row in survey["sessions"]}
        (pid,) = states[session_id][1]
        assert states == {session_id: ("live", [pid]), older: ("idle", [])}
        assert tool.pid in {proc.pid for proc in descendants(pid)}
        (evidence,) = (row["evidence"] for row in survey["sessions"] if row["session_id"] == session_id)
        assert [(one["kind"], one["rule"]) for one in evidence] == [("child", "exact")]
        refused = bare.run("resume", session_id)
        assert refused.returncode == 1 and "already_live" in refused.stderr
    bare.wait_resting({session_id: "idle", older: "idle"})


def test_a_run_inside_a_run_has_a_session_of_its_own(qwen_code: QwenCode) -> None:
    bare = Corral(qwen_code.home, qwen_code.name)
    run = PrintRun(qwen_code, f"RUN:qwen -p 'RUN:{HOLD}; true'; true")
    with held(qwen_code, run):
        (tool,) = wait_tool(qwen_code)
        inner = environ(tool.pid)[VARIABLE]
        survey = bare.wait(lambda survey: len(survey["sessions"]) == 2, "both sessions")
        live = {row["session_id"]: row["pids"] for row in survey["sessions"] if row["state"] == "live"}
        assert len(live) == 2 and survey["unattributed"] == []
        outer = next(session_id for session_id in live if session_id != inner)
        assert tool.pid in {proc.pid for proc in descendants(*live[inner])}
        assert live[inner][0] in {proc.pid for proc in descendants(*live[outer])}


def test_a_tool_outlives_the_session_that_it_was_told(qwen_code: QwenCode) -> None:
    """Why a terminal's word to its tools is not taken for the session that it has now."""
    with qwen_code.start() as agent:
        agent.wait_ready()
        agent.prompt(f"RUN:setsid -f {HOLD} > /dev/null 2>&1; true")
        first = agent.current_session()
        (tool,) = wait_tool(qwen_code)
        second = agent.new_session()
        assert second != first == environ(tool.pid)[VARIABLE]
        Corral(qwen_code.home, qwen_code.name).wait_live({second: [agent.serving_pid()]})
        stop_all([tool])
        agent.quit()
