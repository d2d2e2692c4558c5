"""Writes docs/api.md from the table of routes and the messages: `python tools/make_api_docs.py [--check]`."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

from corral.server.app import ENDPOINTS
from corral.server.openapi import describe_api

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
HEAD = """\
# The HTTP API of `corral serve`

`tools/make_api_docs.py` makes this page from the code; `GET /api/openapi.json` gives programs the
same. [server.md](server.md) says how to start the server and how to log in.

**Programs** send `Authorization: Bearer <token>`, with the token from `<state>/server/token`, and
call the server by its address, `http://127.0.0.1:<port>`. Read both files each time: a token is
void once the port has been released.

**The page** has a name of its own (`corral url --json`: `origin`), and sends the token that it got
for its proof.

Both need the exact `Host`. Only the static page and the proofs need nothing else. There are no
cookies. A change (POST, DELETE) also needs `Content-Type: application/json`, `X-Corral: 1` and an
`Origin` that is the server's own. Errors are
`{"error": {"reason", "message", "remedy", "go_there"}}` with status 400, 401, 403, 404, 405, 408,
409, 421, 429 or 500. `reason` is one of a [closed list](#refusal); [restore.md](restore.md) says
what those about sessions and tabs mean.

How a page logs in: it sends a fresh number with the name of its login (or, once, with a hash of a
link's code), and the server proves that it has the key of that login. Only then does the page prove
the same, and gets a token for five minutes. The proof is an `HMAC-SHA-256` over the words in
`src/corral/server/proofs.py`, which contain both numbers, the origin and the login.
"""
EVENTS = """\
## Events

`GET /api/events` is a stream of server-sent events. `id` only grows, also across restarts. A client
that reconnects sends the last one as `Last-Event-ID` (or `?after=`) and gets what it missed, or one
`resync`.

"""
TAIL = """\
## Terminals

`/api/tabs/{tab}/terminal` is a WebSocket. The client speaks first, as text: `{"attach": offset or
null, "columns", "rows", "visible", "terminal"}`. `terminal` is what `attached` said the last time,
or null. The offset and what is typed are meant for that terminal: if the tab has another one by
now, the socket is closed with 4409 before anything reaches it.

| from the server | |
|---|---|
| binary | 1 byte kind, 8 bytes offset (big-endian), bytes. Kinds: 0 output, 1 output from before the attach, 2 modes |
| `{"attached": {offset, oldest, head, columns, rows, terminal}}` | where the stream begins, and in which terminal |
| `{"gap": {offset, end}}` | output that is no longer kept: clear the screen; what a new viewer gets follows |
| `{"size": {columns, rows}}`, `{"exit": status}`, `{"failed": {code, message}}`, `{"pong": n}` | |

| from the client | |
|---|---|
| binary | 1 byte flag (0 typed, 1 made while output of kind 1 was being written), at most 65,536 bytes |
| `{"resize": [columns, rows]}`, `{"visible": bool}`, `{"ping": n}` | |
| `{"ack": offset}` | written up to there; the server sends at most 512 KiB ahead of it |

Write modes to the screen too; they have no offset. A refused request gets an HTTP status instead of
a WebSocket. Close codes:

| code | means |
|---|---|
| 4404 | there is no such tab |
| 4409 | the tab has another terminal by now |
| 4410 | its program has ended |
| 1012 | the server stops: reconnect |
| 1013 | its holder does not answer, as `failed` (`not_answering`) said before: reconnect later |
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
    parts += [_message(name, schema) for name, schema in schemas.items() if "oneOf" not in schema]
    return "\n".join([*parts, EVENTS, _events(document["components"]["schemas"]), TAIL])


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
        lines += [textwrap.fill(" ".join(description.split()), 100, break_long_words=False, break_on_hyphens=False), ""]
    if words := schema.get("enum"):
        lines += [textwrap.fill(_type({"enum": words}), 100, break_on_hyphens=False), ""]
    properties: dict[str, Any] = schema.get("properties", {})
    if properties:
        lines += ["| field | |", "|---|---|"]
        required = set(schema.get("required", ()))
        for field, kind in properties.items():
            default = "" if field in required or "default" not in kind else f" (default `{kind['default']}`)"
            lines.append(f"| `{field}` | {_type(kind)}{default} |")
        lines.append("")
    return "\n".join(lines)


def _events(schemas: dict[str, Any]) -> str:
    rows = ["| event | data | |", "|---|---|---|"]
    for one in schemas["ServerEvent"]["oneOf"]:
        name, data = one["properties"]["event"]["const"], one["properties"]["data"]
        said = schemas[data["$ref"].rpartition("/")[2]].get("description", "")
        rows.append(f"| `{name}` | {_type(data)} | {' '.join(said.split())} |")
    return "\n".join(rows) + "\n"


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
