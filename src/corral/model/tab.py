"""A tab as views show it."""

from __future__ import annotations

from msgspec import Struct

from corral.model.refusal import RefusalReport


class TabView(Struct, frozen=True, kw_only=True):
    """One tab. `state` is running, starting, ended, gone, refused, queued or resuming."""

    tab: str
    order: int
    provider: str | None
    title: str
    work_dir: str | None
    ref: str | None
    """The session that its process serves now (of a gone one: served last), by the provider's word."""
    state: str
    restorable: bool
    live_only_reason: str | None
    pid: int | None
    exit_status: int | None
    ended: str | None
    """Of one whose program has ended: how, in words."""
    refusal: RefusalReport | None
    activity: str | None
    columns: int
    rows: int


class Progress(Struct, frozen=True, kw_only=True):
    """Of "restore all"."""

    done: int
    total: int
    failed: int
