"""Responses of models of six vendors with calls, and the results for these models."""

from __future__ import annotations

import json
from typing import Any

from mcp_bridge import Image, Text, ToolEntry, ToolError, ToolRegistry, tool

ALL_FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "bedrock", "ollama")
WITH_IDS = ("openai", "openai-responses", "anthropic", "bedrock")
PNG = b"\x89PNG\r\n\x1a\n0123"

TREE = {
    "type": "object",
    "properties": {
        "root": {"$ref": "#/$defs/node"},
        "unit": {"type": "string", "enum": ["c", "f"], "default": "c", "description": "Of what."},
        "tags": {"type": "array", "items": {"type": "string"}},
        "spot": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0}},
            "required": ["x"],
        },
    },
    "required": ["root"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/node"}},
            "required": ["name"],
        }
    },
}
"""A schema with everything that an export must preserve: references, recursion, defaults and descriptions."""


@tool
def weather(city: str, unit: str = "c", days: int | None = None) -> dict[str, Any]:
    """Return the weather in a city."""
    return {"city": city, "unit": unit, "days": days}


@tool
def nowhere(city: str) -> str:
    """Fail."""
    raise ToolError(f"no such city: {city}\n  try again", code="unknown_city")


@tool
def breaks() -> str:
    """Raises an unexpected error."""
    raise ValueError("the secret is 12345")


@tool
def painting() -> Any:
    """Text and a picture."""
    return [Text("a dot"), Image(PNG, "image/png")]


@tool
def silent() -> None:
    """Return nothing."""


@tool
def words() -> str:
    """Some text."""
    return ' verbatim "text"\n'


double = ToolEntry("sums.double", "Twice as much.", lambda number: number * 2, {"type": "integer"})
tree = ToolEntry("tree", "", lambda data: data, TREE)
FUNCTIONS = (weather, nowhere, breaks, painting, silent, words)


def make_registry() -> ToolRegistry:
    """Return a registry with the tools above."""
    tools = ToolRegistry()
    for function in FUNCTIONS:
        tools.register(function.tool_entry)
    tools.register(double)
    tools.register(tree)
    return tools


def build_response(form: str, *calls: tuple[str, Any]) -> dict[str, Any]:
    """Return the response of a vendor's API with these calls. Text arguments are sent unchanged."""
    numbered = [(f"id-{number}", name, arguments) for number, (name, arguments) in enumerate(calls)]
    match form:
        case "openai":
            value = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": _text(arguments)}}
                for id, name, arguments in numbered
            ]
            message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": value}
            choice = {"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": message}
            return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        case "openai-responses":
            items = [
                {"type": "function_call", "id": f"fc-{id}", "call_id": id, "name": name, "arguments": _text(arguments)}
                for id, name, arguments in numbered
            ]
            return {"id": "x", "output": [{"type": "reasoning", "id": "r", "summary": []}, *items]}
        case "anthropic":
            blocks = [{"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in numbered]
            return {"id": "x", "role": "assistant", "content": [{"type": "text", "text": "Let me see."}, *blocks]}
        case "gemini":
            parts = [{"functionCall": {"name": name, "args": given}} for _, name, given in numbered]
            content = {"role": "model", "parts": [{"text": "Let me see."}, *parts]}
            return {"candidates": [{"content": content, "finishReason": "STOP"}]}
        case "bedrock":
            uses = [{"toolUse": {"toolUseId": id, "name": name, "input": given}} for id, name, given in numbered]
            return {"output": {"message": {"role": "assistant", "content": [{"text": "Let me see."}, *uses]}}}
        case _:
            items = [{"function": {"name": name, "arguments": given}} for _, name, given in numbered]
            return {"model": "m", "message": {"role": "assistant", "content": "", "tool_calls": items}}


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def list_results(form: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the single results in messages."""
    match form:
        case "anthropic":
            return [block for message in messages for block in message["content"]]
        case "gemini":
            return [section["functionResponse"] for message in messages for section in message["parts"]]
        case "bedrock":
            return [block["toolResult"] for message in messages for block in message["content"]]
    return messages


def get_text(form: str, result: dict[str, Any]) -> str:
    """Return the text of a result, or an object as JSON."""
    match form:
        case "openai-responses":
            return str(result["output"])
        case "gemini":
            value = result["response"].get("error") or result["response"]["output"]
            return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        case "bedrock":
            (block,) = result["content"]
            return str(block["text"]) if "text" in block else json.dumps(block["json"], separators=(",", ":"))
    return str(result["content"])


def get_call_id(form: str, result: dict[str, Any]) -> str:
    """Return the id of the call of a result, or its name if the vendor has no ids."""
    keys = {"openai": "tool_call_id", "openai-responses": "call_id", "anthropic": "tool_use_id"}
    keys |= {"gemini": "name", "bedrock": "toolUseId", "ollama": "tool_name"}
    return str(result[keys[form]])


def list_functions(form: str, tools: list[dict[str, Any]]) -> dict[str, tuple[str | None, dict[str, Any]]]:
    """Return the description and the schema of exported tools of any format, by name."""
    schema = {"openai": "parameters", "ollama": "parameters", "openai-responses": "parameters"}
    schema |= {"anthropic": "input_schema", "gemini": "parametersJsonSchema", "bedrock": "inputSchema"}
    match form:
        case "openai" | "ollama":
            flat = [item["function"] for item in tools]
        case "gemini":
            flat = [item for arguments in tools for item in arguments["functionDeclarations"]]
        case "bedrock":
            flat = [item["toolSpec"] for item in tools]
        case _:
            flat = tools
    value = {item["name"]: (item.get("description"), item[schema[form]]) for item in flat}
    return {
        name: (error_text, arguments["json"] if form == "bedrock" else arguments)
        for name, (error_text, arguments) in value.items()
    }
