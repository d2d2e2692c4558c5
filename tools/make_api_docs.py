"""Writes docs/api.md from the table of routes and the messages: `python tools/make_api_docs.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from corral.server.app import ENDPOINTS
from corral.server.openapi import describe_api

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
HEAD = """\
# The HTTP API of `corral serve`

This page is made from the code by `tools/make_api_docs.py`; `GET /api/openapi.json` gives the same to programs.
[server.md](server.md) says how to start the server and how to get in.

Programs show `Authorization: Bearer <token>` with the token from `<state>/server/token`, and call the server by its
address, `http://127.0.0.1:<port>`. The page has a name of its own (`corral url --json`: `origin`), and shows what it
got for its proof. Both need the exact `Host`; only the static page and the proofs need nothing else. There are no
cookies. A change (POST, DELETE) also needs `Content-Type: application/json`, `X-Corral: 1` and an `Origin` that is
the server's own. Errors are `{"error": {"reason", "message", "remedy", "go_there"}}` with status 400, 401, 403, 404,
405, 408, 409, 421, 429 or 500.

How a page gets in: it names its login (or, once, the code of a link, by a hash) with a fresh number, and the server
proves that it has the key of that login. Only then the page proves the same, and gets a token for five minutes.
`HMAC-SHA-256` over the words in `src/corral/server/proofs.py`, which contain both numbers, the origin and the login.
"""
TAIL = """\
## Events

`GET /api/events` is a stream of server-sent events. `id` grows, also over restarts; a client that comes back sends the
last one as `Last-Event-ID` (or `?after=`) and gets what it missed, or one `resync`.

| event | data |
|---|---|
| `hello` | `{version, event, beat_s}`: something comes at least every `beat_s` seconds from now on |
| `beat` | `{}`, when nothing else happened; it has no `id` |
| `session` | `{change: appeared\\|changed\\|ended\\|gone, session}` as in the list of sessions |
| `switched` | `{pid, from, to}`: one process went over to another session; both are refs |
| `tab` | `{change: opened\\|changed\\|closed, tab}` as in the list of tabs |
| `restore` | `{done, total, failed}` of "restore all" |
| `usage` | `{usage_today, sessions: {ref: usage}}`: of the sessions whose sums changed |
| `agents` | `{unattributed, no_session_yet}` as in the list of sessions: all agents without a known one |
| `degraded` | `{degraded: […]}`: what could not be read or watched, all of it |
| `resync` | `{reason}`: fetch sessions and tabs anew |

## Terminals

`/api/tabs/{tab}/terminal` is a WebSocket. The client speaks first, as text:
`{"attach": offset or null, "columns", "rows", "visible", "terminal"}`. `terminal` is what `attached` said
the last time, or null: an offset and what is typed are meant for that terminal, and when the tab has another one by
now, the socket is closed with 4409 before anything reaches it.

| from the server | |
|---|---|
| binary | 1 byte kind, 8 bytes offset (big-endian), bytes. Kinds: 0 output, 1 output of before the attach, 2 modes |
| `{"attached": {offset, oldest, head, columns, rows, terminal}}` | where the stream begins, and in which terminal |
| `{"gap": {offset, end}}` | output no longer kept: clear; what a new viewer gets follows |
| `{"size": {columns, rows}}`, `{"exit": status}`, `{"failed": {code, message}}`, `{"pong": n}` | |

| from the client | |
|---|---|
| binary | 1 byte flag (0 typed, 1 made while output of kind 1 was being written), at most 65,536 bytes |
| `{"resize": [columns, rows]}`, `{"visible": bool}`, `{"ping": n}` | |
| `{"ack": offset}` | written up to there; the server sends at most 512 KiB ahead of it |

Modes are to be written too; they have no offset. Close codes: 4404 no such tab, 4409 it has another terminal by now,
4410 its program has ended, 1012 the server stops: come back; 1013 its holder does not answer, which `failed`
(`not_answering`) says before: come back later. What is refused gets an HTTP status instead of a WebSocket.
"""


def main() -> int:
    text = render(describe_api(ENDPOINTS))
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.is_file() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


def render(document: dict[str, Any]) -> str:
    """The page as a whole."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    rows = ["## Routes", "", "| | takes | answers | |", "|---|---|---|---|"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            rows.append(_row(path, method, operation))
    parts = [HEAD, "\n".join(rows) + "\n", "## Messages\n"]
    parts += [_message(name, schema) for name, schema in schemas.items()]
    return "\n".join([*parts, TAIL])


def _row(path: str, method: str, operation: dict[str, Any]) -> str:
    (status, answer), *_ = operation["responses"].items()
    takes = _content(operation.get("requestBody", {}))
    gives = _content(answer)
    query = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
    shown = path + (f"?{'&'.join(f'{name}=' for name in query)}" if query else "")
    word = "WS" if status == "101" else method.upper()
    return f"| `{word} {shown}` | {takes} | {status} {gives} | {operation['summary']} |"


def _content(body: dict[str, Any]) -> str:
    schema = body.get("content", {}).get("application/json", {}).get("schema")
    return _type(schema) if schema else ""


def _message(name: str, schema: dict[str, Any]) -> str:
    lines = [f"### {name}", ""]
    if description := schema.get("description"):
        lines += [" ".join(description.split()), ""]
    properties: dict[str, Any] = schema.get("properties", {})
    if properties:
        lines += ["| field | |", "|---|---|"]
        required = set(schema.get("required", ()))
        for field, kind in properties.items():
            default = "" if field in required or "default" not in kind else f" (default `{kind['default']}`)"
            lines.append(f"| `{field}` | {_type(kind)}{default} |")
        lines.append("")
    return "\n".join(lines)


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        inner = schema.get("items") or (schema.get("prefixItems") or [{}])[0]
        return f"list of {_type(inner)}" if isinstance(inner, dict) else "list"
    if schema.get("type") == "object" and "additionalProperties" in schema:
        return "object"
    return str(schema.get("type", "anything"))


if __name__ == "__main__":
    sys.exit(main())
