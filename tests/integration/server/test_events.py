"""What happens is told: by the kernel's word, in order, to any number of subscribers, none of whom can hold it up."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys

import pytest

from tests.integration.server.test_tabs import say
from tests.integration.terminals.held import WAIT_SECONDS, wait_until


def start_agent(world, *words: str) -> tuple[subprocess.Popen[str], str]:
    """A reference agent that corral did not start; returns it with its session's id."""
    process = subprocess.Popen(
        [str(world.program), "-w", str(world.work), *words],
        env=world.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()[1]


@pytest.fixture
def agent(world):
    """Starts agents that end with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str):
        process, session_id = start_agent(world, *words)
        started.append(process)
        return process, session_id

    yield start
    for process in started:
        process.kill()
        process.communicate()


def type_line(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()
    return process.stdout.readline()


def is_of(session_id: str, **wanted: str):
    return lambda body: (
        body["session"]["session_id"] == session_id
        and all(body.get(key, body["session"].get(key)) == value for key, value in wanted.items())
    )


@pytest.mark.parametrize("last_words", ["a turn", "/new"])
def test_what_an_agent_wrote_last_is_known_when_its_end_is_told(serving, agent, last_words):
    events = serving.events()
    for _ in range(3):
        process, first = agent()
        events.wait_for("session", is_of(first, state="live"))
        process.communicate(f"before\n{last_words}\n", timeout=WAIT_SECONDS)  # it obeys, and ends
        is_left = is_of(first)
        _, body = events.wait_for("session", lambda one, is_left=is_left: is_left(one) and not one["session"]["pid"])
        assert body["session"]["state"] == "idle", body


def test_a_session_appears_is_busy_switches_and_ends_before_the_eyes_of_a_subscriber(serving, agent):
    events = serving.events()
    assert events.wait_for("hello")[1]["event"]
    process, first = agent()
    number, body = events.wait_for("session", is_of(first, state="live"))
    assert body["session"]["pid"] == process.pid and len(body["session"]["ref"]) == 16
    type_line(process, "hello")
    later, _ = events.wait_for("session", lambda one: is_of(first)(one) and one["session"]["title"] == "hello")
    assert later > number
    second = type_line(process, "/new").split()[-1]
    _, switched = events.wait_for("switched", lambda body: body["pid"] == process.pid)
    refs = {one["session_id"]: one["ref"] for one in serving.sessions().values()}
    assert (switched["from"], switched["to"]) == (refs[first], refs[second])
    type_line(process, "a turn")
    process.kill()
    _, body = events.wait_for("session", is_of(second, change="ended"))
    assert body["session"]["pid"] is None
    assert serving.sessions()[second]["state"] == body["session"]["state"]


def test_a_subscriber_that_comes_back_gets_what_it_missed(serving, agent):
    events = serving.events()
    process, session_id = agent()
    number, _ = events.wait_for("session", is_of(session_id, state="live"))
    events.close()
    type_line(process, "missed")
    wait_until(lambda: serving.sessions()[session_id]["title"] == "missed", "the title")
    again = serving.events(after=number)
    found, _ = again.wait_for("session", lambda one: one["session"]["title"] == "missed")
    assert found > number
    again.close()


def test_events_of_an_earlier_server_are_answered_by_a_resync_and_numbers_grow(serving, agent):
    agent()
    events = serving.events()
    number, _ = events.wait_for("hello")
    serving.kill()
    serving.start()
    later = serving.events(after=number)
    found, body = later.wait_for("resync")
    assert found > number and body["reason"]
    fresh = serving.events()
    assert fresh.wait_for("hello")[0] > number


def test_the_list_says_which_events_it_contains(serving, agent):
    process, session_id = agent()
    wait_until(lambda: session_id in serving.sessions(), "the session")
    listed = serving.ask("GET", "/api/sessions").body
    events = serving.events(after=listed["event"])
    events.wait_for("hello")
    process.kill()
    events.wait_for("session", is_of(session_id, change="ended"))


@contextlib.contextmanager
def watching(world, argv: list[str]):
    """`corral watch --json`; gives a function that waits for its next line."""
    # A suite in the background of a script ignores SIGINT, and hands that on.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        watch = subprocess.Popen(argv, env=world.env, stdout=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    assert watch.stdout is not None
    waiting = bytearray()

    def read() -> dict:
        while b"\n" not in waiting:
            assert select.select([watch.stdout], [], [], WAIT_SECONDS)[0], f"no line in {WAIT_SECONDS} s"
            more = os.read(watch.stdout.fileno(), 65536)
            assert more, "it ended"
            waiting.extend(more)
        line, _, rest = bytes(waiting).partition(b"\n")
        waiting[:] = rest
        return json.loads(line)

    read.process = watch  # type: ignore[attr-defined]
    try:
        yield read
        watch.send_signal(signal.SIGINT)
        assert watch.wait(WAIT_SECONDS) == 130
    finally:
        watch.kill()
        watch.wait(WAIT_SECONDS)
        watch.stdout.close()


def wait_for_line(read, session_id: str, **wanted: str) -> dict:
    """The next word about this session that is so: agents of the person's own, or of other tests, are told of, too."""
    while (line := read())["event"] != "session" or not is_of(session_id, **wanted)(line):
        pass
    return line


def test_corral_watch_needs_no_server(world, agent):
    with watching(world, [sys.executable, "-m", "corral", "watch", "--json"]) as read:
        assert read()["event"] == "snapshot"
        process, session_id = agent()
        wait_for_line(read, session_id, state="live")
        process.kill()
        wait_for_line(read, session_id, change="ended")


@pytest.mark.parametrize(("limit", "count"), [("max_inotify_instances", 0), ("max_inotify_watches", 3)])
def test_without_watches_it_looks_now_and_then_and_says_so(world, agent, limit, count):
    """In a user namespace of its own, where the kernel gives so many and no more."""
    words = f"echo {count} > /proc/sys/user/{limit} && exec {sys.executable} -m corral watch --json"
    with watching(world, ["unshare", "-Ur", "sh", "-c", words]) as read:
        steps = [one["step"] for one in read()["degraded"] if one["provider"] == "corral"]
        assert "watch directories" in steps
        _, session_id = agent()
        assert wait_for_line(read, session_id)["change"] == "appeared"


def test_tabs_tell_of_themselves(serving):
    events = serving.events()
    tab = serving.start_tab()
    events.wait_for("tab", lambda body: body["change"] == "opened" and body["tab"]["tab"] == tab)
    events.wait_for("tab", lambda body: body["tab"]["tab"] == tab and body["tab"]["ref"])
    viewer = serving.terminal(tab)
    say(viewer, "a title", b": a title")
    events.wait_for("tab", lambda body: body["tab"]["title"] == "a title")
    viewer.type(b"/quit\r")
    events.wait_for("tab", lambda body: body["tab"]["state"] == "ended")
    viewer.close()
    assert serving.ask("DELETE", f"/api/tabs/{tab}").status == 204
    events.wait_for("tab", lambda body: body["change"] == "closed")
