"""Who gets in: every route and every scope, enumerated from the table, refused before any state without the right words."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from corral.server.app import ENDPOINTS
from corral.server.guard import OPEN_FOLDER, OPEN_PATHS, PROOFS
from tests.integration.server.serving import Answer, Serving

OPEN = {("GET", path) for path in OPEN_PATHS} | {("POST", path) for path in PROOFS}
ROUTES = [(one.method, one.path.replace("{name:path}", "x.js").replace("{", "").replace("}", "")) for one in ENDPOINTS]
CLOSED = [route for route in ROUTES if route not in OPEN and not route[1].startswith(OPEN_FOLDER)]


@pytest.fixture
def serving(shared_serving):
    return shared_serving


@pytest.fixture(scope="module")
def visitor(shared_serving):
    return shared_serving.log_in()


def call(serving: Serving, method: str, path: str, headers: dict[str, str | None]) -> int:
    """The status; of a WebSocket, that of its refusal, or 101."""
    if method != "WS":
        return serving.raw(method, path, {}, headers=headers).status
    words = {"Host": serving.host, "Origin": serving.origin, **headers}
    return upgrade(serving, path, words)


def upgrade(serving: Serving, path: str, headers: dict[str, str | None]) -> int:
    """An upgrade with exactly these headers."""
    more = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    more["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    return serving.raw("GET", path, None, headers={**more, **headers}).status


@pytest.mark.parametrize(
    "credential",
    [
        {},
        {"Cookie": "corral_{port}={token}; token={token}"},
        {"Authorization": "Corral "},
        {"Authorization": "Corral {token}"},
        {"Sec-WebSocket-Protocol": "corral, ticket."},
        {"Sec-WebSocket-Protocol": "corral, ticket.{token}"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer {token}0"},
        {"Authorization": "Basic {token}"},
    ],
    ids=str,
)
def test_nobody_gets_in_without_the_right_credential(serving, credential):
    """On every route at once: wrong ones are answered slowly."""
    headers = {name: value.format(port=serving.port, token=serving.token) for name, value in credential.items()}
    with ThreadPoolExecutor(len(CLOSED)) as pool:
        found = list(pool.map(lambda route: (route, call(serving, *route, headers)), CLOSED))
    assert found == [(route, 401) for route in CLOSED]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "0.0.0.0:{port}",
        "127.0.0.1",
        "localhost:{port}0",
        "corral-{port}.localhost:{port}",
        "x.{page}",
        "127.0.0.1.evil.example:{port}",
        "127.0.0.2:{port}",
        "localhost:1",
        "LOCALHOST:{port}",
        "",
    ],
)
def test_another_host_is_refused_before_anything(serving, method, path, host):
    headers: dict[str, str | None] = {
        "Authorization": f"Bearer {serving.token}",
        "Host": host.format(port=serving.port, page=serving.host),
        "Origin": f"http://{host.format(port=serving.port, page=serving.host)}",
    }
    assert call(serving, method, path, headers) in (400, 421)


@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if route[0] not in ("GET",)])
@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "http://evil.example",
        "http://127.0.0.1:1",
        "https://{page}",
        "http://127.0.0.1",
        "http://127.0.0.1:{port}",
        "http://localhost:{port}",
        "HTTP://{page}",
        "http://{page}.evil.example",
        "",
    ],
)
def test_a_foreign_or_missing_origin_changes_nothing(serving, method, path, origin):
    found = origin.format(port=serving.port, page=serving.host) if origin is not None else None
    headers: dict[str, str | None] = {"Authorization": f"Bearer {serving.token}", "Origin": found}
    assert call(serving, method, path, headers) == 403


@pytest.mark.parametrize(("method", "path"), [route for route in CLOSED if route[0] in ("GET", "WS")])
def test_a_foreign_page_can_read_nothing_even_with_the_token(serving, method, path):
    shown = {"Authorization": f"Bearer {serving.token}"}
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{serving.port}", "http://localhost"):
        assert call(serving, method, path, {**shown, "Origin": origin}) == 403
    for site in ("cross-site", "same-site"):
        assert call(serving, method, path, {**shown, "Sec-Fetch-Site": site}) == 403


PROGRAM_NAMES = ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}"]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("host", PROGRAM_NAMES)
def test_by_an_address_that_others_could_have_had_only_programs_get_in(serving, visitor, method, path, host):
    """No page, no login, nothing that a browser has: whoever listened there before may have left a script in it."""
    host = host.format(port=serving.port)
    headers: dict[str, str | None] = {"Host": host, "Origin": f"http://{host}"}
    shown: dict[str, str | None] = {"Sec-WebSocket-Protocol": f"corral, ticket.{visitor.ticket()}"}
    refused = {421} if (method, path) not in CLOSED and method == "GET" else {401}
    assert call(serving, method, path, {**headers, **(shown if method == "WS" else visitor.headers)}) in refused


def test_a_program_gets_in_by_the_address_and_the_token(serving):
    for name in PROGRAM_NAMES:
        answer = serving.ask("GET", "/api/health", headers={"Host": name.format(port=serving.port)})
        assert answer.body == {"ok": True}


def test_who_types_an_old_address_reads_what_to_do(serving):
    for host in (f"127.0.0.1:{serving.port}", f"corral-aaaa.localhost:{serving.port}"):
        answer = serving.raw("GET", "/", headers={"Host": host})
        assert answer.status == 421 and b"corral url" in answer.body and b"<script" not in answer.body


def test_other_methods_than_those_of_the_table_open_nothing(serving):
    """Without a credential they are refused like the others; with one there is no such thing."""
    known = {*ROUTES, *(("HEAD", path) for method, path in ROUTES if method == "GET")}
    methods = ("HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "POST", "DELETE")
    others = [(method, path) for method in methods for path in {path for _, path in CLOSED}]
    others = [route for route in others if route not in known]
    with ThreadPoolExecutor(64) as pool:
        statuses = set(pool.map(lambda route: serving.raw(*route, {}, headers={}).status, others))
    assert statuses <= {401, 403}
    for method, path in others:
        answer = serving.ask(method, path, {})
        assert answer.status in (404, 405), (method, path, answer.status)
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_what_is_refused_changes_nothing(tmp_path):
    """Every route with a real tab and a real session in its path, and a body that would do something."""
    from tests.integration.terminals.world import World

    world = World(tmp_path)
    serving = Serving(world)
    try:
        tab = serving.start_tab()
        real = {"{tab}": tab, "{ref}": serving.tabs()[tab]["ref"], "{provider}": "kimi-cli", "{name:path}": "x.js"}
        real["{login}"] = serving.log_in().login
        body = {"provider": "kimi-cli", "work_dir": str(world.work), "trust": True, "live_only": True, "order": 5}
        before = serving.tabs(), files_below(world.state), (world.root / ".kimi").exists()
        with_token = {"Authorization": f"Bearer {serving.token}"}
        closed = {(one.method, one.path) for one in ENDPOINTS if one.path.startswith("/api/")} - OPEN
        refusing = (
            {**with_token, "Host": f"evil.example:{serving.port}"},
            {**with_token, "Origin": "http://evil.example"},
            {"Authorization": "Bearer guess"},
        )

        def ask(route: tuple[str, str, dict[str, str]]) -> int:
            method, path, headers = route
            if method == "WS":
                return upgrade(serving, path, {"Host": serving.host, "Origin": serving.origin, **headers})
            return serving.raw(method, path, body, headers=headers).status

        routes = [
            (method, re.sub("{.*?}", lambda found: real[found[0]], path), headers)
            for method, path, *_ in ENDPOINTS
            for headers in (refusing if (method, path) in closed else refusing[:1])
        ]
        with ThreadPoolExecutor(32) as pool:
            assert set(pool.map(ask, routes)) <= {401, 403, 421}
        assert (serving.tabs(), files_below(world.state), (world.root / ".kimi").exists()) == before
    finally:
        serving.kill()
        world.end()


def files_below(state: Path) -> dict[str, bytes]:
    """What a tab, a hook or a layout would have changed."""
    folders = ("bindings", "opened", "terminals", "server")
    paths = [path for folder in folders for path in (state / folder).rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in paths if path.suffix != ".log" and path.name != "log.jsonl"}


@pytest.mark.parametrize("path", [path for method, path in ROUTES if method in ("POST", "DELETE")])
def test_what_a_form_can_send_changes_nothing(serving, path):
    method = next(method for method, one in ROUTES if one == path and method != "GET")
    with_token = {"Authorization": f"Bearer {serving.token}"}
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        assert serving.raw(method, path, {}, headers={**with_token, "Content-Type": kind}).status == 403
    assert serving.raw(method, path, {}, headers={**with_token, "X-Corral": None}).status == 403
    assert serving.raw(method, path, {}, headers={**with_token, "Sec-Fetch-Site": "cross-site"}).status == 403


def test_every_answer_forbids_frames_inline_scripts_and_sniffing(serving):
    with_token: dict[str, str | None] = {"Authorization": f"Bearer {serving.token}"}
    answers: list[Answer] = [
        serving.raw("GET", "/", headers={}),
        serving.raw("GET", "/api/sessions", headers=with_token),
        serving.raw("GET", "/api/nothing", headers=with_token),
        serving.raw("GET", "/", headers={"Host": "evil.example"}),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy and "unsafe" not in policy and "trusted-types" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in answer.headers


def test_a_socket_from_another_origin_sees_no_byte(serving):
    visitor = serving.log_in()
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{serving.port}", None):
        with pytest.raises(InvalidStatus) as refused:
            connect(
                f"ws://{serving.host}/api/tabs/{'0' * 16}/terminal",
                sock=socket.create_connection(("127.0.0.1", serving.port), 60),
                origin=origin,  # type: ignore[arg-type]
                subprotocols=visitor.protocols(),  # type: ignore[arg-type]
                open_timeout=60,
                legacy=True,
            )
        assert refused.value.response.status_code == 403


def test_another_user_of_this_machine_gets_nothing(serving):
    code = (
        "import http.client, sys\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def ask(line):\n"
        "    method, path = line.split()\n"
        f"    c = http.client.HTTPConnection('127.0.0.1', {serving.port}, timeout=60)\n"
        f"    h = {{'Content-Type': 'application/json', 'X-Corral': '1', 'Origin': '{serving.origin}'}}\n"
        f"    h['Host'] = {serving.host!r}\n"
        "    if method == 'WS':\n"
        "        h |= {'Upgrade': 'websocket', 'Connection': 'Upgrade', 'Sec-WebSocket-Version': '13'}\n"
        "        h |= {'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ=='}\n"
        "    c.request('GET' if method == 'WS' else method, path, headers=h)\n"
        "    return c.getresponse().status\n"
        "with ThreadPoolExecutor(32) as pool: print(*pool.map(ask, sys.stdin))\n"
        f"try: open({str(serving.files / 'token')!r}); print('read')\n"
        "except PermissionError: print('denied')\n"
    )
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", code],
        input="".join(f"{method} {path}\n" for method, path in CLOSED),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    *statuses, access = done.stdout.split()
    assert set(statuses) == {"401"} and len(statuses) == len(CLOSED)
    assert access == "denied"


def test_large_and_malformed_requests_are_refused_in_words(serving):
    assert serving.ask("POST", "/api/tabs", {"provider": "x" * 100_000, "work_dir": "/"}).reason == "too_large"
    assert serving.ask("POST", "/api/tabs", {"provider": 5}).reason == "invalid"
    assert serving.ask("POST", "/api/tabs", [1]).reason == "invalid"
    assert serving.ask("GET", "/api/sessions/0000").reason == "no_such_session"
    assert serving.ask("POST", "/api/tabs/../open", {}).status in (404, 405)
    assert serving.ask("GET", "/assets/../../etc/passwd").status == 404
    assert serving.ask("GET", "/assets/%2e%2e/%2e%2e/version.py").status == 404
    assert json.dumps(serving.ask("GET", "/api/directories?prefix=/et").body["directories"]) == '["/etc"]'
