"""A ledger of a generated home, damaged in many ways; and all that corral says about it."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

from msgspec import structs

from corral.model.usage_report import UsageQuery, UsageReport
from corral.usage.answers import ask_ledger
from corral.usage.changes import update_ledger
from corral.usage.glance import _sum_today
from corral.usage.ledger import Ledger
from corral.usage.report import report_usage
from corral.usage.sql import ask
from tests.usage_truth.world import World

PAGE = 4096
TABLES = (
    *("about", "sources", "homes", "sessions", "events", "actions", "unrecorded", "skips", "labels", "quarters"),
    *("prices", "memo", "seals", "losses"),
)
_SQL = (
    "SELECT provider, session_id, count(*), sum(tokens), round(sum(cost_usd), 9) FROM usage_events GROUP BY 1, 2",
    "SELECT session_id, turns, tool_calls, requests, tokens FROM usage_sessions ORDER BY 1, 2, 3, 4, 5",
    "SELECT tool, program, count(*) FROM tool_calls GROUP BY 1, 2",
    "SELECT kind, count(*) FROM unrecorded_calls GROUP BY 1",
    "SELECT path, byte_offset, reason FROM skipped_lines ORDER BY 1, 2",
)

Damage = Callable[[Path, random.Random], str | None]
"""What it did, in words; None where there was nothing to damage."""


class Patient:
    """A world that was read once, and its ledger as it was then."""

    def __init__(self, root: Path, seed: int) -> None:
        self.world = World(root, seed)
        self.world.write()
        self.path = Path(self.world.ledger_path)
        self.state = self.path.parent
        # A line that can't be counted, so that there is a skip.
        log = next(path for path in sorted(self.world.root.rglob("wire.jsonl")) if ".kimi/" in str(path))
        with log.open("ab") as file:
            file.write(
                b'{"timestamp": 1794000000.5, "message": {"type": "StatusUpdate", "payload": {"token_usage": 7}}}\n'
            )
        os.environ.clear()
        os.environ.update(self.world.env)
        times = [row[0] for row in self._first_times()]
        self.middle = times[len(times) // 2] + 0.01
        self.truth = self.answers()
        self.answers()  # what is kept for the next time is there now
        with sqlite3.connect(self.path) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        self.whole = self.path.read_bytes()
        self.tables = dump_all(self.path)
        self.journal = self.state / "journal"

    def _first_times(self) -> list[tuple[float]]:
        ask_ledger(update_ledger)
        with sqlite3.connect(self.path) as db:
            found = db.execute("SELECT at FROM events ORDER BY at").fetchall()
        db.close()
        return found

    def reset(self, *, copy: bool = False) -> None:
        """The ledger as it was; with `copy`, one of the day before beside it."""
        for path in self.state.glob("ledger.db*"):
            path.unlink()
        self.path.write_bytes(self.whole)
        if copy:
            (self.state / "ledger.db.1").write_bytes(self.whole)

    def answers(self) -> dict[str, Any]:
        """Of every kind, each checked on its own."""
        found: dict[str, Any] = {}
        queries = {
            "sessions since": UsageQuery(by=("session", "model"), zone=UTC, since=self.middle),
            "days": UsageQuery(by=("day",), zone=UTC),
            "projects until": UsageQuery(by=("project", "branch"), zone=UTC, until=self.middle),
            "provider": UsageQuery(by=("provider",), zone=UTC, provider="kimi-code"),
            "tools": UsageQuery(by=("tool",), zone=UTC),
        }
        for name, query in queries.items():
            found[name] = _plain(ask_ledger(lambda ledger, query=query: _report(ledger, query)))
        today = ask_ledger(lambda ledger: _sum_today(ledger, self.middle + 1))
        found["today"] = (today.requests, today.tokens, today.cost)
        for query in _SQL:
            with ask(query, 60.0, lambda notice: None) as answer:
                found[query] = sorted(answer.rows, key=repr)
        return found

    def report(self) -> UsageReport:
        return ask_ledger(lambda ledger: _report(ledger, UsageQuery(by=("session",), zone=UTC)))


def _report(ledger: Ledger, query: UsageQuery) -> UsageReport:
    update_ledger(ledger)
    return report_usage(ledger, query)


def _plain(report: UsageReport) -> Any:
    return structs.replace(report, notice=None, notes=(), losses=())


def dump_all(path: Path, *, with_memos: bool = False) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table; what only spares work differs from run to run."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        found = {name: sorted(db.execute(f"SELECT * FROM {name}"), key=repr) for name in TABLES if name != "memo"}
        found["definitions"] = db.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()
    db.close()
    return found


def list_columns(path: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as db:
        found = [(name, row[1]) for name in TABLES for row in db.execute(f"PRAGMA table_info({name})")]
    db.close()
    return found


def change_value(table: str, column: str) -> Damage:
    """One value, or several rows' values, by SQL: no page is torn."""

    def damage(path: Path, chance: random.Random) -> str | None:
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA ignore_check_constraints = ON")
            keys = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[5]] or ["rowid"]
            rows = db.execute(f"SELECT {', '.join(keys)}, {column} FROM {table}").fetchall()
            if not rows:
                return None
            *where, value = chance.choice(rows)
            new = chance.choice(list(_other_values(value, chance)))
            condition = " AND ".join(f"{key} IS ?" for key in keys)
            try:
                db.execute(f"UPDATE {table} SET {column} = ? WHERE {condition}", (new, *where))
            except sqlite3.IntegrityError:
                return None
        db.close()
        return f"{table}.{column}: {value!r} became {new!r}"[:200]

    return damage


