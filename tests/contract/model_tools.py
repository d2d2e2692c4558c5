"""Tool calls that fit the schemas which a CLI offers, so that one server can drive all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.contract.model_calls import SUBTASK

SHELL = ("Shell", "Bash", "run_shell_command", "exec_command")
AGENT = ("Agent", "Task", "agent", "task", "multi_agent_v1.spawn_agent")
QUESTION = ("AskUserQuestion", "ask_user_question")

Schema = Mapping[str, Any]


def find_tool(offered: Sequence[Schema], names: Sequence[str]) -> Schema | None:
    """The first offered function with one of these names, or None."""
    functions = {tool["function"]["name"]: tool["function"] for tool in offered if tool.get("type") == "function"}
    return next((functions[name] for name in names if name in functions), None)


def shell_arguments(tool: Schema, command: str) -> dict[str, Any]:
    known = {"command": command, "cmd": command, "description": "asked for by the test", "timeout": None}
    return _fill(tool["parameters"], known)


def agent_arguments(tool: Schema, text: str) -> dict[str, Any]:
    known = {"prompt": f"{SUBTASK} {text}", "message": f"{SUBTASK} {text}", "description": "sub task"}
    return _fill(tool["parameters"], known)


def question_arguments(tool: Schema) -> dict[str, Any]:
    return _fill(
        tool["parameters"],
        {"question": "Which way?", "header": "Way", "label": "Left", "description": "that way"},
    )


def _fill(schema: Schema, known: Mapping[str, Any], root: Schema | None = None) -> Any:
    """The smallest value that satisfies `schema`, with the given values where a property has that name."""
    root = schema if root is None else root
    if "$ref" in schema:
        target: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        return _fill(target, known, root)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return _fill(options[0], known, root)
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            wanted = set(schema.get("required", ())) | (known.keys() & properties.keys())
            values = {
                name: known[name] if name in known else _fill(properties[name], known, root)
                for name in properties
                if name in wanted
            }
            return {name: value for name, value in values.items() if value is not None}
        case "array":
            count = max(schema.get("minItems", 1), 1)
            items = [_fill(schema["items"], known, root) for _ in range(count)]
            return [_numbered(item, number) for number, item in enumerate(items)]
        case "boolean":
            return False
        case "integer" | "number":
            return schema.get("minimum", 1)
        case _:
            return "x"


def _numbered(item: Any, number: int) -> Any:
    # Options of a question must differ from each other.
    if isinstance(item, dict) and "label" in item and number:
        return item | {"label": f"{item['label']} {number}"}
    return item
