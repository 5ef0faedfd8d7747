"""Observes a server as a client: what it lists and returns, through the bridge or through the client of its package."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

from mcp.client import Client
from mcp_types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

from tests.kits.constants import TIMEOUT

ROOT = "file:///work"
VARYING_TEXT = re.compile(
    r"connection/|0x[0-9a-f]+|server(_[0-9a-f]{8})?\b|\d{4}-\d\d-\d\d[T ][\d:.+Z]+|\d{2}:\d{2}:\d{2}[\d.]*"
    r"|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|\d+\.\d{4,}|\d{9,}"
)
"""Parts of texts that differ with every run: addresses, times, ids."""
FIELDS_OF_ONE_SIDE = ("_meta", "ttlMs", "cacheScope", "resultType", "description")
FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T10:00:00Z",
    "email": "a@example.org",
    "uri": "https://a.example",
}


async def answer_form(_: Any, params: Any) -> ElicitResult:
    properties = (getattr(params, "requested_schema", None) or {}).get("properties", {})
    return ElicitResult(action="accept", content={name: make_value(section) for name, section in properties.items()})


async def answer_sampling(*_: Any) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Hi"), model="m")


async def list_roots(*_: Any) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri=ROOT)])


async def answer_fastmcp_form(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult:
    return await answer_form(context, params)


ANSWERS = {
    "elicitation_callback": answer_form,
    "sampling_callback": answer_sampling,
    "list_roots_callback": list_roots,
}


def open_own_client(server: Any, mode: str) -> Any:
    """Return a client of the server's package, to be entered, with the methods of the SDK's client."""
    if type(server).__name__ == "MCPServer":
        return Client(server, mode=mode, **ANSWERS)
    from fastmcp import Client as FastMcpClient

    answers = {"elicitation_handler": answer_fastmcp_form, "sampling_handler": answer_sampling, "roots": [ROOT]}
    return FastMcpView(FastMcpClient(server, mode=mode, **answers))


class FastMcpView:
    """FastMCP's client, with the methods of the SDK's."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def __aenter__(self) -> FastMcpView:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._client.__aexit__(*exc_info)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, f"{name}_mcp")


async def observe(client: Any) -> dict[str, Any]:
    """List everything, call each tool, and read each resource and prompt. Return the observations by name.

    All errors count as equal.
    """
    random.seed(0)
    values: dict[str, Any] = {}
    for tool in sorted((await client.list_tools()).tools, key=lambda tool: tool.name):
        values[f"tool {tool.name}"] = (tool.title, tool.description or "", tool.input_schema, tool.output_schema)
        values[f"call {tool.name}"] = await describe(client.call_tool(tool.name, make_arguments(tool.input_schema)))
    # A tool may have changed a list.
    await asyncio.sleep(0.1)
    for resource in (await client.list_resources()).resources:
        values[f"resource {resource.uri}"] = (resource.name, resource.mime_type)
        values[f"read {resource.uri}"] = await describe(client.read_resource(resource.uri))
    for template in (await client.list_resource_templates()).resource_templates:
        uri = re.sub(r"\{[^}]*\}", "one", re.sub(r"\{\?.*?\}", "", template.uri_template))
        values[f"template {template.name}"] = template.mime_type
        values[f"expand {template.name}"] = await describe(client.read_resource(uri))
    for prompt in (await client.list_prompts()).prompts:
        arguments = {item.name: "1" for item in prompt.arguments or ()}
        values[f"prompt {prompt.name}"] = (prompt.description or "", sorted(arguments))
        values[f"get {prompt.name}"] = await describe(client.get_prompt(prompt.name, arguments))
    return values


async def describe(call: Any) -> str:
    """Return the result of a call, without varying parts and without fields that only one side sends."""
    try:
        model = await asyncio.wait_for(call, TIMEOUT)
    except Exception:
        return "an error"
    result = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    fields = {key: value for key, value in result.items() if key not in FIELDS_OF_ONE_SIDE}
    return "an error" if result.get("isError") else VARYING_TEXT.sub("", str(fields))


def make_arguments(schema: Any) -> dict[str, Any]:
    """Make the required arguments of a tool."""
    resolved = resolve_references(schema, schema)
    return {name: make_value(resolved["properties"][name]) for name in resolved.get("required", ())}


def make_value(schema: Any) -> Any:
    """Make a value of a schema without references."""
    if "const" in schema or "default" in schema:
        return schema.get("const", schema.get("default"))
    if "enum" in schema:
        return schema["enum"][0]
    if branches := schema.get("oneOf") or schema.get("anyOf"):
        return make_value(branches[0])
    key = schema.get("type")
    if key == "object":
        return {name: make_value(section) for name, section in schema.get("properties", {}).items()}
    number = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    text = FORMATS.get(schema.get("format"), "word".ljust(schema.get("minLength", 0), "x"))
    return {"integer": number, "number": number, "boolean": True, "array": [], "null": None}.get(key, text)


def resolve_references(schema: Any, root: Any, depth: int = 0) -> Any:
    if isinstance(schema, list):
        return [resolve_references(item, root, depth) for item in schema]
    if not isinstance(schema, dict) or depth > 8:
        return schema
    if "$ref" in schema:
        target = root
        for section in schema["$ref"].lstrip("#/").split("/"):
            target = target[section]
        return resolve_references(target, root, depth + 1)
    return {key: resolve_references(value, root, depth + 1) for key, value in schema.items() if key != "$defs"}