def _other_values(value: object, chance: random.Random) -> Iterator[object]:
    if isinstance(value, int):
        yield from (value // 2 + 1, -value - 1, value ^ 1, value ^ (1 << chance.randrange(40)), "many", 1 << 61)
    elif isinstance(value, float):
        yield from (value + 0.001, value + 86_400.0, -1.0, "now", 1e300)
    elif isinstance(value, bytes):
        yield from (value + b"x", value[:-1] or b"y", b"\xe3\x01\x00", 7, "text")
    else:
        yield from (f"{value}x", "", 7, b"\xff\xfe", 0.5)


def delete_rows(table: str) -> Damage:
    def damage(path: Path, chance: random.Random) -> str | None:
        with sqlite3.connect(path) as db:
            some = "1" if chance.random() < 0.3 else "abs(random()) % 3 = 0"
            gone = db.execute(f"DELETE FROM {table} WHERE {some}").rowcount
        db.close()
        return f"{gone} rows of {table} are gone" if gone else None

    return damage


def drop(kind: str, name: str) -> Damage:
    def damage(path: Path, chance: random.Random) -> str:
        with sqlite3.connect(path) as db:
            db.execute(f"DROP {kind} {name}")
        db.close()
        return f"{kind} {name} is gone"

    return damage


def replace_table(name: str) -> Damage:
    def damage(path: Path, chance: random.Random) -> str:
        with sqlite3.connect(path) as db:
            db.execute(f"DROP TABLE {name}")
            db.execute(f"CREATE TABLE {name} (a, b, c)")
            db.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", [(chance.random(), b"\xe3", "x")] * 20)
        db.close()
        return f"{name} is another table"

    return damage


def damage_page(number: int) -> Damage:
    """Some bytes of a page, or all of them."""

    def damage(path: Path, chance: random.Random) -> str:
        data = bytearray(path.read_bytes())
        begin = number * PAGE % len(data)
        kind = chance.randrange(6)
        if kind == 0:
            data[begin : begin + PAGE] = chance.randbytes(PAGE)
        elif kind == 1:
            data[begin : begin + PAGE] = bytes(PAGE)
        elif kind == 2:
            other = chance.randrange(len(data) // PAGE) * PAGE
            data[begin : begin + PAGE] = data[other : other + PAGE]
        elif kind == 3:  # the head of the page: how many cells there are, and where
            place = begin + (100 if begin == 0 else 0) + chance.randrange(12)
            data[place] ^= 1 << chance.randrange(8)
        else:
            for _ in range(chance.choice((1, 1, 2, 8))):
                place = begin + chance.randrange(PAGE)
                data[place] ^= chance.randrange(1, 256)
        path.write_bytes(bytes(data))
        return f"page {begin // PAGE + 1}, kind {kind}"

    return damage


def cut(share: float) -> Damage:
    def damage(path: Path, chance: random.Random) -> str:
        data = path.read_bytes()
        end = int(len(data) * share)
        path.write_bytes(data[:end] + (chance.randbytes(len(data) - end) if chance.random() < 0.3 else b""))
        return f"cut at {end}"

    return damage


def forget_logs(world: World) -> None:
    for name in (".kimi", ".kimi-code", ".qwen"):
        shutil.rmtree(world.root / name, ignore_errors=True)
