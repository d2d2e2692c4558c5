"""CLIs that serve sessions to editors and browsers, for real: which of them report through our hooks, and when."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from websockets.sync.client import connect

from corral.sessions.decide.attribution import YOUNG_S
from tests.contract.acp import AcpClient
from tests.contract.corral_cli import Corral
from tests.contract.drive_kimi_cli import KimiCli
from tests.contract.drive_kimi_code import KimiCode
from tests.contract.drive_qwen_code import QwenCode
from tests.contract.driver import Driver
from tests.contract.homes import Home
from tests.contract.processes import cmdline, descendants
from tests.contract.steps import PrintRun, find_session
from tests.contract.web_server import WebServer

WAIT_SECONDS = 60.0


class Told(NamedTuple):
    """One report that our hook wrote down."""

    pid: int
    event: str
    session_id: str
    source: str | None


def reports(driver: Driver) -> list[Told]:
    """What was reported so far, read from the journals themselves."""
    place = driver.home.root / ".local" / "state" / "corral" / "journal" / driver.name
    found: list[Told] = []
    for path in sorted(place.glob("[0-9]*.json")):
        journal = json.loads(path.read_text())
        found += [
            Told(journal["pid"], event["event"], event["session_id"], event.get("source"))
            for event in journal["events"]
        ]
    return found


def wait_told(driver: Driver, pid: int, session_id: str, source: str) -> None:
    """Until the start of that session in that process was reported."""
    wanted = Told(pid, "start", session_id, source)
    wait_until(lambda: wanted in reports(driver), f"{wanted} in {reports(driver)}")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


def corral_with_hooks(driver: Driver) -> Corral:
    corral = Corral(driver.home, driver.name)
    corral.install_hooks()
    return corral


def registered(home: Home, pid: int) -> dict[str, Any]:
    """Qwen's own records of a process that serves many: session id -> record."""
    found = (home.data / "sessions").glob(f"{pid}-*.json")
    return {record["sessionId"]: record for record in (json.loads(path.read_text()) for path in found)}


def qwen_serving_pid(started: int) -> int:
    """The youngest level of the run is the one that has the sessions; hooks and tools run below it.

    One that was just forked for a hook still has the command line of its parent, and is no level.
    """
    programs = [proc for proc in descendants(started) if not proc.is_copy]
    levels = [proc for proc in programs if any(word.endswith("/cli.js") for word in cmdline(proc.pid)[:5])]
    return max(levels, key=lambda proc: (proc.start_ticks, proc.pid)).pid


class TestQwenCode:
    """qwen-code 0.24.4: every session reports twice, by our hook and in the registry, before the answer or right after."""

    def test_acp_reports_a_new_session_before_its_first_prompt(self, qwen_code: QwenCode) -> None:
        corral = corral_with_hooks(qwen_code)
        with AcpClient(["qwen", "--acp"], qwen_code.home) as editor:
            assert reports(qwen_code) == []
            first = editor.new(qwen_code.home.work_dir)
            second = editor.new(qwen_code.home.another_work_dir("other"))
            pid = qwen_serving_pid(editor.pid)
            wait_told(qwen_code, pid, first, "startup")
            wait_told(qwen_code, pid, second, "startup")
            wait_until(lambda: set(registered(qwen_code.home, pid)) == {first, second}, "both in the registry")
            survey = corral.ps()
            listed = [(row["session_id"], row["state"], row["pids"], row["durable"]) for row in survey["sessions"]]
            assert sorted(listed) == sorted([(first, "live", [pid], False), (second, "live", [pid], False)])
            # Both words are about one session each, so its id names it.
            assert corral.run("show", first).returncode == 0
            editor.prompt(first, "hello from an editor")
            row = corral.rows()[first]
            assert (row["state"], row["pids"], row["durable"]) == ("live", [pid], True)

    def test_acp_reports_a_loaded_session_that_it_has_not_written(self, qwen_code: QwenCode) -> None:
        corral = corral_with_hooks(qwen_code)
        qwen_code.print_run("an old one")
        old = find_session(qwen_code, "an old one")
        elsewhere = qwen_code.home.another_work_dir("editor")
        with AcpClient(["qwen", "--acp"], qwen_code.home, cwd=elsewhere) as editor:
            editor.load(old, qwen_code.home.work_dir)
            pid = qwen_serving_pid(editor.pid)
            wait_told(qwen_code, pid, old, "resume")
            wait_until(lambda: old in registered(qwen_code.home, pid), "in the registry")
            corral.wait_live({old: [pid]})
        corral.wait_resting({old: "idle"})

    def test_a_silent_server_has_no_session_as_long_as_hooks_work(self, qwen_code: QwenCode) -> None:
        corral = Corral(qwen_code.home, qwen_code.name)
        qwen_code.print_run("an old one")
        old = find_session(qwen_code, "an old one")
        with AcpClient(["qwen", "--acp"], qwen_code.home) as editor:
            pid = qwen_serving_pid(editor.pid)
            survey = corral.ps()  # without hooks it can have loaded any session
            assert [(one["pid"], one["advice"]) for one in survey["unattributed"]] == [
                (pid, "corral hooks install qwen-code")
            ]
            assert [(row["state"], row["maybe_pids"]) for row in survey["sessions"]] == [("unknown", [pid])]
        corral.install_hooks()
        with AcpClient(["qwen", "--acp"], qwen_code.home) as editor:
            pid = qwen_serving_pid(editor.pid)
            time.sleep(YOUNG_S + 2.0)  # a start never takes that long
            survey = corral.ps()
            assert ([one["pid"] for one in survey["no_session_yet"]], survey["unattributed"]) == ([pid], [])
            assert corral.states() == {old: "idle"}

    def test_the_registry_alone_knows_it_too(self, qwen_code: QwenCode) -> None:
        bare = Corral(qwen_code.home, qwen_code.name)
        qwen_code.print_run("an old one")
        old = find_session(qwen_code, "an old one")
        with AcpClient(["qwen", "--acp"], qwen_code.home) as editor:
            fresh = editor.new(qwen_code.home.work_dir)
            editor.load(old, qwen_code.home.work_dir)
            pid = qwen_serving_pid(editor.pid)
            bare.wait_live({fresh: [pid], old: [pid]})
            assert len(bare.ps()["sessions"]) == 2

    def test_serve_reports_new_and_loaded_sessions(self, qwen_code: QwenCode) -> None:
        corral = corral_with_hooks(qwen_code)
        qwen_code.print_run("an old one")
        old = find_session(qwen_code, "an old one")
        with WebServer(["qwen", "serve"], qwen_code.home, root="", probe="/health") as server:
            where = {"cwd": str(qwen_code.home.work_dir)}
            fresh = server.ask("POST", "/session", where)["sessionId"]
            pid = qwen_serving_pid(server.pid)
            wait_told(qwen_code, pid, fresh, "startup")
            server.ask("POST", f"/session/{old}/load", where)
            wait_told(qwen_code, pid, old, "resume")
            wait_until(lambda: set(registered(qwen_code.home, pid)) == {fresh, old}, "both in the registry")
            corral.wait_live({fresh: [pid], old: [pid]})
            assert len(corral.ps()["sessions"]) == 2
        corral.wait_resting({old: "idle"})


