"""The model of requests that name none: as agents reported it, else as configured when first seen; then it stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.usage_truth.world import World, write_journal

_SESSION = "s"


class _Kimi(World):
    """One session of kimi-cli, and a configuration that changes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, 0)
        self.log = root / ".kimi" / "sessions" / ("0" * 32) / _SESSION / "wire.jsonl"
        self.log.parent.mkdir(parents=True)

    def configure(self, model: str | None) -> None:
        text = "" if model is None else f'default_model = "x"\n[models.x]\nmodel = "{model}"\n'
        (self.root / ".kimi" / "config.toml").write_text(text)

    def append(self, *times: int) -> None:
        with open(self.log, "ab") as file:
            for at in times:
                usage = {"input_other": 1000, "output": 10, "input_cache_read": 0, "input_cache_creation": 0}
                payload = {"token_usage": usage, "message_id": f"m{at}"}
                record: dict[str, Any] = {"timestamp": at, "message": {"type": "StatusUpdate", "payload": payload}}
                file.write(json.dumps(record).encode() + b"\n")

    def report(self, *starts: tuple[int, str], home: str = ".kimi") -> None:
        events = [
            {"event": "start", "session_id": _SESSION, "at": at, "boottime": at, "model": model, "source": "resume"}
            for at, model in starts
        ]
        write_journal(self.root, "kimi-cli", str(self.root / home), events)

    def models(self) -> dict[str | None, int]:
        return {row["key"]["model"]: row["events"] for row in self.usage("--by", "model")["rows"]}


@pytest.fixture
def kimi(tmp_path: Path) -> _Kimi:
    return _Kimi(tmp_path)


def test_a_later_configuration_prices_no_history_anew_even_when_all_is_read_again(kimi: _Kimi) -> None:
    kimi.configure(None)
    kimi.append(1001)
    assert kimi.models() == {None: 1}
    kimi.configure("truth-small")
    kimi.append(1002)
    assert kimi.models() == {None: 1, "truth-small": 1}
    before = kimi.usage()["total"]["cost"]
    kimi.configure("truth-large")
    content = kimi.log.read_bytes()
    kimi.log.unlink()
    kimi.log.write_bytes(b'{"type": "metadata"}\n' + content)
    assert kimi.models() == {None: 1, "truth-small": 1}
    assert kimi.usage()["total"]["cost"] == before


def test_the_model_of_the_last_report_before_the_request_holds(kimi: _Kimi) -> None:
    kimi.configure("truth-small")
    kimi.report((1000, "truth-told"), (2000, "truth-large"))
    kimi.append(999, 1000, 1999, 2001)
    assert kimi.models() == {"truth-small": 1, "truth-told": 2, "truth-large": 1}
    assert kimi.usage()["total"]["cost"]["assumed_events"] == 4


def test_a_report_of_another_home_is_about_another_session(kimi: _Kimi) -> None:
    kimi.configure("truth-small")
    kimi.report((1000, "truth-told"), home="elsewhere")
    kimi.append(1001)
    assert kimi.models() == {"truth-small": 1}
