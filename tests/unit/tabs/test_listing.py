"""Which session a tab has: by the process that its provider names, nearest to the terminal's program, or unknown."""

from __future__ import annotations

import subprocess
import sys

import pytest

from corral.machine.processes import ProcessTable
from corral.model.claim import Claim, ClaimKind
from corral.model.key import SessionKey
from corral.model.process import ProcessIdentity, ProcessMode
from corral.model.restore import Attach
from corral.model.session import AgentProcess, Session, Survey
from corral.model.verdict import ClaimVerdict, Liveness, SessionVerdict, State
from corral.sidecar.processes import read_identity
from corral.tabs.listing import Served, find_served
from corral.tabs.plan import decide_last_session

# A process, its child and its grandchild; each says its pid.
CHAIN = """
import os, subprocess, sys
print(os.getpid(), flush=True)
if sys.argv[1] != "0":
    subprocess.run([sys.executable, "-c", sys.argv[2], str(int(sys.argv[1]) - 1), sys.argv[2]])
else:
    sys.stdin.read()
"""


@pytest.fixture
def chain():
    process = subprocess.Popen([sys.executable, "-c", CHAIN, "2", CHAIN], stdin=-1, stdout=-1, text=True)
    assert process.stdout and process.stdin
    pids = [int(process.stdout.readline()) for _ in range(3)]
    yield [read_identity(pid) for pid in pids]
    process.stdin.close()
    process.wait(60)


def session(name: str, *processes: ProcessIdentity, provider: str = "kimi-cli", claims=()) -> Session:
    return Session(
        key=SessionKey(provider, "/h", "", name),
        verdict=SessionVerdict(state=State.LIVE, reason="", processes=processes, evidence=tuple(claims)),
        restore=Attach(pid=1),
        record=None,
    )


def survey(*sessions: Session, silent: int | None = None) -> Survey:
    quiet = () if silent is None else (agent(silent),)
    return Survey(hostname="h", taken_at=0.0, sessions=sessions, counts={}, unattributed=quiet)


def agent(pid: int) -> AgentProcess:
    return AgentProcess(
        provider="kimi-cli",
        pid=pid,
        started_at=0.0,
        home=None,
        mode=ProcessMode.UNKNOWN,
        terminal=None,
        work_dir=None,
        advice=None,
    )


def test_the_program_itself_or_one_below_it_serves_the_session(chain):
    for serving in chain:
        found = find_served(chain[0], "kimi-cli", survey(session("a", serving)), ProcessTable())
        assert isinstance(found, Served)
        assert (found.session.session_id, found.agent) == ("a", serving)


def test_an_agent_inside_an_agent_does_not_take_over(chain):
    found = find_served(chain[0], "kimi-cli", survey(session("b", chain[2]), session("a", chain[1])), ProcessTable())
    assert isinstance(found, Served)
    assert found.session.session_id == "a"


def test_nor_when_the_outer_one_has_not_spoken_yet(chain):
    found = find_served(chain[0], "kimi-cli", survey(session("b", chain[2]), silent=chain[1].pid), ProcessTable())
    assert found is None


def test_an_agent_of_another_cli_is_not_the_tabs(chain):
    found = find_served(chain[0], "qwen-code", survey(session("a", chain[1])), ProcessTable())
    assert found is None


def test_a_process_outside_the_terminal_is_not_the_tabs(chain):
    found = find_served(chain[1], "kimi-cli", survey(session("a", chain[0])), ProcessTable())
    assert found is None


def test_a_server_of_several_sessions_has_none_of_its_own(chain):
    found = find_served(chain[0], "kimi-cli", survey(session("a", chain[0]), session("b", chain[0])), ProcessTable())
    assert found == "it serves 2 sessions"


def test_a_reused_number_is_not_believed(chain):
    other = chain[0]._replace(start_ticks=chain[0].start_ticks - 1)
    assert find_served(other, "kimi-cli", survey(session("a", chain[0])), ProcessTable()) == "its program has ended"
    stale = chain[1]._replace(start_ticks=chain[1].start_ticks - 1)
    assert find_served(chain[0], "kimi-cli", survey(session("a", stale)), ProcessTable()) is None


GONE = ProcessIdentity("boot", 1, 77, 100)


def named(
    kind: ClaimKind = ClaimKind.JOURNAL, *, ticks: int = 100, written: float = 1.0, ended: float | None = None
) -> ClaimVerdict:
    claim = Claim(
        kind=kind,
        provider="kimi-cli",
        home="/h",
        scope="",
        session_id="x",
        path="",
        pid=77,
        written_at=written,
        boot_id="boot",
        start_ticks=ticks,
        ended_at=ended,
    )
    return ClaimVerdict(claim=claim, liveness=Liveness.STALE, rule="gone", reason="")


def test_the_session_that_a_dead_process_had_open_is_its_last():
    old, new = session("old", claims=[named(written=1, ended=9)]), session("new", claims=[named(written=2)])
    found = decide_last_session([GONE], survey(old, new).sessions)
    assert isinstance(found, Session)
    assert found.session_id == "new"


def test_after_a_clean_end_it_is_the_one_that_ended_last():
    old, new = session("old", claims=[named(ended=5)]), session("new", claims=[named(ended=6)])
    found = decide_last_session([GONE], survey(new, old).sessions)
    assert isinstance(found, Session)
    assert found.session_id == "new"


@pytest.mark.parametrize("claims", [[], [named(ticks=101)], [named(ClaimKind.LAUNCH)]])
def test_what_does_not_name_this_very_process_says_nothing(claims):
    assert isinstance(decide_last_session([GONE], survey(session("a", claims=claims)).sessions), str)


def test_several_left_open_are_not_guessed_between():
    found = decide_last_session([GONE], survey(session("a", claims=[named()]), session("b", claims=[named()])).sessions)
    assert found == "it had 2 sessions open"
