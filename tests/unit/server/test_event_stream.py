"""One ring for all subscribers: in order, resumable, bounded, and honest about what it lost."""

from __future__ import annotations

import asyncio
import json

from corral.server.event_stream import MOST_BYTES, MOST_EVENTS, EventStream


def parse(text: bytes) -> list[tuple[int, str, object]]:
    found = []
    for block in text.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((int(lines["id"]), lines["event"], json.loads(lines["data"])))
    return found


async def take(stream: EventStream, after: int | None, count: int) -> list[tuple[int, str, object]]:
    found: list[tuple[int, str, object]] = []
    async for part in stream.follow(after, {}):
        found += parse(part)
        if len(found) >= count:
            break
    return found


def test_all_events_come_in_order_from_where_one_was():
    async def run():
        stream = EventStream(3)
        for number in range(200):
            stream.publish("session", {"n": number})
        found = await take(stream, 3_000_000_050, 151)
        assert [name for _, name, _ in found[:1]] == ["hello"]
        assert [body for _, _, body in found[1:]] == [{"n": number} for number in range(50, 200)]
        assert [number for number, _, _ in found[1:]] == list(range(3_000_000_051, 3_000_000_201))

    asyncio.run(run())


def test_who_comes_new_gets_what_happens_from_then_on():
    async def run():
        stream = EventStream(1)
        stream.publish("session", {"n": "before"})
        task = asyncio.create_task(take(stream, None, 2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        stream.publish("session", {"n": "after"})
        assert (await task)[-1][2] == {"n": "after"}

    asyncio.run(run())


def test_numbers_of_another_start_or_of_the_future_are_answered_by_a_resync():
    async def run():
        stream = EventStream(5)
        stream.publish("session", {})
        for after in (4_000_000_001, 5_000_000_999, 0):
            found = await take(stream, after, 2)
            assert [name for _, name, _ in found] == ["hello", "resync"]
            assert found[1][0] == stream.newest

    asyncio.run(run())


def test_a_subscriber_that_is_too_slow_gets_one_resync_and_then_what_is_new():
    async def run():
        stream = EventStream(1)
        follow = stream.follow(None, {})
        assert parse(await anext(follow))[0][1] == "hello"
        stream.publish("session", {"n": -1})
        assert parse(await anext(follow))[0][2] == {"n": -1}
        for number in range(MOST_EVENTS + 1):
            stream.publish("session", {"n": number})
        ((number, name, _),) = parse(await anext(follow))
        assert (number, name) == (stream.newest, "resync")
        stream.publish("session", {"n": "new"})
        assert parse(await anext(follow))[0][2] == {"n": "new"}

    asyncio.run(run())


def test_large_events_are_bounded_by_bytes():
    async def run():
        stream = EventStream(1)
        for _ in range(100):
            stream.publish("session", {"text": "x" * (MOST_BYTES // 10)})
        held = [part async for part in _until_quiet(stream)]
        assert sum(map(len, held)) <= MOST_BYTES + 1000

    asyncio.run(run())


async def _until_quiet(stream: EventStream):
    follow = stream.follow(stream.newest - 8, {})
    for _ in range(2):
        yield await anext(follow)


def test_paths_that_are_no_utf8_are_named_not_dropped():
    async def run():
        stream = EventStream(1)
        stream.publish("session", {"path": "/a\udcff"})
        found = await take(stream, 1_000_000_000, 2)
        assert found[1][2] == {"path": "/a\udcff"}

    asyncio.run(run())


def test_a_stream_in_which_nothing_happens_beats(monkeypatch):
    monkeypatch.setattr("corral.server.event_stream.BEAT_SECONDS", 0.01)

    async def run():
        stream = EventStream(1)
        follow = stream.follow(None, {})
        assert parse(await anext(follow))[0][1] == "hello"
        for _ in range(3):
            beat = await anext(follow)
            assert beat.startswith(b"event: beat\n") and b"id:" not in beat  # it moves nobody's place in the stream
        stream.publish("session", {"n": 1})
        assert parse(await anext(follow))[0][2] == {"n": 1}

    asyncio.run(run())
