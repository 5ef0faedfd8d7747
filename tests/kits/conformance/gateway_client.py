"""The client of the official conformance suite: a gateway with a client that uses everything, `gateway_client.py URL`.

The suite plays the server. MCP_CONFORMANCE_CONTEXT may list the expected tool calls.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, Tool

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect

START = 5.0
"""Seconds until the suite's server has listed its tools. Some scenarios have none."""
VALUES = {"string": "text", "number": 1.5, "integer": 2, "boolean": True, "array": [], "object": {}}
"""A value of each type, for required arguments."""


async def accept_form(context: Any, params: Any) -> ElicitResult:
    """Accept a form with its defaults, as hosts show it."""
    fields = params.requested_schema["properties"]
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    return ElicitResult(action="accept", content=defaults)


def build_arguments(tool: Tool, tools: Sequence[Tool]) -> dict[str, Any]:
    """Return the required arguments of a tool. The argument `schema` is the schema of another tool."""
    fields = tool.input_schema.get("properties", {})
    arguments = {name: VALUES.get(fields[name].get("type")) for name in tool.input_schema.get("required", ())}
    if "schema" in fields:
        arguments["schema"] = next(other.input_schema for other in tools if other is not tool)
    return arguments


async def use_everything(client: Client) -> None:
    """List everything, call the tools, read the resources and get the prompts. Errors are for the suite to judge."""
    with anyio.move_on_after(START):
        while not (tools := (await client.list_tools()).tools):  # noqa: ASYNC110 - what a client sees
            await anyio.sleep(0.05)
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    calls = [(call["name"], call["arguments"]) for call in context.get("toolCalls", ())]
    for name, arguments in calls or [(tool.name, build_arguments(tool, tools)) for tool in tools]:
        with contextlib.suppress(MCPError):
            # The bridge rejects null where the schema has none, as it reports. Then the argument is left out.
            if (await client.call_tool(name, arguments)).is_error and None in arguments.values():
                await client.call_tool(name, {key: value for key, value in arguments.items() if value is not None})
    for resource in (await client.list_resources()).resources:
        with contextlib.suppress(MCPError):
            await client.read_resource(str(resource.uri))
    for prompt in (await client.list_prompts()).prompts:
        with contextlib.suppress(MCPError):
            await client.get_prompt(prompt.name)


async def serve_suite(settings: Path) -> None:
    """Serve the suite's server to a client of the suite's version."""
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION") or "2026-07-28"
    mode: Any = revision if revision >= "2026-07-28" else "legacy"
    warnings.simplefilter("ignore")
    bridge = build_from_settings(load(settings, {}))
    async with connect(bridge, mode=mode, cache=None, elicitation_callback=accept_form) as client:
        await use_everything(client)


def main() -> None:
    """Write the settings of the gateway, and run it."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "gateway.yaml")
        source = {"type": "mcp", "name": "upstream", "prefix": "", "url": sys.argv[1]}
        settings.write_text(json.dumps({"sources": [source]}))
        anyio.run(serve_suite, settings)


if __name__ == "__main__":
    main()
