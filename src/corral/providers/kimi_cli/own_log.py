"""The log that a running kimi-cli keeps open: its home, the sessions the process opened, and what it could have open.

Every opening and every switch writes one line. All processes of a home write to the same file, and a prompt in it
may contain anything; so a line found can be another's or forged, and only adds a session that may be open. What
makes a single session certain is that the process's own line can't be missing: see docs/how-corral-knows.md.
"""

from __future__ import annotations

import calendar
import os
import re
import time
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import structs

from corral.machine import procfs
from corral.machine.processes import Process
from corral.model.key import is_valid_id
from corral.model.process import WHOLE_HOME, Opening, OwnLog, Reach
from corral.providers.kit.open_logs import LogReader, OpenLog, find_open_log

LOG_PROVEN = ("1.51.0",)
"""Versions whose lines, and whose order of steps at a start, were read in the source and seen (2026-11)."""

_LARGEST = 32 << 20
_ROTATES_AT = 6 * 3600.0
"""kimi 1.51: the first line that a process writes after 06:00, local time, goes to a new file (2026-11)."""
_DAY = 86400.0
_CLOCK_SLACK_S = 1.0
_SAME_ZONE_S = 60.0
"""Zones differ by quarters of an hour at least; a busy machine writes a line some seconds late."""
_START_S = 120.0
"""How long a start may take. A session chosen from its list later than that looks like a lost line."""
_FOLD_S = 3 * 3600.0

_STAMP = rb"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{3}) \| "
_RECORD = re.compile(_STAMP)
_MARKS = (b" | kimi_cli.cli:_run:", b" | kimi_cli.acp:acp_main:")
_OWN_LINES = re.compile(
    rb" \| kimi_cli\.(?:"
    rb"cli:_run:\d+ \| [^|\n]*- (?:(Created new|Resuming|Continuing previous) session: ([^\n]*)"
    rb"|Session ([^\n]*) not found, creating new session)"
    rb"|acp:acp_main:\d+ \| )"
)
_BEFORE = len("2026-11-17 05:46:36.901 | INFO    ")


class _Line(NamedTuple):
    end: int
    stamp: float | None
    """Local time as if it were UTC; None where none is readable before it."""
    session_id: str | None
    """None: a server of many sessions began."""
    is_new: bool
    is_opening: bool


class _Parsed(NamedTuple):
    lines: list[_Line]
    last_stamp: float | None
    """Of the last record in the file."""


def find_log(process: Process) -> OpenLog | None:
    """By the directory: another process may have renamed the file, or deleted it, since it was opened."""
    return find_open_log(process, _is_log)


def home_of(log: OpenLog) -> str:
    return log.path.rpartition("/")[0].rpartition("/")[0]


def _is_log(path: str) -> bool:
    directory, _, name = path.rpartition("/")
    home, _, last = directory.rpartition("/")
    # Its output may go to a file in some directory of that name, too.
    return last == "logs" and bool(home) and (name.startswith("kimi.") or os.path.exists(f"{home}/kimi.json"))


def read_own_log(process: Process, log: OpenLog) -> OwnLog:
    """What the process wrote there about sessions, from its start to its own last line."""
    found = OwnLog(path=log.name, pid=(procfs.read_ns_pids(process.pid) or (process.pid,))[-1])
    if not _has_opened_one(process):
        reason = "it has opened no session yet, or has become a web server"
        return structs.replace(found, has_begun=False, reason=reason)
    read = _READER.read(process, log)
    if isinstance(read, str):
        return structs.replace(found, reason=read)
    parsed, status = read
    span = _Span.since(process.started_at)
    lines = [
        line for line in parsed.lines if line.end <= log.position and (line.stamp is None or line.stamp >= span.begin)
    ]
    new = {line.session_id for line in lines if line.is_new}
    problem = _find_gap(lines, span, log, parsed, status)
    return structs.replace(
        found,
        file=(status.st_dev, status.st_ino),
        openings=tuple(
            Opening(line.end, line.session_id, (line.stamp or 0.0) - span.offset, line.session_id in new)
            for line in lines
            if line.is_opening and line.session_id and is_valid_id(line.session_id)
        ),
        whole=problem is None,
        beside_server=any(line.session_id is None and (line.stamp or 0.0) <= span.start_end for line in lines),
        reason=problem,
    )


def _has_opened_one(process: Process) -> bool:
    """kimi 1.51 leads stderr into a pipe of its own right after the line that names its first session.

    Before, in its list of sessions, and again when it turns into a web server, stderr is what it was given. `acp`
    and the workers of the web page do it as soon as they have opened the log (2026-11).
    """
    links = dict(process.descriptors())
    pipe = links.get(2, "")
    if not pipe.startswith("pipe:"):
        return False
    ends = [procfs.read_descriptor(process.pid, number) for number, path in links.items() if path == pipe]
    return any(end is not None and end.flags & os.O_ACCMODE == os.O_RDONLY for end in ends)


