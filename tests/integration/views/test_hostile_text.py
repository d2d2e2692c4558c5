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
from urllib.parse import quote

import msgspec
import pytest

from corral.cli.main import COMMANDS, build_parser
from corral.demo.conversation import Home, Session, take_turn
from corral.machine.json_text import encode_json
from corral.model.key import SessionKey
from corral.model.process import identity_fields
from corral.server.app import ENDPOINTS
from corral.server.openapi import describe_api
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import read_identity
from corral.state.bindings import Binding
from corral.state.launches import Launch
from corral.terminals.directory import list_terminals
from tests.integration.server.serving import Serving
from tests.integration.server.strays import write_stray
from tests.integration.server.visitor import Visitor
from tests.integration.terminals.held import kill, wait_until

FIXTURES = Path(__file__).resolve().parents[2] / "providers" / "fixtures"
HOSTILE = (
    "\x1b]52;c;eA==\x07\x1b[2J\x1b[31m\x9b31m\x90q\x7f\x00\x08\r\nINJECTED\u2028INJECTED"
    "\u202egnp\u2066\u2069\u061c\u200e\u200f\ud800" + "L" * 600
)
WELL_FORMED = HOSTILE.replace("\ud800", "")
"""What every reader of JSON lets through; broken Unicode costs a strict one the whole line, and nothing of it is shown."""
IN_PATHS = HOSTILE.replace("\x00", "").replace("\ud800", "").replace("/", "").replace("L" * 600, "L" * 60)
CLAIMED = HOSTILE.replace("\x00", "").replace("\ud800", "").replace("L" * 600, "L" * 60)
"""As far as a runtime.json may have it."""
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
STRUCTURE = re.compile(
    r"type|kind|role|id|.*[iI]d|uuid|.*Uuid|.*_at|.*At|time|timestamp|version|protocol_version|kaos|usageScope|finish.*"
)
"""Without these a record is none of its kind, and nothing of it would be shown."""


def spoil(value: Any, hostile: str, key: str = "") -> Any:
    """Every text in it that is not structure, with hostile text behind it."""
    if isinstance(value, dict):
        return {name: spoil(one, hostile, name) for name, one in value.items()}
    if isinstance(value, list):
        return [spoil(one, hostile, key) for one in value]
    return value + hostile if isinstance(value, str) and not STRUCTURE.fullmatch(key) else value


def spoil_file(path: Path, hostile: str) -> None:
    lines = path.read_text(errors="replace").split("\n")
    if path.suffix == ".json":
        lines = ["\n".join(lines)]
    spoilt: list[str] = []
    for line in lines:
        try:
            spoilt.append(json.dumps(spoil(json.loads(line), hostile)))
        except ValueError:
            spoilt.append(line)
    path.write_text("\n".join(spoilt))


