"""`python -m corral.demo.scenes PORT`: prepares a demo's home, then becomes its `corral serve`.

Conversations of the past are written to disk; then agents really run in tabs, wait, work and die.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from corral.demo.conversation import Home, Session, Tokens, begin_turn, end_turn
from corral.demo.reference_agent import VERSION
from corral.errors import CorralError
from corral.hooks import install_hooks
from corral.machine import places
from corral.machine.probe import send_signal
from corral.model.hook_install import Outcome
from corral.model.selection import Selection
from corral.model.tab import Agreement
from corral.model.terminal import Standing
from corral.sessions import find_session, take_survey
from corral.tabs import keep_tabs
from corral.terminals import find_terminal, open_client, terminals_dir

_OTHER_HOST = "buildbox"
_TURN_SECONDS = 40.0
_HOUR = 3600.0
_CONFIG = 'default_model = "kimi-k2.5"\n'
"""The agent calls no model; this one's price makes the usage look as it does elsewhere."""
_SIZE = (120, 40)
_WAIT_SECONDS = 60.0
_LOOK_SECONDS = 0.05


class Fate(StrEnum):
    """What becomes of a session once its past is on disk."""

    IDLE = "idle"
    """Nothing serves it."""
    READY = "ready"
    """An agent runs in a tab and has nothing to do."""
    BUSY = "busy"
    """Its agent is in a long turn."""
    WAITING = "waiting"
    """Its agent has asked something."""
    CUT_OFF = "cut off"
    """Its agent is killed in a turn, with its terminal; its tab stays."""
    LOST = "lost"
    """Its agent died in a turn long ago."""
    ELSEWHERE = "elsewhere"
    """Another machine claims it."""


_PLAYED = frozenset({Fate.READY, Fate.BUSY, Fate.WAITING, Fate.CUT_OFF})


class Turn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was asked and answered before."""

    asked: str
    answered: str
    tokens: Tokens


class Scene(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One session."""

    title: str
    folder: str
    """Below the home directory."""
    fate: Fate
    hours_ago: float
    """When the last turn ended."""
    turns: tuple[Turn, ...]
    typed: str | None = None
    """What the person types in its tab."""
    unfinished: str | None = None
    """What was asked in a last turn that never ended."""


class _Play(Struct, frozen=True, forbid_unknown_fields=True):
    scenes: tuple[Scene, ...]


def read_scenes() -> tuple[Scene, ...]:
    """Those of scenes.toml, in the order in which they are opened."""
    with open(os.path.join(os.path.dirname(__file__), "scenes.toml"), "rb") as file:
        return msgspec.toml.decode(file.read(), type=_Play).scenes


