"""What the proofs have counted: shown after every run, and after a long one written into docs/reliability.md."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.contract.agents import VERSIONS
from tests.long_run import IS_LONG, KILLS, SEED_VARIABLE, begin

DOCUMENT = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- written by `make contract LONG=1` -->\n", "<!-- end -->\n"
PROPERTY = "figures"
KILLS_OF, REUSES_BY = "kills of ", "reuses by "


def note(node: pytest.Item, name: str, **counts: int) -> None:
    """Counts of one test, to be added to those of the others with the same name."""
    node.user_properties.append((PROPERTY, {"name": name, "counts": counts}))


class Figures:
    """Adds up what the tests noted, in whatever process they ran."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._totals: dict[str, Counter[str]] = {}

    def pytest_report_header(self) -> str:
        return f"what chance decides: {SEED_VARIABLE}={os.environ[SEED_VARIABLE]}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, dict):
                total = self._totals.setdefault(value["name"], Counter())
                total.update({**value["counts"], "seconds": round(report.duration), "failed tests": int(report.failed)})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for name, counts in sorted(self._totals.items()):
            terminalreporter.write_line(f"{name}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if IS_LONG and self._totals and not hasattr(self._config, "workerinput"):
            before, _, rest = DOCUMENT.read_text().partition(BEGIN)
            DOCUMENT.write_text(before + BEGIN + render(self._totals) + END + rest.partition(END)[2])


def register(config: pytest.Config) -> None:
    begin()
    config.pluginmanager.register(Figures(config), "figures")


def render(totals: dict[str, Counter[str]]) -> str:
    return "\n".join([_describe_run(), "", *_tell_kills(totals), "", *_tell_reuses(totals), ""])


def _describe_run() -> str:
    day = time.strftime("%Y-%m-%d", time.gmtime())
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    return f"Run on {day} with `{SEED_VARIABLE}={os.environ[SEED_VARIABLE]}` on {machine}."


def _tell_kills(totals: dict[str, Counter[str]]) -> list[str]:
    lines = [
        "| Killed | kills | live before, where asked | looks at 0, 50 and 200 ms | that said live | "
        "afterwards idle, orphaned, empty | failed tests | minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, counts in sorted(totals.items()):
        cli = name.removeprefix(KILLS_OF)
        if cli == name:
            continue
        looks = ", ".join(str(counts[f"looks at {when} ms"]) for when in (0, 50, 200))
        rest = ", ".join(str(counts[f"then {state}"]) for state in ("idle", "orphaned", "empty"))
        lines.append(
            f"| {cli} {VERSIONS[cli]} | {counts['kills']} of {KILLS} | {counts['live before']} | {looks} | "
            f"**{counts['false live']}** | {rest} | "
            f"{counts['failed tests']} | {counts['seconds'] / 60:.1f} |"
        )
    return lines


def _tell_reuses(totals: dict[str, Counter[str]]) -> list[str]:
    lines = [
        "| Judged by | reuses | live before, where asked | the stranger looks like an agent of that home | "
        "said live or starting | failed tests | minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, counts in sorted(totals.items()):
        way = name.removeprefix(REUSES_BY)
        if way != name:
            lines.append(
                f"| {way} | {counts['reuses']} of {counts['asked for']} | {counts['live before']} | "
                f"{counts['strangers like agents']} | **{counts['false live']}** | {counts['failed tests']} | "
                f"{counts['seconds'] / 60:.1f} |"
            )
    return lines
