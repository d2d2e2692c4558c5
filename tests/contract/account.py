"""What corral counted beside what the model server billed: by kind of call, by kind of token."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.contract.corral_cli import WAIT_SECONDS, Corral
from tests.contract.driver import Driver
from tests.contract.model_calls import Billed, Call, Kind
from tests.contract.model_server import ModelServer


class Spent(NamedTuple):
    """Tokens in corral's kinds, which do not overlap."""

    input: int = 0
    cache_read: int = 0
    output: int = 0
    reasoning: int = 0


class _Event(NamedTuple):
    spent: Spent
    is_of_agent: bool


class Account:
    """One home's account. `unrecorded`: kinds of calls whose tokens the CLI writes nowhere."""

    def __init__(
        self, driver: Driver, server: ModelServer, unrecorded: Iterable[Kind], *, tells_reasoning: bool
    ) -> None:
        self.corral = Corral(driver.home, driver.name)
        self._server = server
        self._unrecorded = frozenset(unrecorded)
        self._tells_reasoning = tells_reasoning

    def spent(self, billed: Billed | None) -> Spent:
        """The bill as the CLI can tell it: without `tells_reasoning`, reasoning is a part of the output."""
        if billed is None:
            return Spent()
        reasoning = billed.reasoning if self._tells_reasoning else 0
        return Spent(billed.prompt - billed.cached, billed.cached, billed.output - reasoning, reasoning)

    def owed(self) -> dict[Kind, Spent]:
        """What corral should count, by kind of call."""
        totals = self._server.totals()
        return {kind: self.spent(totals[kind]) for kind in Kind if kind not in self._unrecorded}

    def counted(self) -> dict[Kind, Spent]:
        """What corral has counted, by kind of call: no two calls of a test cost the same, so a cost tells the call."""
        calls = {self.spent(call.billed): call for call in self._server.requests if call.billed}
        events = self._list_events()
        strangers = [event for event in events if event.spent not in calls]
        assert not strangers, f"nobody billed {strangers}"
        twice = [spent for spent, times in Counter(event.spent for event in events).items() if times > 1]
        assert not twice, f"counted more than once: {twice}"
        by_kind = dict.fromkeys(self.owed(), Spent())
        for event in events:
            kind = calls[event.spent].kind
            assert kind not in (Kind.TURN, Kind.SUBAGENT) or event.is_of_agent == (kind is Kind.SUBAGENT), event
            by_kind[kind] = _add((by_kind.get(kind, Spent()), event.spent))
        return by_kind

    def traces(self) -> dict[str, int]:
        """Calls that left a trace without tokens, by corral's word for it."""
        return _traces(self.corral.json("usage"))

    def sessions(self) -> dict[str, Spent]:
        """What corral put on the account of each session."""
        rows = self.corral.json("usage", "--by", "session")["rows"]
        return {row["key"]["session"].rpartition(":")[2]: _tokens(row) for row in rows}

    def wait_counted(self) -> None:
        """Waits until all that was billed is counted: a CLI may show an answer before it writes down what it cost."""
        owed = Spent()
        report: Any = {}
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            report = self.corral.json("usage")
            owed = _add(self.owed().values())
            if _tokens(report["total"]) == owed:
                return
            time.sleep(0.1)
        raise TimeoutError(f"owed {owed}, counted {_tokens(report['total'])}: {self._differences()}")

    def wait_traces(self, expected: Mapping[str, int]) -> None:
        """Waits until exactly these traces are counted."""
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := self.traces()) != expected:
            assert time.monotonic() < deadline, f"traces should be {expected}, and are {found}"
            time.sleep(0.1)

    def settle(self) -> None:
        """The account after all processes have ended: exact at once, and the same if all logs are read anew."""
        report = self.corral.json("usage", "--by", "session")
        owed = self.owed()
        assert self.counted() == owed, self._differences()
        assert _tokens(report["total"]) == _add(owed.values())
        assert report["skipped"] == [] and report["notice"] is None
        home = self.corral.home
        fresh = {**home.env, "CORRAL_STATE_DIR": str(home.root / "fresh-state")}
        anew = Corral(dataclasses.replace(home, env=fresh), self.corral.provider)
        assert anew.json("usage", "--by", "session") == report
        assert self.corral.json("usage", "--by", "session") == report

    def named(self) -> set[str]:
        """Kinds of calls that leave no trace, as the report names them."""
        return {row["kind"] for row in self.corral.json("usage")["unrecorded"] if row["events"] is None}

    def _list_events(self) -> list[_Event]:
        columns = "input, cache_read, output, reasoning, agent IS NOT NULL AS is_of_agent"
        rows = self.corral.json("sql", f"SELECT {columns} FROM usage_events")["rows"]
        return [_Event(Spent(*(row[name] for name in Spent._fields)), bool(row["is_of_agent"])) for row in rows]

    def _differences(self) -> str:
        events = {event.spent for event in self._list_events()}
        owed = {self.spent(call.billed): call for call in self._server.requests if self._is_owed(call)}
        missing = [
            f"{call.number} {call.kind} {call.prompt[:30]!r}" for spent, call in owed.items() if spent not in events
        ]
        return f"not counted {missing}; counted and not owed {events - owed.keys()}"

    def _is_owed(self, call: Call) -> bool:
        return call.billed is not None and call.kind not in self._unrecorded


def _add(parts: Iterable[Spent]) -> Spent:
    return Spent(*(sum(column) for column in zip(Spent(), *parts, strict=True)))


def _tokens(row: Any) -> Spent:
    tokens = row["tokens"]
    assert tokens["cache_write"] == tokens["cache_write_1h"] == 0, tokens
    return Spent(tokens["input"], tokens["cache_read"], tokens["output"], tokens["reasoning"])


def _traces(report: Any) -> dict[str, int]:
    return {row["kind"]: row["events"] for row in report["unrecorded"] if row["events"]}
