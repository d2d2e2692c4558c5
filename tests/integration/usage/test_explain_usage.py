"""`corral usage --explain`: every line of a session that looked like usage, and what became of it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.usage.recorded import Recorded
from tests.integration.usage.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


def explain(world: World, name: str) -> Any:
    done = world.run("usage", "--explain", name, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def outcomes(explanation: Any) -> Counter[str]:
    return Counter(line["outcome"] for line in explanation["lines"])


def test_each_session_counts_what_the_report_says_and_each_line_is_where_it_is_said_to_be(recorded: Recorded) -> None:
    rows = recorded.ask("usage", "--by", "session")["rows"]
    assert {row["key"]["session"].partition(":")[0] for row in rows} == {"kimi-cli", "kimi-code", "qwen-code"}
    for row in rows:
        explanation = recorded.ask("usage", "--explain", row["key"]["session"])
        assert explanation["events"] == row["events"] == outcomes(explanation)["counted"]
        assert explanation["turns"] == row["turns"]
        assert explanation["kept"] == []
        for kind in ("input", "cache_read", "output", "reasoning"):
            counted = [line["tokens"][kind] for line in explanation["lines"] if line["outcome"] == "counted"]
            assert sum(counted) == row["tokens"][kind] == sum(m["tokens"][kind] for m in explanation["models"])
        for line in explanation["lines"]:
            data = Path(line["path"]).read_bytes()
            assert line["offset"] == 0 or data[line["offset"] - 1 : line["offset"]] == b"\n"
            assert data[line["offset"] : line["offset"] + 1] == b"{"


def test_a_forks_lines_belong_to_the_session_that_the_provider_names(recorded: Recorded) -> None:
    for fork, origin in (
        ("session_e95b18ba", "session_bd31fefe-b73e-4e68-9d14-4dcfd1e7cc56"),
        ("6ec99149", "11111111-1111-4111-8111-111111111111"),
    ):
        merged = [line for line in recorded.ask("usage", "--explain", fork)["lines"] if line["outcome"] == "merged"]
        assert merged
        assert {(line["owner"].rpartition("/")[2], line["rule"], line["ambiguous"]) for line in merged} == {
            (origin, "parent", False)
        }


def test_a_mirror_of_a_sub_agent_is_merged_within_its_session(recorded: Recorded) -> None:
    explanation = recorded.ask("usage", "--explain", "kimi-cli:a0000002")
    assert [(file["kind"], file["counted"], file["merged"]) for file in explanation["files"]] == [
        ("sub-agent", 2, 0),
        ("session", 2, 2),
    ]
    assert {line["rule"] for line in explanation["lines"] if line["outcome"] == "merged"} == {"same_session"}


def test_copies_whose_provider_names_no_parent_are_said_to_be_ambiguous(world: World) -> None:
    lines = [world.line() for _ in range(3)]
    world.session("b-original", *lines)
    world.session("a-fork", *lines, world.line())
    owner = explain(world, "a-fork")
    assert outcomes(owner) == {"counted": 4}
    assert [line["ambiguous"] for line in owner["lines"]] == [True] * 3 + [False]
    merged = explain(world, "b-original")["lines"]
    assert [(line["outcome"], line["rule"], line["ambiguous"]) for line in merged] == [("merged", "least_id", True)] * 3
    text = world.run("usage", "--explain", "b-original").stdout
    assert "ambiguous" in text and "a-fork" in text
    assert f"bytes 0, {len(lines[0])}, {len(lines[0] + lines[1])}" in text


def test_a_session_that_an_agent_reported_before_it_spent_owns_the_copies(world: World) -> None:
    journals = world.root / ".local" / "state" / "corral" / "journal" / "kimi-cli"
    journals.mkdir(parents=True)
    start = {"event": "start", "session_id": "b-original", "at": 1_794_000_000.0, "boottime": 1.0, "model": "kimi-k2.6"}
    process = {"boot_id": "b", "pid_ns": 1, "pid": 77, "start_ticks": 5, "hostname": "h"}
    journal = {"schema": 1, "provider": "kimi-cli", "home": str(world.root / ".kimi"), "events": [start], **process}
    (journals / "77-5.json").write_text(json.dumps(journal))
    lines = [world.line() for _ in range(3)]
    world.session("b-original", *lines)
    world.session("a-fork", *lines)
    merged = explain(world, "a-fork")["lines"]
    assert [(line["outcome"], line["rule"], line["ambiguous"]) for line in merged] == [("merged", "journal", False)] * 3
    (model,) = explain(world, "b-original")["models"]
    assert (model["model"], model["known_by"]) == ("kimi-k2.6", "journal")


def test_a_line_that_can_not_be_counted_is_named_with_its_place_and_not_quoted(world: World) -> None:
    good = world.line()
    bad = world.line().replace("400", "-400").replace("chatcmpl", "CANARY")
    wire = world.session("s", good, bad, world.line())
    explanation = explain(world, "s")
    assert outcomes(explanation) == {"counted": 2, "skipped": 1}
    (skipped,) = [line for line in explanation["lines"] if line["outcome"] == "skipped"]
    assert (skipped["path"], skipped["offset"]) == (str(wire), len(good))
    text = world.run("usage", "--explain", "s").stdout
    assert f"byte {len(good)}" in text and skipped["reason"] in text
    assert "CANARY" not in text + json.dumps(explanation)


def test_what_leaves_a_trace_and_no_tokens_is_shown(world: World) -> None:
    compaction = json.dumps({"timestamp": 1_794_000_100, "message": {"type": "CompactionBegin", "payload": {}}}) + "\n"
    world.session("s", world.line(), compaction)
    explanation = explain(world, "s")
    assert explanation["unrecorded"] == {"compaction": 1}
    assert [line["reason"] for line in explanation["lines"] if line["outcome"] == "unrecorded"] == [
        "compaction: the CLI wrote down no tokens"
    ]
    assert any("side questions" in kind for kind in explanation["untraced"])


def test_a_session_whose_logs_are_gone_is_explained_by_the_ledger(world: World) -> None:
    wire = world.session("gone-for-good", world.line(), world.line())
    assert world.events() == 2
    shutil.rmtree(wire.parent)
    explanation = explain(world, "gone")
    assert (explanation["session_id"], explanation["events"]) == ("gone-for-good", 2)
    assert (explanation["files"], explanation["lines"]) == ([], [])
    assert [event["tokens"]["input"] for event in explanation["kept"]] == [400, 400]
    assert "its logs are gone" in world.run("usage", "--explain", "gone").stdout


def test_the_model_and_the_price_come_with_how_they_are_known(world: World) -> None:
    world.session("s", world.line())
    (model,) = explain(world, "s")["models"]
    assert (model["model"], model["known_by"], model["priced_as"]) == ("kimi-k2.5", "config", "kimi-k2.5")
    assert model["source"].startswith("genai-prices") and model["dated"] and model["amount"]
    text = world.run("usage", "--explain", "s").stdout
    assert "assumed" in text and model["source"] in text and model["dated"] in text


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nobody",), 4, "no session named 'nobody'"),
        (("s",), 3, "could be any of 2 sessions"),
        (("s1", "--by", "day"), 2, "--explain is about one whole session"),
        (("no:s1",), 2, "no provider named"),
        (("s/1/..",), 1, "not a session id"),
    ],
)
def test_a_name_that_fits_no_one_session_is_told_so(world: World, words: tuple[str, ...], code: int, said: str) -> None:
    world.session("s1", world.line())
    world.session("s2", world.line())
    done = world.run("usage", "--explain", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