class TestKimiCode:
    """kimi-code 2.1.0: whatever loads a session reports it, also a mere look at it in the browser."""

    def test_acp_reports_new_and_loaded_sessions(self, kimi_code: KimiCode) -> None:
        corral = corral_with_hooks(kimi_code)
        kimi_code.print_run("an old one")
        old = find_session(kimi_code, "an old one")
        elsewhere = kimi_code.home.another_work_dir("editor")
        with AcpClient(["kimi", "acp"], kimi_code.home, cwd=elsewhere) as editor:
            fresh = editor.new(kimi_code.home.work_dir)
            wait_told(kimi_code, editor.pid, fresh, "startup")
            editor.load(old, kimi_code.home.work_dir)
            wait_told(kimi_code, editor.pid, old, "resume")
            corral.wait_live({fresh: [editor.pid], old: [editor.pid]})

    def test_a_silent_server_has_no_session_as_long_as_hooks_work(self, kimi_code: KimiCode) -> None:
        corral = Corral(kimi_code.home, kimi_code.name)
        kimi_code.print_run("an old one")
        old = find_session(kimi_code, "an old one")
        elsewhere = kimi_code.home.another_work_dir("editor")
        with AcpClient(["kimi", "acp"], kimi_code.home, cwd=elsewhere) as editor:
            survey = corral.ps()  # without hooks it can have loaded any session
            assert [(one["pid"], one["advice"]) for one in survey["unattributed"]] == [
                (editor.pid, "corral hooks install kimi-code")
            ]
            assert [(row["state"], row["maybe_pids"]) for row in survey["sessions"]] == [("unknown", [editor.pid])]
        corral.install_hooks()
        with AcpClient(["kimi", "acp"], kimi_code.home, cwd=elsewhere) as editor:
            time.sleep(YOUNG_S + 2.0)
            survey = corral.ps()
            assert ([one["pid"] for one in survey["no_session_yet"]], survey["unattributed"]) == ([editor.pid], [])
            assert corral.states() == {old: "idle"}

    def test_web_reports_what_it_makes_shows_and_is_asked(self, kimi_code: KimiCode) -> None:
        corral = corral_with_hooks(kimi_code)
        kimi_code.print_run("one is looked at")
        kimi_code.print_run("one is read")
        kimi_code.print_run("one is prompted")
        looked_at = find_session(kimi_code, "one is looked at")
        read = find_session(kimi_code, "one is read")
        prompted = find_session(kimi_code, "one is prompted")
        argv = ["kimi", "web", "--no-open", "--dangerous-bypass-auth"]
        with WebServer(argv, kimi_code.home, root="/api/v1", probe="/meta") as server:
            before = len(reports(kimi_code))
            assert len(server.ask("GET", "/sessions")["data"]["items"]) == 3
            assert len(reports(kimi_code)) == before  # a list loads none of them
            where = {"metadata": {"cwd": str(kimi_code.home.work_dir)}}
            fresh = server.ask("POST", "/sessions", where)["data"]["id"]
            wait_told(kimi_code, server.pid, fresh, "startup")
            server.ask("GET", f"/sessions/{looked_at}/snapshot")
            wait_told(kimi_code, server.pid, looked_at, "resume")
            server.ask("GET", f"/sessions/{read}/messages")
            wait_told(kimi_code, server.pid, read, "resume")
            text = {"content": [{"type": "text", "text": "from the browser"}]}
            server.ask("POST", f"/sessions/{prompted}/prompts", text)
            wait_told(kimi_code, server.pid, prompted, "resume")
            corral.wait_live({one: [server.pid] for one in (fresh, looked_at, read, prompted)})