def _find_gap(lines: list[_Line], span: _Span, log: OpenLog, parsed: _Parsed, status: os.stat_result) -> str | None:
    """Why a line of this very process may be missing among these, or be no such line; None if neither can be."""
    written = _local(status.st_mtime)
    if written >= span.rotation - _CLOCK_SLACK_S:
        return "it may have begun a new log since it started"
    if log.position == status.st_size and not _agree(parsed.last_stamp, written):
        return "its log is in another time zone, or its clock was set"
    if any(line.session_id is None for line in lines):
        return "its log is shared with a server, which it may be itself"
    if any(line.stamp is None or not is_valid_id(line.session_id or "") for line in lines):
        return "its log has lines that can't be read"
    if not any(line.is_opening and (line.stamp or 0.0) <= span.start_end for line in lines):
        return "its log names no session near its start"
    return None


def _agree(stamp: float | None, written: float) -> bool:
    return stamp is not None and abs(stamp - written) <= _SAME_ZONE_S


class _Span(NamedTuple):
    """The life of a process in the local time that its log is written in."""

    begin: float
    start_end: float
    rotation: float
    offset: float

    @classmethod
    def since(cls, started_at: float) -> _Span:
        # In the night when clocks are set back an hour comes twice: what was written in the second must not be missed.
        offsets = (_offset(started_at), _offset(started_at + _FOLD_S))
        begin = started_at + min(offsets) - _CLOCK_SLACK_S
        rotation = begin - begin % _DAY + _ROTATES_AT
        if rotation <= begin:
            rotation += _DAY
        return cls(begin, started_at + max(offsets) + _START_S, rotation, offsets[0])


def _offset(at: float) -> float:
    return float(time.localtime(at).tm_gmtoff)


def _local(at: float) -> float:
    return at + _offset(at)


def _parse(data: bytes) -> _Parsed:
    return _Parsed(sorted(_find_lines(data), key=lambda line: line.end), _find_last_stamp(data))


_READER = LogReader(_parse, _LARGEST)


def _find_lines(data: bytes) -> Iterator[_Line]:
    """Wherever they are: after a write that was cut off, a line follows on the remains of another."""
    for mark in _MARKS:
        start = data.find(mark)
        while start >= 0:
            if match := _OWN_LINES.match(data, start):
                yield _parse_line(data, match)
            start = data.find(mark, start + 1)


def _parse_line(data: bytes, match: re.Match[bytes]) -> _Line:
    how, opened, missing = match.groups()
    end = data.find(b"\n", match.start()) + 1 or len(data)
    named = opened if missing is None else missing
    stamp = _parse_stamp(data[max(match.start() - _BEFORE, 0) : match.start()])
    if end < len(data) and _RECORD.match(data, end) is None:
        stamp = None  # an id that goes on in the next line
    session_id = None if named is None else named.decode(errors="replace")
    return _Line(end, stamp, session_id, missing is not None or how == b"Created new", opened is not None)


def _find_last_stamp(data: bytes) -> float | None:
    end = len(data)
    while end > 0:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        if (stamp := _parse_stamp(data[begin:end])) is not None:
            return stamp
        end = begin
    return None


def _parse_stamp(line: bytes) -> float | None:
    """Local time as if it were UTC."""
    match = _RECORD.match(line)
    if match is None:
        return None
    *date, thousandths = map(int, match.groups())
    try:
        return calendar.timegm((*date, 0, 0, 0)) + thousandths / 1000
    except (ValueError, OverflowError):
        return None


_STARTING_S = 60.0


def find_reach(process: Process, home: str) -> Reach:
    """Its terminal UI opens sessions of its own work directory only.

    kimi 1.51.0: its list shows those of other directories, and refuses them; `--session` of another directory's id
    makes a new session here (2026-11). `acp` and `web` open any, and need no terminal, or listen. While it starts,
    its directory is the one it was called in, with `-w` another than the session's: then only its log says which.
    """
    if process.is_on_terminal is not True or process.listens is not False or process.cwd_id is None:
        return WHOLE_HOME
    log = find_log(process)
    own = read_own_log(process, log) if log is not None else OwnLog(path="", pid=process.pid)
    if own.beside_server:
        return WHOLE_HOME
    if not own.whole and time.time() - process.started_at < _STARTING_S:
        return WHOLE_HOME
    return Reach(directories=(process.cwd_id,), ids=own.session_ids, renamed=not own.whole)
