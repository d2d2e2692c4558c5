"""The API as OpenAPI, made from the table of routes and the messages: it can't say but what is served."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from corral.server.guard import PROOFS
from corral.server.refusals import ErrorDocument
from corral.version import __version__

if TYPE_CHECKING:
    from corral.server.app import Endpoint

_PREFIX = "#/components/schemas/{name}"


def describe_api(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    listed = [one for one in endpoints if one.path.startswith("/api/")]
    kinds: list[Any] = [kind for one in listed for kind in (one.takes, one.gives) if kind is not None]
    kinds = [*dict.fromkeys(kinds), ErrorDocument]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_PREFIX)
    of = dict(zip(kinds, schemas, strict=True))
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


def _operation(endpoint: Endpoint, of: dict[Any, Any]) -> dict[str, Any]:
    names = re.findall(r"{(\w+)", endpoint.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    parameters += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in endpoint.query]
    status = "101" if endpoint.method == "WS" else str(endpoint.status)
    answer: dict[str, Any] = {"description": "a WebSocket" if endpoint.method == "WS" else "done"}
    if endpoint.gives is not None:
        answer = {"description": "the answer", "content": {"application/json": {"schema": of[endpoint.gives]}}}
    refused = {"description": "refused", "content": {"application/json": {"schema": of[ErrorDocument]}}}
    operation: dict[str, Any] = {"summary": endpoint.summary, "responses": {status: answer, "default": refused}}
    if parameters:
        operation["parameters"] = parameters
    if endpoint.takes is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": of[endpoint.takes]}}}
    if endpoint.path in PROOFS:
        operation["security"] = []
    return operation
