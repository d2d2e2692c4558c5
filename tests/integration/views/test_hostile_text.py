"""Hostile text in every foreign field, and a look at every view: nothing of it may reach a terminal as it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.cli.main import COMMANDS, build_parser
from corral.sidecar.processes import read_identity
from tests.integration.server.serving import Serving
from tests.integration.terminals.held import wait_until

FIXTURES = Path(__file__).resolve().parents[2] / "providers" / "fixtures"
HOSTILE = (
    "\x1b]52;c;eA==\x07\x1b[2J\x1b[31m\x9b31m\x90q\x7f\x00\x08\r\nINJECTED\u2028INJECTED"
    "\u202egnp\u2066\u2069\u061c\u200e\u200f\ud800" + "L" * 600
)
IN_PATHS = HOSTILE.replace("\x00", "").replace("\ud800", "").replace("/", "").replace("L" * 600, "L" * 60)
CLAIMED = HOSTILE.replace("\x00", "").replace("\ud800", "").replace("L" * 600, "L" * 60)
"""As far as a runtime.json may have it."""
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
STRUCTURE = re.compile(
    r"type|kind|role|id|.*[iI]d|uuid|.*Uuid|.*_at|.*At|time|timestamp|version|protocol_version|kaos|usageScope|finish.*"
)
"""Without these a record is none of its kind, and nothing of it would be shown."""


def spoil(value: Any, key: str = "") -> Any:
    """Every text in it that is not structure, with hostile text behind it."""
    if isinstance(value, dict):
        return {name: spoil(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [spoil(one, key) for one in value]
    return value + HOSTILE if isinstance(value, str) and not STRUCTURE.fullmatch(key) else value


def spoil_file(path: Path) -> None:
    lines = path.read_text(errors="replace").split("\n")
    if path.suffix == ".json":
        lines = ["\n".join(lines)]
    spoilt: list[str] = []
    for line in lines:
        try:
            spoilt.append(json.dumps(spoil(json.loads(line))))
        except ValueError:
            spoilt.append(line)
    path.write_text("\n".join(spoilt))


class World:
    """A HOME of somebody hostile: three CLIs, a claim of another host, journals, launches, a process, paths."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sessions: list[str] = []
        self.work = root / "work"
        self.work.mkdir()
        self.state = root / ".local" / "state" / "corral"
        self.odd = root / f"odd{IN_PATHS}"
        for name in ("kimi-cli", "kimi-code"):
            shutil.copytree(FIXTURES / name, root / f".{name.replace('-cli', '')}")
        shutil.copytree(FIXTURES / "kimi-code", self.odd)
        shutil.copytree(FIXTURES / "qwen-code" / "home", root / ".qwen")
        for path in sorted(root.rglob("*.json*")):
            if path.is_file():
                spoil_file(path)
        config = root / ".config" / "corral" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f"[homes]\nkimi-code = [{json.dumps(str(self.odd))}]\n")
        self._claim_from_another_host()
        self._leave_records()
        (root / ".kimi" / "config.toml").write_text(f"a = 1\n{json.dumps(IN_PATHS)} =\n")
        program = root / f"p\x1b[31m\u202e{'n' * 3}"
        shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
        self.process = subprocess.Popen(["kimi-code", "600"], executable=program, env=self.env)

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": str(self.root), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

    def name_sessions(self) -> list[str]:
        """One of each provider and state, and of the home with the odd name."""
        rows = json.loads(self.run("ps", "--all", "--json").stdout)["sessions"]
        rows = [row for row in rows if str(self.root) in row["home"]]
        found = {(row["provider"], row["state"], row["home"] == str(self.odd) and "odd"): row for row in rows}
        return [f"{one['provider']}@{one['home']}:{one['scope']}/{one['session_id']}" for one in found.values()]

    def _claim_from_another_host(self) -> None:
        record: dict[str, Any] = {
            "schema_version": 1,
            "pid": 4711,
            "work_dir": f"/w{CLAIMED}",
            "hostname": f"host{CLAIMED}",
            "started_at": time.time(),
            "kimi_version": f"1{CLAIMED}",
            "provider": "kimi-code",
        }
        for state in self.root.glob(".kimi-code/sessions/*/*/state.json"):
            claim = {**record, "session_id": state.parent.name}
            (state.parent / "runtime.json").write_text(json.dumps(claim))
            self.claim = state.parent / "runtime.json"

    def _leave_records(self) -> None:
        me = read_identity(os.getpid())
        assert me is not None
        identity = [me.boot_id, me.pid_ns, me.pid, me.start_ticks + 1]
        (state, *_) = self.root.glob(".kimi-code/sessions/*/*/state.json")
        key = {
            "provider": "kimi-code",
            "home": str(self.root / ".kimi-code"),
            "scope": state.parent.parent.name,
            "session_id": state.parent.name,
        }
        launch = {"key": key, "identity": identity, "launched_at": 1.0, "argv": [HOSTILE], "cwd": HOSTILE}
        self._put("launches/1-1.json", {**launch, "problem": f"gone{HOSTILE}", "silence": HOSTILE})
        self._put(
            "journal/kimi-code/4711-1.json", {"schema": 1, "provider": HOSTILE, "hostname": HOSTILE, "events": []}
        )
        self._put(f"journal/kimi-code/{IN_PATHS[:40]}.json", {"schema": HOSTILE})
        binding = {"tab": "0123456789ab", "provider": "kimi-code", "home": HOSTILE, "work_dir": HOSTILE}
        self._put("tabs/0123456789ab.json", {**binding, "opened_at": 1.0, "title": HOSTILE})

    def _put(self, name: str, body: Any) -> None:
        path = self.state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(body))

    def run(self, *words: str, seconds: float = 120) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "corral", *words],
            env=self.env,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("w"))
    try:
        world.sessions = world.name_sessions()
        assert len(world.sessions) >= 5
        yield world
    finally:
        world.end()


