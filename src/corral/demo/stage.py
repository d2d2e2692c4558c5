"""Setting the scenes: conversations of the past on disk, then agents that really run, wait and die."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from corral.demo.conversation import Home, Session, Tokens, begin_turn, end_turn
from corral.demo.place import Place
from corral.demo.reference_agent import VERSION
from corral.demo.visitor import Visitor, wait_for
from corral.errors import CorralError
from corral.machine.probe import send_signal
from corral.model.terminal import Standing
from corral.terminals import find_terminal

_OTHER_HOST = "buildbox"
_TURN_SECONDS = 40.0
_HOUR = 3600.0
_CONFIG = 'default_model = "kimi-k2.5"\n'
"""The agent calls no model; this one's price makes the usage look as it does elsewhere."""


class Fate(StrEnum):
    """What becomes of a session once its past is on disk."""

    IDLE = "idle"
    """Nothing serves it."""
    READY = "ready"
    """An agent runs in a tab and has nothing to do."""
    BUSY = "busy"
    """It is in a turn that takes long."""
    WAITING = "waiting"
    """It has asked something."""
    CUT_OFF = "cut off"
    """It is killed in a turn, terminal and all, and its tab is left."""
    LOST = "lost"
    """Its agent died in a turn, long before."""
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


def write_past(place: Place, now: float) -> list[tuple[Scene, str]]:
    """Every conversation as it was before the demonstration begins; each scene with its session's id."""
    scenes = [(scene, _write_session(place, scene, now)) for scene in read_scenes()]
    Path(place.agent_home, "config.toml").write_text(_CONFIG)
    return scenes


def _write_session(place: Place, scene: Scene, now: float) -> str:
    work = Path(place.home, scene.folder)
    work.mkdir(parents=True, exist_ok=True)
    home = Home(Path(place.agent_home), str(work))
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
    """As an agent of the same person on another machine leaves it in a home that both share."""
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


def play(place: Place, visitor: Visitor, scenes: list[tuple[Scene, str]], tell: Callable[[str], None]) -> None:
    """Bring every session to its fate. Raises CorralError."""
    opened: list[tuple[Scene, str, str]] = []
    for scene, session_id in scenes:
        if scene.fate in _PLAYED:
            tell(scene.title)
            tab = visitor.open_session(session_id)
            visitor.wait_until(session_id, "live")
            opened.append((scene, session_id, tab))
            if scene.typed is not None:
                visitor.type(tab, scene.typed)
    for scene, session_id, tab in opened:
        match scene.fate:
            case Fate.WAITING:
                visitor.wait_until(session_id, "live", "waiting")
            case Fate.BUSY:
                visitor.wait_until(session_id, "live", "busy")
            case Fate.CUT_OFF:
                visitor.wait_until(session_id, "live", "busy")
                _cut_off(place, tab)
                visitor.wait_until(session_id, "orphaned")
            case _:
                pass  # it is as it should be


def _cut_off(place: Place, tab: str) -> None:
    """As a power cut does: the terminal and what runs in it are gone at once."""
    terminal = find_terminal(place.terminals, tab)
    if terminal is None or terminal.holder is None:
        raise CorralError(f"terminal {tab} is not there")
    for identity in (terminal.holder, terminal.child):
        send_signal(identity, signal.SIGKILL)

    def is_lost() -> bool:
        found = find_terminal(place.terminals, tab)
        return found is None or found.standing is not Standing.RUNNING

    wait_for(is_lost, f"terminal {tab} to be gone")