class World:
    """A HOME of somebody hostile: three CLIs, a claim of another host, journals, launches, tabs, a process, paths."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sessions: list[str] = []
        self.work = root / f"work{IN_PATHS}"
        self.work.mkdir()
        self.state = root / ".local" / "state" / "corral"
        self.odd = root / f"odd{IN_PATHS}"
        self._copy_homes()
        for path in sorted(root.rglob("*.json*")):
            if path.is_file():
                spoil_file(path, HOSTILE if path.is_relative_to(self.odd) else WELL_FORMED)
        self.program = root / f"bin{IN_PATHS}" / "kimi"
        write_stray(self.program)
        version = root / "version"
        version.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && printf '%s' '{IN_PATHS}'\n")
        version.chmod(0o755)
        config = root / ".config" / "corral" / "config.toml"
        config.parent.mkdir(parents=True)
        self.resumable = root / f"resumable{IN_PATHS}"
        clis = json.dumps([str(self.silent), str(self.resumable)])
        homes = f"[homes]\nkimi-code = [{json.dumps(str(self.odd))}]\nkimi-cli = {clis}\n"
        programs = f"[programs]\nkimi-cli = {json.dumps(str(self.program))}\nkimi-code = {json.dumps(str(version))}\n"
        config.write_text(homes + programs)
        self._claim_from_another_host()
        self._write_resumable()
        (root / ".kimi" / "config.toml").write_text(f"a = 1\n{json.dumps(IN_PATHS)} =\n")
        # Two agents that say nothing: one that corral started, one that nobody did.
        env = {**self.env, "KIMI_SHARE_DIR": str(self.silent)}
        self.processes = [
            subprocess.Popen([self.program], env=env, cwd=self.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for process in self.processes:
            assert process.stdout is not None and process.stdout.readline() == b"here\n"
        self._leave_records()

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": str(self.root), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

    def _copy_homes(self) -> None:
        """Sessions in every state, and with requests that were counted."""
        self.silent = self.root / f"silent{IN_PATHS}"
        for name, home in (("kimi-cli", ".kimi"), ("kimi-code", ".kimi-code")):
            shutil.copytree(FIXTURES / name, self.root / home)
            shutil.copytree(FIXTURES / f"{name}-usage", self.root / home, dirs_exist_ok=True)
        shutil.copytree(FIXTURES / "kimi-code", self.odd)
        shutil.copytree(FIXTURES / "kimi-cli", self.silent)
        qwen = self.root / ".qwen"
        shutil.copytree(FIXTURES / "qwen-code" / "home", qwen)
        (chats,) = qwen.glob("projects/*/chats")
        for path in (FIXTURES / "qwen-code").glob("usage-*.jsonl"):
            (chats / path.name.removeprefix("usage-")).write_text(path.read_text())
        for path in chats.glob("*.jsonl"):  # no fixture has a branch
            path.write_text(path.read_text().replace('"cwd":', '"gitBranch":"main","cwd":'))
        shutil.copytree(chats.parent, chats.parent.parent / f"scope{IN_PATHS}")
        for path in self.root.glob(".kimi-code/sessions/*/*/agents/agent-0"):
            path.rename(path.parent / f"agent{IN_PATHS}")
        # One that waits for an answer.
        (waiting,) = (FIXTURES / "kimi-code").glob("sessions/*/session_8cb71ee6*/agents/main/wire.jsonl")
        lines = waiting.read_text().splitlines(keepends=True)
        waiting = self.root / ".kimi-code" / waiting.relative_to(FIXTURES / "kimi-code")
        last = max(number for number, line in enumerate(lines) if '"interaction.request"' in line)
        waiting.write_text("".join(lines[: last + 1]))

    def name_sessions(self) -> list[str]:
        """One of each provider and state, and of the home with the odd name."""
        rows = json.loads(self.run("ps", "--all", "--json").stdout)["sessions"]
        rows = [row for row in rows if str(self.root) in row["home"]]
        found = {(row["provider"], row["state"], row["home"] == str(self.odd) and "odd"): row for row in rows}
        return [f"{one['provider']}@{one['home']}:{one['scope']}/{one['session_id']}" for one in found.values()]

    def _write_resumable(self) -> None:
        home = Home(self.resumable, str(self.work))
        assert home.prepare() is None
        session = Session(home, "00000000-0000-4000-8000-000000000001").create(f"t{WELL_FORMED}")
        take_turn(session, f"prompt{WELL_FORMED}")
        home.register(session.id)

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
        states = sorted(self.root.glob(".kimi-code/sessions/*/*/state.json"))
        for state in states[1:]:
            claim = {**record, "session_id": state.parent.name}
            (state.parent / "runtime.json").write_text(json.dumps(claim))
            self.claim = state.parent / "runtime.json"

    def _leave_records(self) -> None:
        me, silent = read_identity(os.getpid()), read_identity(self.processes[0].pid)
        assert me is not None and silent is not None
        dead = (me.boot_id, me.pid_ns, me.pid, me.start_ticks + 1)
        (unclaimed, *_) = sorted(self.root.glob(".kimi-code/sessions/*/*/state.json"))
        (quiet, *_) = sorted(self.silent.glob("sessions/*/*/state.json"))
        for number, (provider, home, state, identity) in enumerate(
            (
                ("kimi-code", self.root / ".kimi-code", unclaimed, dead),
                ("kimi-cli", self.silent, quiet, silent),
            )
        ):
            key = SessionKey(provider, str(home), state.parent.parent.name, state.parent.name)
            launch = Launch(
                key=key,
                identity=identity_fields(ProcessIdentity(*identity)),
                launched_at=time.time() + 3600,  # it is pending for two minutes from then: in every test here
                argv=(WELL_FORMED,),
                cwd=WELL_FORMED,
                silence=f"silent{WELL_FORMED}",
                problem=f"gone{WELL_FORMED}",
            )
            self._put(f"launches/{number}-1.json", launch)
        journal = {"schema": 1, "provider": HOSTILE, "hostname": HOSTILE, "events": []}
        self._put("journal/kimi-code/4711-1.json", journal)
        self._put(f"journal/kimi-code/{IN_PATHS[:40]}.json", {"schema": HOSTILE})
        binding = Binding(
            tab="0123456789abcdef",
            provider="kimi-code",
            home=str(self.odd),
            work_dir=f"/w{WELL_FORMED}",
            opened_at=1.0,
            title=f"title{WELL_FORMED}",
            child=dead,
            silence=f"silent{WELL_FORMED}",
        )
        self._put("bindings/0123456789abcdef.json", binding)
        self._put("bindings/0123456789abcde0.json", {"schema": HOSTILE})

    def _put(self, name: str, body: Any) -> None:
        path = self.state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(body) if isinstance(body, msgspec.Struct) else json.dumps(body).encode())

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

    def corral(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = self.run(*words)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        for terminal in list_terminals(str(self.state / "terminals")):
            for identity in (terminal.child, terminal.holder):
                if identity is not None:
                    kill(identity)
        keeper = self.state / "server" / "keeper.json"
        if keeper.exists():
            kill(ProcessIdentity(*json.loads(keeper.read_text())["process"]))


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


def put_in(view: list[str], session: str, world: World) -> list[str]:
    known = {ONE: session, "{odd}": str(world.odd), "{claim}": str(world.claim)}
    return [known.get(word, word) for word in view]


@pytest.mark.parametrize("command", [name for name in VIEWS if name not in ENDLESS])
def test_no_view_shows_hostile_text_as_it_is(world: World, command: str) -> None:
    for view in VIEWS[command]:
        names = world.sessions if ONE in view else [""]
        for name in names:
            words = put_in(view, name, world)
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


OURS = {
    "words of a closed set, and sentences with nothing foreign in them": """
        activity colour columns conflict detach_key ended events hooks identified_by kind known_by losses meaning mode
        model_source modes name notes notice origin outcome plan problems program provider restore rule sign standing state status
        untraced verdict what""",
    "numbers, money, times, versions of a checked form, facts of corral itself": """
        amount cost currency dated day home_variables listed_as poison proven_versions source time today_cost""",
    "secrets and addresses of corral's own, places that the person chose for it, this very machine": """
        address backup boot_id cache data host login nonce proof salt ticket token url user_home""",
    "ids: whatever has another form is not listed": "agent forked_from from owner parent_id ref session session_id tab to",
    "only asked for; told under the names of its variables or columns": "args env key",
    "the same as in remedy, advice and message; tmux has rules for its names": "command commands target terminal words",
}
"""Fields that nobody else can write into, by their names, in every view, and why not."""


def test_every_field_of_every_view_was_hostile_once_or_is_a_word_of_ours(world: World) -> None:
    """What is new has to be planted above, or named above: nothing is forgotten."""
    told: dict[str, bool] = {}
    serving = Serving(world)
    try:
        Visitor(serving, serving.new_code(), label=f"a{WELL_FORMED}")
        for place in list_places(serving):
            answer = raw_get(serving, place)
            look_at(answer, place)
            note_texts(json.loads(answer), told)
        refs = [row["ref"] for row in serving.ask("GET", "/api/sessions").body["sessions"]]
        for ref in refs:
            answer = raw_post(serving, f"/api/sessions/{ref}/open")
            look_at(answer, ref)
            note_texts(json.loads(answer), told)
        for command, views in VIEWS.items():
            for view in (view for view in views if "--json" in view and command not in ENDLESS):
                for name in world.sessions if ONE in view else [""]:
                    done = world.run(command, *put_in(view, name, world))
                    if done.stdout:
                        note_texts(json.loads(done.stdout), told)
    finally:
        serving.stop()
    log = (world.state / "server" / "log.jsonl").read_bytes()
    assert b"restore_refused" in log
    look_at(log, "the log")
    look_at((world.root / "serve.err").read_bytes(), "what the server printed")
    described = set(list_described_texts())
    hostile = {name for name, was_hostile in told.items() if was_hostile}
    unseen, ours = (set(told) | described) - hostile, {name for names in OURS.values() for name in names.split()}
    assert sorted(unseen - ours) == [], "plant it, or say that it is ours"
    assert sorted(ours - unseen) == [], "it was hostile, or is no more"


def list_places(serving: Serving) -> Iterator[str]:
    """Every address that answers with JSON, with all that can be in it."""
    known = {
        "{ref}": [row["ref"] for row in serving.ask("GET", "/api/sessions").body["sessions"]],
        "{tab}": [row["tab"] for row in serving.ask("GET", "/api/tabs").body["tabs"]],
    }
    odd = quote(str(serving.world.root) + "/", safe="")
    asked = {"/api/usage": ["?by=project", "?by=model", "?by=session"], "/api/directories": [f"?prefix={odd}"]}
    for endpoint in ENDPOINTS:
        if endpoint.method != "GET" or endpoint.gives is None:
            continue
        (found,) = re.findall("{.*?}", endpoint.path) or [""]
        for name in known[found] if found else [""]:
            for query in asked.get(endpoint.path, [""]):
                yield (endpoint.path.replace(found, name) if found else endpoint.path) + query


def note_texts(value: Any, told: dict[str, bool], name: str = "") -> None:
    """Each text by the name of its field, and whether it was hostile."""
    if isinstance(value, dict):
        for key, one in value.items():
            note_texts(one, told, key)
    elif isinstance(value, list):
        for one in value:
            note_texts(one, told, name)
    elif isinstance(value, str):
        told[name] = told.get(name, False) or "INJECTED" in value


def list_described_texts() -> Iterator[str]:
    """Those that may be in an answer, also where it has none now."""
    for schema in json.loads(encode_json(describe_api(ENDPOINTS)))["components"]["schemas"].values():
        for name, form in schema.get("properties", {}).items():
            if '"string"' in json.dumps(form):
                yield name


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
