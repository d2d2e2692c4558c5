"""The scenes of a demonstration, as scenes.toml has them: sessions with a past, and what becomes of each."""

from __future__ import annotations

import os
from enum import StrEnum

import msgspec
from msgspec import Struct

from corral.demo.conversation import Tokens


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
