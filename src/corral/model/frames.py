"""What a terminal's holder and its viewers say to each other. Standard library only: the holder imports it.

How they become bytes is the terminals' own affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

VERSIONS = (1, 2)
"""The lowest and the highest version that this code speaks."""
MAX_INPUT = 1 << 16
"""More than this in one Input is refused; split it."""


class ProtocolError(Exception):
    """The other side does not speak this protocol."""


# --- from the viewer to the holder


class Hello(NamedTuple):
    """The first frame: which versions the viewer speaks."""

    lowest: int = VERSIONS[0]
    highest: int = VERSIONS[1]


class Attach(NamedTuple):
    """Send me output: from an absolute offset on, or (None) what repaints a fresh screen."""

    offset: int | None
    columns: int = 0
    """0: I have no size of my own."""
    rows: int = 0
    visible: bool = True
    picture: bool = False
    """My terminal can't take on another size than its own: paint what is shown, and again whenever the size changes."""


class Input(NamedTuple):
    """What was typed. `in_replay`: made while Output marked `replay` was being shown; answers in it are dropped."""

    data: bytes
    in_replay: bool = False


class Resize(NamedTuple):
    """The viewer's own size; it counts as activity."""

    columns: int
    rows: int


class Visible(NamedTuple):
    """Whether a person sees this viewer now. One that is not seen never holds the program back."""

    visible: bool


class Ask(NamedTuple):
    """Send me an Info."""


class End(NamedTuple):
    """End the program: SIGHUP, then SIGTERM, then SIGKILL, each only if the one before did not do."""


class Leave(NamedTuple):
    """How the program ended has been seen: a holder that stays for its last words may go."""


# --- from the holder to the viewer


class Welcome(NamedTuple):
    """The answer to Hello: the version that is spoken from now on, and the terminal's name."""

    version: int
    tab: str


class Attached(NamedTuple):
    """The answer to Attach: where the stream begins, what the ring has, the size there. Size announces later ones."""

    offset: int
    oldest: int
    head: int
    columns: int
    rows: int


class Output(NamedTuple):
    """What the program wrote, exactly, from this absolute offset on. `replay`: it was written before the Attach."""

    offset: int
    data: bytes
    replay: bool = False


class Gap(NamedTuple):
    """Output from `offset` up to `end` is not sent: it left the ring. A Picture of what it led to follows."""

    offset: int
    end: int


class Modes(NamedTuple):
    """What version 1 has instead of Picture."""

    data: bytes


class Picture(NamedTuple):
    """Write this to a terminal in its first state. It has no offset, as no program wrote it."""

    data: bytes
    first: bool = True
    """Whether a picture begins; else this continues it."""


class Size(NamedTuple):
    """The terminal has another size from here on: between the bytes before and those after it."""

    columns: int
    rows: int


class Exit(NamedTuple):
    """The program has ended: its exit code, or the negative number of the signal. All output was sent before."""

    status: int


class Info(NamedTuple):
    """What the holder knows of itself, as names and texts; docs/terminals.md lists them."""

    fields: Mapping[str, str]


class Failed(NamedTuple):
    """A frame was not obeyed: `version`, `frame`, `input_full`, `too_many_viewers`, `not_attached`; and why."""

    code: str
    message: str


class Unknown(NamedTuple):
    """A kind that this side does not know. To be passed over."""

    kind: int


ViewerFrame = Hello | Attach | Input | Resize | Visible | Ask | End | Leave
HolderFrame = Welcome | Attached | Output | Gap | Modes | Picture | Size | Exit | Info | Failed
Frame = ViewerFrame | HolderFrame | Unknown


class OutputRun(NamedTuple):
    """Output as it came, one frame's payload or several that continue each other: `replay` (1 byte), offset (8), data.

    For one that passes it on as it is.
    """

    payload: bytes
    end: int
    """The offset after its last byte."""
