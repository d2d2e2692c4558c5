"""kimi-code 2.1.0 with a damaged log: what it drops is named before, asked about, and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.providers.kit.foreign_json import is_javascript_json
from tests.contract.corral_cli import Corral
from tests.contract.drive_kimi_code import KimiCode
from tests.contract.steps import corral_terminal
from tests.contract.tab_world import TabWorld
from tests.integration.terminals.held import wait_until


@pytest.fixture
def corral(kimi_code: KimiCode) -> Corral:
    corral = Corral(kimi_code.home, kimi_code.name)
    corral.install_hooks()
    return corral


class Conversation:
    """Three turns, and a sub-agent in the last one."""

    def __init__(self, driver: KimiCode) -> None:
        driver.print_run("my number is 4711")
        (self.session_id,) = driver.session_ids_on_disk()
        driver.print_run("my colour is teal", resume=self.session_id)
        driver.print_run("AGENT:find my tree", resume=self.session_id)
        (self.path,) = (driver.home.data / "sessions").glob("wd_*/*")
        self.main = self.path / "agents" / "main" / "wire.jsonl"
        self.sub = self.path / "agents" / "agent-0" / "wire.jsonl"

    def tear(self, path: Path, number: int) -> bytes:
        lines = path.read_bytes().split(b"\n")
        lines[number - 1] = lines[number - 1][:20]
        path.write_bytes(b"\n".join(lines))
        return path.read_bytes()

    def line_of(self, text: bytes) -> int:
        lines = self.main.read_bytes().split(b"\n")
        return next(number for number, line in enumerate(lines, start=1) if text in line)


def test_a_torn_line_is_refused_until_the_person_agrees(kimi_code: KimiCode, corral: Corral) -> None:
    talk = Conversation(kimi_code)
    line = talk.line_of(b"my colour is teal")
    torn = talk.tear(talk.main, line)
    before = {path: path.read_bytes() for path in talk.path.rglob("*.jsonl")}

    refused = corral.run("resume", talk.session_id)
    assert refused.returncode == 1
    assert "transcript_missing" in refused.stderr and f"line {line} of {talk.main}" in refused.stderr
    plan = corral.json("resume", talk.session_id)["restore"]
    assert (plan["kind"], plan["reason"]) == ("refused", "transcript_missing")
    assert (plan["loss"]["line"], plan["loss"]["path"]) == (line, str(talk.main))
    assert plan["loss"]["prompts"] >= 1
    for verb in ("show", "explain"):
        assert f"line {line} of" in corral.run(verb, talk.session_id).stdout
    wrong = corral.run("resume", talk.session_id, "--print", "--drop-from", str(line + 1))
    assert wrong.returncode == 1
    assert {path: path.read_bytes() for path in talk.path.rglob("*.jsonl")} == before

    terminal = corral_terminal(kimi_code, "resume", talk.session_id)
    terminal.wait_screen("[y/N]")
    terminal.send("n\r")
    assert terminal.wait_exit() == 1
    terminal.close()
    assert talk.main.read_bytes() == torn

    terminal = corral_terminal(kimi_code, "resume", talk.session_id)
    shown = terminal.wait_screen("[y/N]")
    assert f"line {line}" in shown.replace("\n", " ")
    terminal.send("y\r")
    with kimi_code.on(terminal) as agent:
        agent.wait_ready()
        answer = agent.prompt("what do you know?")
        assert "my number is 4711" in str(answer.messages)
        assert "find my tree" not in str(answer.messages)
        wait_until(lambda: bool(corral.rows()[talk.session_id]["warnings"]), "the warning", 60)
        agent.quit()
    (warning,) = corral.rows()[talk.session_id]["warnings"]
    (copy,) = kimi_code.home.root.rglob("copies/kimi-code/*/*-wire.jsonl")
    assert str(copy) in warning
    assert copy.read_bytes() == torn
    assert not talk.main.read_bytes().startswith(torn)


def test_the_page_is_refused_with_the_line_until_the_person_agrees(kimi_code: KimiCode, corral: Corral) -> None:
    talk = Conversation(kimi_code)
    line = talk.line_of(b"my colour is teal")
    torn = talk.tear(talk.main, line)
    world = TabWorld(kimi_code)
    try:
        ref = world.serving.sessions()[talk.session_id]["ref"]
        place = f"/api/sessions/{ref}/open"
        for body in ({}, {"anyway": True}, {"drop_from": line - 1}):
            refused = world.serving.ask("POST", place, {"trust": True, **body})
            assert (refused.status, refused.body["error"]["reason"]) == (409, "transcript_missing")
            assert f"line {line} of" in refused.body["error"]["message"]
            assert refused.body["error"]["loss"]["line"] == line
        assert talk.main.read_bytes() == torn
        opened = world.serving.ask("POST", place, {"trust": True, "drop_from": line})
        assert opened.status == 200, opened
        with world.agent(opened.body["tab"]) as agent:
            answer = agent.prompt("what do you know?")
            assert "my number is 4711" in str(answer.messages)
        wait_until(lambda: bool(corral.rows()[talk.session_id]["warnings"]), "the warning", 60)
        (copy,) = kimi_code.home.root.rglob("copies/kimi-code/*/*-wire.jsonl")
        assert copy.read_bytes() == torn
    finally:
        world.end()


def test_the_log_of_a_sub_agent_is_left_alone_by_a_resume(kimi_code: KimiCode, corral: Corral) -> None:
    talk = Conversation(kimi_code)
    torn = talk.tear(talk.sub, 4)
    with kimi_code.on(corral_terminal(kimi_code, "resume", talk.session_id)) as agent:
        agent.wait_ready()
        assert "my number is 4711" in str(agent.prompt("what do you know?").messages)
        agent.quit()
    assert talk.sub.read_bytes() == torn
    assert corral.rows()[talk.session_id]["warnings"] == []


def test_kimi_code_stops_where_corral_says(kimi_code: KimiCode) -> None:
    kimi_code.print_run("my number is 4711")
    (session_id,) = kimi_code.session_ids_on_disk()
    (main,) = (kimi_code.home.data / "sessions").glob("wd_*/*/agents/main/wire.jsonl")
    whole = main.read_bytes()
    lines = whole.split(b"\n")
    for line, stops in (
        (b"", False),
        (b"5", False),
        (b'{"type": "x", "text": "\xff"}', False),
        (b"   ", True),
        (b"\0\0\0\0", True),
        (b'{"type": "x", "n": NaN}', True),
    ):
        assert (bool(line) and not is_javascript_json(line)) is stops
        damaged = b"\n".join([*lines[:6], line, *lines[6:]])
        main.write_bytes(damaged)
        kimi_code.print_run("and now?", resume=session_id)
        left = main.read_bytes()
        assert left != damaged, "it did not go on"
        assert left.startswith(damaged) is not stops, line
        main.write_bytes(whole)