def main() -> int:  # noqa: RET503 - the last line becomes the server
    """What a person can act on is printed; the exit code is then 1."""
    root = places.demo_dir()
    if root is None:
        print("corral: this makes up sessions: only corral demo runs it", file=sys.stderr)
        return 2
    try:
        prepare(time.time(), lambda title: print(f"corral:   {title}", file=sys.stderr, flush=True))
    except CorralError as error:
        print(f"corral: {error.message}", *error.hints, sep="\n  ", file=sys.stderr)
        return 1
    log = os.open(os.path.join(root, "server.log"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(log, 2)
    # A port that nobody uses: the logins of the person's own server stay.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "corral", "serve", "--port", sys.argv[1]])


def prepare(now: float, tell: Callable[[str], None]) -> None:
    """Write every session to disk and bring it to its fate. Raises CorralError."""
    scenes = [(scene, _write_session(scene, now)) for scene in read_scenes()]
    (Path.home() / ".kimi" / "config.toml").write_text(_CONFIG)
    # The agent needs no hooks, but the page asks for them before it starts a Kimi CLI.
    if wrong := [one for one in install_hooks(None) if one.outcome in (Outcome.REFUSED, Outcome.BROKEN)]:
        raise CorralError(f"the hooks could not be installed: {wrong[0].message}")
    play([(scene, session_id) for scene, session_id in scenes if scene.fate in _PLAYED], tell)


def _write_session(scene: Scene, now: float) -> str:
    work = Path.home() / scene.folder
    work.mkdir(parents=True, exist_ok=True)
    home = Home(Path.home() / ".kimi", str(work))
    if (problem := home.prepare()) is not None:
        raise CorralError(problem)
    ended_at = now - scene.hours_ago * _HOUR
    clock = _count_up(ended_at - _TURN_SECONDS * len(scene.turns), ended_at, 6 * len(scene.turns))
    session = Session(home, str(uuid.uuid4()), lambda: next(clock)).create(scene.title)
    for turn in scene.turns:
        begin_turn(session, turn.asked)
        end_turn(session, turn.answered, turn.tokens)
    if scene.unfinished is not None:
        begin_turn(session, scene.unfinished)
    home.register(session.id)
    if scene.fate is Fate.ELSEWHERE:
        _claim_from_elsewhere(session, str(work), ended_at)
    for path in (session.context, session.wire, session.state, session.path):
        os.utime(path, (ended_at, ended_at))
    return session.id


def _count_up(begin: float, end: float, steps: int) -> Iterator[float]:
    for step in range(1, steps + 1):
        yield begin + (end - begin) * step / steps
    while True:
        yield end


def _claim_from_elsewhere(session: Session, work_dir: str, written_at: float) -> None:
    """As an agent on another machine leaves it in a home that both machines share."""
    claim = {
        "schema_version": 1,
        "pid": 4217,
        "session_id": session.id,
        "work_dir": work_dir,
        "hostname": _OTHER_HOST,
        "started_at": written_at - _HOUR,
        "kimi_cli_version": VERSION,
    }
    (session.path / "runtime.json").write_text(json.dumps(claim))


def play(scenes: list[tuple[Scene, str]], tell: Callable[[str], None]) -> None:
    """What a person would have done in the page before: opened tabs, and typed into them."""
    log_path = os.path.join(places.state_dir(), "server", "log.jsonl")
    tabs = keep_tabs(lambda: take_survey(Selection()), log_path, lambda events: None, lambda progress: None)
    opened: list[tuple[Scene, str, str]] = []
    for scene, session_id in scenes:
        tell(scene.title)
        agree = Agreement(trust=True)
        tab = tabs.open_session(find_session(session_id), anyway=False, agree=agree, size=_SIZE).tab
        _wait_until(session_id, "live")
        if scene.typed is not None:
            _type(tab, scene.typed)
        opened.append((scene, session_id, tab))
    for scene, session_id, tab in opened:
        if scene.fate is Fate.WAITING:
            _wait_until(session_id, "live", "waiting")
        elif scene.fate is not Fate.READY:
            _wait_until(session_id, "live", "busy")
        if scene.fate is Fate.CUT_OFF:
            _cut_off(tab)
            _wait_until(session_id, "orphaned")
    tabs.stop()


def _type(tab: str, line: str) -> None:
    with open_client(terminals_dir(), tab) as client:
        client.attach(None, *_SIZE)
        client.type(f"{line}\r".encode())
        client.ask()  # once the holder answers, it has taken the line


def _cut_off(tab: str) -> None:
    """As a power cut does: the terminal and what runs in it are gone at once."""
    terminal = find_terminal(terminals_dir(), tab)
    if terminal is None or terminal.holder is None:
        raise CorralError(f"terminal {tab} is missing")
    for identity in (terminal.holder, terminal.child):
        send_signal(identity, signal.SIGKILL)

    def is_lost() -> bool:
        found = find_terminal(terminals_dir(), tab)
        return found is None or found.standing is not Standing.RUNNING

    _wait_for(is_lost, f"the end of terminal {tab}")


def _wait_until(session_id: str, state: str, activity: str | None = None) -> None:
    def is_so() -> bool:
        session = find_session(session_id)
        return session.state == state and activity in (None, session.activity)

    _wait_for(is_so, f"session {session_id} to be {activity or state}")


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise CorralError(f"waited {_WAIT_SECONDS:.0f} s for {what}", hint="is the machine very busy? try again")
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
