"""The table of `corral top`: order, figures that are not known, what is shared or may be anybody's, and its width."""

from __future__ import annotations

import pytest

from corral.cli.main import main
from corral.cli.screen import cells
from corral.cli.top import render, say_metered, say_use
from corral.model.metering import (
    MemoryKind,
    MeteredSession,
    MeteredTree,
    Metering,
    Tree,
    Use,
)
from corral.model.verdict import Liveness
from tests.unit.cli.sessions import NOW, session
from tests.unit.sessions.decide.facts import judged

PSS, RSS, MIXED = MemoryKind.PSS, MemoryKind.RSS, MemoryKind.MIXED


def use(cpu: float, memory: int, kind: MemoryKind = PSS, processes: int = 1, unreadable: int = 0) -> Use:
    return Use(processes=processes, cpu_seconds=cpu, memory_bytes=memory, memory_kind=kind, unreadable=unreadable)


def metered(name: str, used: Use | None, percent: float | None = None, reason: str | None = None) -> MeteredSession:
    live = session(name, [judged(Liveness.LIVE, 4711, written_at=NOW)], title="Rate limiter", work_dir="/src/app")
    return MeteredSession(session=live, use=used, cpu_percent=percent, reason=reason)


def metering() -> Metering:
    sessions = (
        metered("aaaaaaaa-1", use(3.0, 50_000_000), 0.0),
        metered("bbbbbbbb-1", use(12.44, 310_000_000, MIXED, 3, unreadable=2), 101.26),
        metered("cccccccc-1", None, reason="it is away"),
        metered("dddddddd-1", use(5000.0, 2_345_000_000), 0.0),
        metered("eeeeeeee-1", None, reason="pid 9 serves 2 sessions: what it uses is charged to none of them"),
    )
    one, *_, other = (each.session.key for each in sessions)
    shared = Tree(pid=9, sessions=(one, other), pids=(9, 10))
    stray = Tree(
        pid=77,
        sessions=(one,),
        reason="its kernel session is that of pid 7 (sh), which belongs to no session",
        pids=(77,),
    )
    return Metering(
        hostname="devbox",
        taken_at=NOW,
        sessions=sessions,
        shared=(MeteredTree(tree=shared, name="node", use=use(8.0, 900_000, processes=2)),),
        strays=(MeteredTree(tree=stray, name="evil\x1b[2J", use=use(1.0, 10_000_000, RSS)),),
    )


def test_rows_are_in_the_order_of_cpu_then_memory_and_the_unknown_is_no_zero():
    lines = render(metering(), width=10_000, colour=False, rates=True)
    assert [line.split() for line in lines[:6]] == [
        ["%CPU", "CPU", "s", "MEMORY", "PROCS", "SESSION", "PROVIDER", "DIR", "TITLE"],
        ["101.3", "12.4", "~310", "MB", "3", "bbbbbbbb", "kimi-cli", "/src/app", "Rate", "limiter"],
        ["0.0", "5,000", "2.3", "GB", "1", "dddddddd", "kimi-cli", "/src/app", "Rate", "limiter"],
        ["0.0", "3.0", "50", "MB", "1", "aaaaaaaa", "kimi-cli", "/src/app", "Rate", "limiter"],
        ["?", "?", "?", "?", "cccccccc", "kimi-cli", "/src/app", "Rate", "limiter"],
        ["?", "?", "?", "?", "eeeeeeee", "kimi-cli", "/src/app", "Rate", "limiter"],
    ]
    assert lines[6:] == [
        "shared: pid 9 (node) serves 2 sessions (aaaaaaaa, eeeeeeee): 2 processes, 8.0 s CPU, 900 kB (PSS); charged to no session",
        "? pid 77 (evil\\x1b[2J): 1 process, 1.0 s CPU, 10 MB (RSS), counted for no session; may belong to aaaaaaaa: "
        "its kernel session is that of pid 7 (sh), which belongs to no session",
        "? bbbbbbbb: 2 processes can't be read",
        "? cccccccc: it is away",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_it_fits_the_width_and_keeps_cpu_and_session(width: int):
    lines = render(metering(), width=width, colour=False, rates=True)
    assert max(map(cells, lines)) <= width
    assert "101.3" in lines[1] and "bbbbbbbb" in lines[1]


def test_one_look_has_no_rate():
    head, *_ = render(metering(), width=10_000, colour=False, rates=False)
    assert head.split()[0] == "CPU"
    empty = Metering(hostname="devbox", taken_at=NOW, sessions=())
    assert render(empty, width=80, colour=False, rates=True) == ["no live sessions"]


def test_what_is_used_in_words():
    assert say_use(use(12.44, 310_000_000, processes=3)) == "3 processes, 12.4 s CPU, 310 MB (PSS)"
    assert say_use(use(0, 999) + use(1.25, 1, RSS, unreadable=1)) == (
        "2 processes, 1.2 s CPU, 1.0 kB (PSS, some RSS); 1 process can't be read"
    )
    assert say_use(Use(processes=1)) == "1 process, 0.0 s CPU, 0 B"
    assert say_metered(metered("a", None, reason="it is away")) == "unknown: it is away"


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_an_interval_that_is_none_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(["top", f"--interval={seconds}"])
    assert left.value.code == 2 and "is not an interval" in capsys.readouterr().err