ONE = "{session}"
ODD = IN_PATHS
VIEWS: dict[str, list[list[str]]] = {
    "ps": [["--all"], ["--all", "--json"], ["--all", "--usage"], [ODD], ["--all", "-q"], ["-p", ODD], ["--state", ODD]],
    "show": [[ONE], [ONE, "--json"], [ODD]],
    "explain": [[ONE], [ONE, "--json"], [ODD]],
    "pid": [["1"], ["1", "--json"], [ODD]],
    "resume": [[ONE], [ONE, "--print"], [ONE, "--json"], [ONE, "--anyway", "--print"], [ODD], ["--drop-from", ODD]],
    "run": [["kimi-code", "-C", ODD, "--detach", "--yes", "--no-hooks"], [ODD]],
    "attach": [[ONE], [ODD]],
    "terminals": [[], ["--json"], ["--forget", ODD]],
    "kill": [[ONE, "--yes"], [ODD, "--yes"]],
    "serve": [["--port", ODD]],
    "url": [[], ["--json"]],
    "logins": [[], ["--json"], ["--end", ODD]],
    "watch": [["--json"], []],
    "top": [["--once"], ["--json"]],
    "usage": [
        [],
        ["--json"],
        ["--csv"],
        *(["--by", name] for name in ("session", "project", "model", "branch", "tool")),
        *(["--by", name, "--csv"] for name in ("session", "project", "model", "branch", "tool")),
        *(["--by", name, "--json"] for name in ("session", "project", "model", "branch", "tool")),
        ["--explain", ONE],
        ["--explain", ONE, "--json"],
        ["--since", ODD],
    ],
    "sql": [
        *(
            [*shape, f"select * from {view}"]
            for shape in ([], ["--json"], ["--csv"])
            for view in ("usage_events", "usage_sessions", "turns", "tool_calls", "skipped_lines", "log_files")
        ),
        ["--csv", f"select '{HOSTILE.split(chr(0))[0]}' as a"],
        [f"select '{ODD}' as \"{ODD}\""],
        [ODD],
        ["--schema"],
        ["--schema", "--json"],
    ],
    "statusline": [[], ["--json"]],
    "hooks": [
        [verb, *words]
        for verb in ("install", "status", "uninstall")
        for words in ([], ["--json"], ["kimi-code", "--home", "{odd}"], ["kimi-code", "--home", ODD])
    ],
    "sidecar": [
        ["read", "{claim}"],
        ["read", "{claim}", "--json"],
        ["check", "{claim}"],
        ["check", "{claim}", "--json"],
        ["clear", "{claim}"],
        ["write", "{odd}", "--session-id", ODD, "--work-dir", ODD, "--cli", ODD, "--version", ODD],
        ["write", "{odd}", "--session-id", "s", "--work-dir", ODD, "--cli", "x", "--version", ODD, "--json"],
    ],
    "prices": [[ODD], ["--json", ODD], ["--at", ODD]],
    "doctor": [[], ["--json"]],
    "demo": [["--help"]],
    "config": [[], ["--json"], ["path"], [ODD]],
    "completion": [["bash"], [ODD]],
}
ENDLESS = {"watch"}
WITHOUT_SHAPE = {"demo", "serve"}
"""What they print is made elsewhere: the demo's sessions are its own, the server is asked below."""


