"""Writes web/src/types.ts from the API as OpenAPI describes it: `python tools/make_web_types.py [--check]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from corral.server.app import ENDPOINTS
from corral.server.openapi import describe_api

TYPES = Path(__file__).resolve().parents[1] / "web" / "src" / "types.ts"
HEAD = "/** What the server takes and says: made by tools/make_web_types.py from `GET /api/openapi.json`. */\n"
SHORT = {"ListedSession": "Session", "TabView": "Tab", "Refusal": "RefusalReason"}
"""What the page speaks of in nearly every file."""
WIDTH = 120
"""As web/.prettierrc.json has it."""


def main() -> int:
    text = render(describe_api(ENDPOINTS))
    if "--check" in sys.argv[1:]:
        return 0 if TYPES.is_file() and TYPES.read_text() == text else 1
    TYPES.write_text(text)
    return 0


def render(document: dict[str, Any]) -> str:
    """The whole file. What is answered has all its fields; of what is taken those with a default may be missing."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    operations = [one for path in document["paths"].values() for one in path.values()]
    answered = set(_reach(schemas, (one["responses"] for one in operations)))
    named = sorted((SHORT.get(name, name), name) for name in schemas)
    return "\n".join([HEAD, *(_declare(said, schemas[name], name in answered) for said, name in named)])


def _reach(schemas: dict[str, Any], roots: Iterable[Any]) -> Iterator[str]:
    """The names of all schemas that are mentioned there, also by one another."""
    seen: set[str] = set()
    left = list(roots)
    while left:
        match left.pop():
            case {"$ref": str(ref)}:
                name = ref.rpartition("/")[2]
                if name not in seen:
                    seen.add(name)
                    left.append(schemas[name])
                    yield name
            case dict() as inner:
                left += inner.values()
            case list() as inner:
                left += inner
            case _:
                pass


def _declare(name: str, schema: dict[str, Any], answered: bool) -> str:
    said = schema.get("description")
    comment = f"/** {' '.join(said.split())} */\n" if said else ""
    if "properties" not in schema:
        return f"{comment}{_alias(name, _alternatives(schema))}\n"
    required = set(schema["properties"] if answered else schema.get("required", ()))
    fields = [
        f"  {field}{'' if field in required else '?'}: {_type(kind)};\n" for field, kind in schema["properties"].items()
    ]
    # An interface without fields would take anything.
    body = f"interface {name} {{\n{''.join(fields)}}}" if fields else f"type {name} = Record<string, never>;"
    return f"{comment}export {body}\n"


def _alias(name: str, alternatives: list[str]) -> str:
    line = f"export type {name} = {' | '.join(alternatives)};"
    if len(line) <= WIDTH and not line.count("{"):
        return line
    return f"export type {name} =" + "".join(f"\n  | {one}" for one in alternatives) + ";"


def _alternatives(schema: dict[str, Any]) -> list[str]:
    if "enum" in schema:
        return [json.dumps(one) for one in schema["enum"]]
    return [_type(one) for one in schema.get("oneOf") or schema.get("anyOf") or [schema]]


def _type(schema: dict[str, Any]) -> str:
    match schema:
        case {"$ref": str(ref)}:
            name = ref.rpartition("/")[2]
            return SHORT.get(name, name)
        case {"const": word}:
            return json.dumps(word)
        case {"enum": _} | {"anyOf": _} | {"oneOf": _}:
            return " | ".join(_alternatives(schema))
        case {"type": "array", "items": dict() as items}:
            inner = _type(items)
            return f"({inner})[]" if " | " in inner else f"{inner}[]"
        case {"type": "object", "properties": dict() as properties}:
            return f"{{ {'; '.join(f'{field}: {_type(kind)}' for field, kind in properties.items())} }}"
        case {"type": "object"}:
            values = schema.get("additionalProperties")
            return f"Record<string, {_type(values) if isinstance(values, dict) and values else 'unknown'}>"
        case {"type": "integer" | "number"}:
            return "number"
        case {"type": "string" | "boolean" | "null" as name}:
            return name
        case {} if not schema:
            return "unknown"
        case _:
            raise ValueError(f"no TypeScript for {schema}: teach it to tools/make_web_types.py")


if __name__ == "__main__":
    sys.exit(main())
