"""The API as OpenAPI, made from the table of routes and the messages, so that it describes what is served."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from corral.model.restore import Refusal
from corral.model.session import Colour
from corral.model.verdict import Activity, State
from corral.server.event_stream import EVENTS
from corral.server.guard import PROOFS
from corral.server.messages import ErrorDocument, HooksStanding, PlaceKind, RestoreKind, RestoreSupport, TabState
from corral.version import __version__

if TYPE_CHECKING:
    from corral.server.api import Endpoint

_PREFIX = "#/components/schemas/{name}"
_CLOSED: dict[str, dict[str, Any]] = {
    "ListedSession": {"state": State, "activity": Activity, "colour": Colour},
    "RestoreReport": {"kind": RestoreKind, "reason": Refusal},
    "TabView": {"state": TabState, "activity": Activity},
    "ProviderReport": {"restore": RestoreSupport, "hooks": HooksStanding},
    "ProcessPlace": {"kind": PlaceKind},
}
"""Fields that are text in the code and can have only these words."""


def describe_api(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    listed = [one for one in endpoints if one.path.startswith("/api/")]
    kinds: list[Any] = [kind for one in listed for kind in (one.takes, one.gives) if kind is not None]
    closed: list[Any] = [words for fields in _CLOSED.values() for words in fields.values()]
    kinds = [*dict.fromkeys([*kinds, *EVENTS.values(), *closed]), ErrorDocument]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_PREFIX)
    of = dict(zip(kinds, schemas, strict=True))
    for name, fields in _CLOSED.items():
        for field, words in fields.items():
            properties = components[name]["properties"]
            properties[field] = _close(properties[field], of[words])
    components["ServerEvent"] = _describe_events(of)
    paths: dict[str, dict[str, Any]] = {}
    for one in listed:
        method = "get" if one.method == "WS" else one.method.lower()
        paths.setdefault(one.path, {})[method] = _operation(one, of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "corral", "version": __version__},
        "security": [{"page": []}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "page": {"type": "apiKey", "in": "header", "name": "Authorization"},
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _close(schema: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    """Text, or text and null, as one of those words."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [_close(one, words) for one in schema["anyOf"]]}
    return words if schema.get("type") == "string" else schema


def _describe_events(of: dict[Any, Any]) -> dict[str, Any]:
    """One event of the stream: its name decides what its data is."""
    named = [
        {
            "type": "object",
            "properties": {"event": {"const": name}, "data": of[body]},
            "required": ["event", "data"],
        }
        for name, body in EVENTS.items()
    ]
    return {"title": "ServerEvent", "description": "One event of the stream: its name, and its data.", "oneOf": named}


def _operation(endpoint: Endpoint, of: dict[Any, Any]) -> dict[str, Any]:
    names = re.findall(r"{(\w+)", endpoint.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    parameters += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in endpoint.query]
    status = "101" if endpoint.method == "WS" else str(endpoint.status)
    answer: dict[str, Any] = {"description": "a WebSocket" if endpoint.method == "WS" else "done"}
    if endpoint.gives is not None:
        answer = {"description": "the answer", "content": {"application/json": {"schema": of[endpoint.gives]}}}
    if endpoint.path == "/api/events":
        stream = {"schema": {"$ref": _PREFIX.format(name="ServerEvent")}}
        answer = {"description": "one after the other", "content": {"text/event-stream": stream}}
    refused = {"description": "refused", "content": {"application/json": {"schema": of[ErrorDocument]}}}
    operation: dict[str, Any] = {"summary": endpoint.summary, "responses": {status: answer, "default": refused}}
    if parameters:
        operation["parameters"] = parameters
    if endpoint.takes is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": of[endpoint.takes]}}}
    if endpoint.path in PROOFS:
        operation["security"] = []
    return operation