def test_every_command_and_every_shape_of_its_output_is_looked_at() -> None:
    assert set(VIEWS) == set(COMMANDS)
    for command, views in VIEWS.items():
        if command in WITHOUT_SHAPE:
            continue
        words = {word for view in views for word in view}
        for shape in ("--json", "--csv"):
            assert (shape in _options(command)) <= (shape in words), (command, shape)


def _options(command: str) -> set[str]:
    """All options of a command and of its actions."""
    import argparse

    found: set[str] = set()
    parsers = [build_parser(command)]
    while parsers:
        for action in parsers.pop()._actions:
            found.update(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
    return found


def look_at(told: bytes, what: object) -> None:
    """Nothing that moves a cursor, hides or turns text around; nothing foreign at the begin of a line."""
    text = told.decode("utf-8")
    found = UNSAFE.search(text)
    around = ascii(text[max(0, found.start() - 60) : found.end() + 60]) if found else ""
    assert found is None, f"{what}: {around}"
    injected = [line for line in text.split("\n") if line.lstrip().startswith("INJECTED")]
    assert injected == [], f"{what}: {ascii(injected[0])[:200]}"


@pytest.mark.parametrize("command", [name for name in VIEWS if name not in ENDLESS])
def test_no_view_shows_hostile_text_as_it_is(world: World, command: str) -> None:
    for view in VIEWS[command]:
        names = world.sessions if ONE in view else [""]
        for name in names:
            known = {"{session}": name, "{odd}": str(world.odd), "{claim}": str(world.claim)}
            words = [known.get(word, word) for word in view]
            done = world.run(command, *words)
            look_at(done.stdout, (command, words, "stdout"))
            look_at(done.stderr, (command, words, "stderr"))
            assert done.returncode != 70, done.stderr
            if "--json" in words and done.stdout:
                json.loads(done.stdout)


@pytest.mark.parametrize("words", VIEWS["watch"])
def test_what_is_watched_is_shown_safely(world: World, words: list[str]) -> None:
    command = [sys.executable, "-m", "corral", "watch", *words]
    (state, *_) = sorted(world.root.glob(".kimi-code/sessions/*/*/state.json"))
    process = subprocess.Popen(command, env=world.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        told = b""

        def has_told() -> bool:
            nonlocal told
            told += process.stdout.read() or b"" if process.stdout else b""
            return told.count(b"\n") >= 2

        def change() -> bool:
            body = json.loads(state.read_text())
            body["title"] = f"{time.time()}{HOSTILE}"
            state.write_text(json.dumps(body))
            os.utime(state.parent)
            return has_told()

        wait_until(change, "something told", 60)
    finally:
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
    look_at(told, "watch")
    look_at(errors, "watch")


def test_values_in_json_are_what_they_were(world: World) -> None:
    survey = json.loads(world.run("ps", "--all", "--json").stdout)
    hosts = [row["elsewhere"] for row in survey["sessions"] if row["state"] == "elsewhere"]
    assert hosts and all("\x1b]52" in host and "\u202e" in host and "\x9b" in host for host in hosts if host)
    assert any(row["home"] == str(world.odd) for row in survey["sessions"])


def test_the_server_and_its_logs_tell_it_safely(world: World) -> None:
    serving = Serving(world)
    try:
        rows = serving.ask("GET", "/api/sessions").body["sessions"]
        refs = [row["ref"] for row in rows]
        places = ["/api/sessions", "/api/tabs", "/api/providers", "/api/usage?by=project", "/api/usage?by=model"]
        for place in (*places, *(f"/api/sessions/{ref}" for ref in refs)):
            look_at(raw_get(serving, place), place)
        for ref in refs:
            look_at(raw_post(serving, f"/api/sessions/{ref}/open"), ref)
        look_at(raw_get(serving, f"/api/directories?prefix={IN_PATHS[:1].encode().hex()}"), "directories")
    finally:
        serving.stop()
    log = (world.state / "server" / "log.jsonl").read_bytes()
    assert b"restore_refused" in log
    look_at(log, "the log")
    look_at((world.root / "serve.err").read_bytes(), "what the server printed")


def raw_get(serving: Serving, place: str) -> bytes:
    return raw(serving, "GET", place, None)


def raw_post(serving: Serving, place: str) -> bytes:
    return raw(serving, "POST", place, b'{"trust": true}')


def raw(serving: Serving, method: str, place: str, body: bytes | None) -> bytes:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=60)
    headers = {"Authorization": f"Bearer {serving.token}", "Content-Type": "application/json", "X-Corral": "1"}
    connection.request(method, place, body, {**headers, "Host": serving.host, "Origin": serving.origin})
    try:
        response = connection.getresponse()
        assert response.status not in (401, 403, 421), "it was not let in"
        return response.read()
    finally:
        connection.close()