class TestKimiCli:
    """kimi-cli 1.51.0: only its terminal and print runs report. A server of it never does, not even at a prompt.

    So it casts its doubt from the first instant: that it has not reported yet says nothing.
    """

    def test_acp_reports_nothing(self, kimi_cli: KimiCli) -> None:
        corral = corral_with_hooks(kimi_cli)
        kimi_cli.print_run("an old one")
        old = find_session(kimi_cli, "an old one")
        before = reports(kimi_cli)
        assert [(told.event, told.session_id) for told in before] == [("start", old), ("end", old)]
        _pretend_login(kimi_cli.home.data)
        elsewhere = kimi_cli.home.another_work_dir("editor")  # a server reaches the whole home
        with AcpClient(["kimi", "acp"], kimi_cli.home, cwd=elsewhere) as editor:
            editor.load(old, kimi_cli.home.work_dir)
            self._require_doubt(corral, old, editor.pid)
            fresh = editor.new(kimi_cli.home.work_dir)
            editor.prompt(fresh, "a new one from the editor")
            editor.prompt(old, "an old one from the editor")
            assert find_session(kimi_cli, "an old one from the editor") == old
        assert reports(kimi_cli) == before

    def test_web_and_its_workers_report_nothing(self, kimi_cli: KimiCli) -> None:
        corral = corral_with_hooks(kimi_cli)
        kimi_cli.print_run("an old one")
        old = find_session(kimi_cli, "an old one")
        before = reports(kimi_cli)
        assert [(told.event, told.session_id) for told in before] == [("start", old), ("end", old)]
        argv = ["kimi", "web", "--no-open", "--dangerously-omit-auth"]
        with WebServer(argv, kimi_cli.home, root="/api", probe="/sessions/") as server:
            server.ask("POST", "/sessions/", {"work_dir": str(kimi_cli.home.work_dir)})
            with connect(f"ws://127.0.0.1:{server.port}/api/sessions/{old}/stream") as page:
                text = {"user_input": "from the browser"}
                page.send(json.dumps({"jsonrpc": "2.0", "id": "1", "method": "prompt", "params": text}))
                while json.loads(page.recv(timeout=WAIT_SECONDS)).get("id") != "1":
                    pass
                assert find_session(kimi_cli, "from the browser") == old
                # Each open session has a worker of its own, which is what serves it.
                (worker,) = [proc.pid for proc in descendants(server.pid) if proc.pid != server.pid]
                self._require_doubt(corral, old, worker)
        assert reports(kimi_cli) == before

    def test_a_print_run_turns_nothing_unknown(self, kimi_cli: KimiCli) -> None:
        """It needs no terminal either, and has not reported while it starts."""
        corral = corral_with_hooks(kimi_cli)
        kimi_cli.print_run("an old one")
        old = find_session(kimi_cli, "an old one")
        run = PrintRun(kimi_cli, "SLOW3 a new one")
        looks: list[tuple[str, bool]] = []
        while run.is_running():
            survey = corral.ps()
            states = {row["session_id"]: row["state"] for row in survey["sessions"]}
            looks.append((states[old], bool(survey["no_session_yet"])))
            assert survey["unattributed"] == []
        run.wait()
        assert {state for state, _ in looks} == {"idle"}
        assert any(has_none for _, has_none in looks)  # it was seen before it reported

    def _require_doubt(self, corral: Corral, session_id: str, pid: int) -> None:
        survey = corral.ps()
        (row,) = [row for row in survey["sessions"] if row["session_id"] == session_id]
        assert (row["state"], row["maybe_pids"]) == ("unknown", [pid]), row
        (silent,) = survey["unattributed"]
        assert silent["pid"] == pid
        assert silent["advice"].startswith(f"quit pid {pid}"), silent
        refused = corral.run("resume", session_id)
        assert refused.returncode == 1 and "maybe_open" in refused.stderr, refused.stderr


def _pretend_login(data: Path) -> None:
    """`kimi acp` wants a login to be there, and then asks the model of the configuration, which is ours."""
    (data / "credentials").mkdir(exist_ok=True)
    token = {"access_token": "fake", "refresh_token": "fake", "expires_at": time.time() + 86400, "expires_in": 86400}
    (data / "credentials" / "kimi-code.json").write_text(json.dumps({**token, "scope": "", "token_type": "Bearer"}))
