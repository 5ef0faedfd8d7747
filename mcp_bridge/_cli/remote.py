"""Uses a server as a client does: lists and calls its tools, reads its resources and gets its prompts.

The server is at a URL, is started with a command, or serves a file in this process.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from mcp_bridge._cli.schema_values import CallArguments
from mcp_bridge._cli.server_address import ServerAddress, make_server_url
from mcp_bridge._contracts.errors import BridgeError, SourceError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._engine.registry import make_not_found_error
from mcp_bridge._protocol.wire.client_names import to_client_name
from mcp_bridge._protocol.wire.meta_keys import LOG_LEVEL
from mcp_bridge._upstream.client import request_result, use_server

if TYPE_CHECKING:
    from mcp_bridge._upstream.session import UpstreamSession

T = TypeVar("T")
CALL_META: Mapping[str, Any] = {"progressToken": "cli", LOG_LEVEL: "info"}
"""The `_meta` of a call. It requests progress and log messages, which are shown."""
_PRESENTATION = {"title": "title", "annotations": "annotations", "icons": "icons", "_meta": "meta"}
"""Members of a tool that are optional, and the keys for them in the rows of `list --json`."""


async def request_from_server(target: ServerAddress | str | None, method: str, params: dict[str, Any]) -> Any:
    """Return the result of one request to the server at an address, or of a file. Raises BridgeError."""

    async def send(session: UpstreamSession) -> Any:
        return await request_result(session, method, params, RunningCall())

    if isinstance(target, ServerAddress):
        return await _use_remote_server(target, send)
    from mcp_bridge._cli.target import load_target, run_sources
    from mcp_bridge._transports.memory import EndpointAddress

    bridge = load_target(target).bridge
    result: Any = None
    failure: BridgeError | None = None
    async with run_sources(bridge), anyio.create_task_group() as tasks:
        await bridge.wait_until_started()
        await bridge.wait_until_connected()
        await tasks.start(bridge.endpoint.run)
        try:
            result = await use_server(EndpointAddress(bridge.endpoint), ["handshake"], send)
        except BridgeError as error:
            # Raised below, because the task group would wrap it.
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return result


async def _use_remote_server(address: ServerAddress, use: Callable[[UpstreamSession], Awaitable[T]]) -> T:
    """Connect to a server, and return the result of `use`. Raises BridgeError.

    With a program, the handshake era is tried first, because some programs exit after an unknown request.
    """
    if address.url is None:
        from mcp_bridge._upstream.child import LaunchCommand

        argv = address.argv
        command = LaunchCommand(command=argv[0], args=argv[1:], env=os.environ, directory=Path.cwd())
        return await use_server(command, ["handshake", "stateless"], use)
    from mcp_bridge._upstream.oauth import StoredSignIn

    server = make_server_url(address)
    try:
        return await use_server(server, ["stateless", "handshake"], use)
    except SourceError as error:
        if not isinstance(server.auth, StoredSignIn) or not server.auth.is_rejected:
            raise
        # A query may contain secrets.
        url = "URL" if "?" in address.url else address.url
        hint = f"Sign in with `mcp-bridge login {url}`, or pass a token with --token-env or --header"
        raise SourceError(f"the server requires authorization. {hint}") from error


async def read_remote_entries(address: ServerAddress) -> list[dict[str, Any]]:
    """List the entries of another server, as `list --json` prints them. Raises BridgeError."""
    return await _use_remote_server(address, _describe_entries)


async def _describe_entries(session: UpstreamSession) -> list[dict[str, Any]]:
    source = str(session.info.get("name") or "")
    rows: list[dict[str, Any]] = []
    if "tools" in session.capabilities:
        for tool in await session.list_all_pages("tools/list", "tools"):
            rows.append(_describe_tool(tool, source))
    if "resources" in session.capabilities:
        for resource in await session.list_all_pages("resources/list", "resources"):
            rows.append({"kind": "resource", "uri": _read_text(resource, "uri"), **_describe(resource, source)})
        for template in await session.list_all_pages("resources/templates/list", "resourceTemplates"):
            uri = _read_text(template, "uriTemplate")
            rows.append({"kind": "template", "uri_template": uri, **_describe(template, source)})
    if "prompts" in session.capabilities:
        for prompt in await session.list_all_pages("prompts/list", "prompts"):
            arguments: list[dict[str, Any]] = []
            for argument in read_items(prompt, "arguments"):
                name = _read_text(argument, "name")
                description = _read_text(argument, "description")
                arguments.append({"name": name, "description": description, "required": bool(argument.get("required"))})
            rows.append({"kind": "prompt", **_describe(prompt, source), "arguments": arguments})
    return rows


def _describe(entry: Mapping[str, Any], source: str) -> dict[str, Any]:
    return {"name": _read_text(entry, "name"), "description": _read_text(entry, "description"), "source": source}


def _describe_tool(tool: Mapping[str, Any], source: str) -> dict[str, Any]:
    name = _read_text(tool, "name")
    return {
        "kind": "tool",
        "name": name,
        "description": _read_text(tool, "description"),
        "input_schema": tool.get("inputSchema") or {"type": "object"},
        "output_schema": tool.get("outputSchema"),
        "tags": [],
        "client_name": to_client_name(name),
        "source": source,
        **{key: tool[member] for member, key in _PRESENTATION.items() if tool.get(member)},
    }


async def call_remote_tool(
    address: ServerAddress, name: str, arguments: CallArguments, ctx: RunningCall
) -> dict[str, Any]:
    """Call a tool of another server, and return its result as `call --json` prints it. Raises BridgeError.

    The server can ask the user of `ctx`, if there is one.
    """

    async def send_call(session: UpstreamSession) -> dict[str, Any]:
        tools = await session.list_all_pages("tools/list", "tools")
        schemas = {_read_text(tool, "name"): tool.get("inputSchema") or {} for tool in tools}
        if name not in schemas:
            raise make_not_found_error(name, schemas)
        session.declare_headers(schemas.items())
        data = arguments.parse_pairs(schemas[name])
        start = time.perf_counter()
        result = await request_result(session, "tools/call", {"name": name, "arguments": data}, ctx)
        return _describe_result(result) | {"duration_ms": round((time.perf_counter() - start) * 1000, 3)}

    return await _use_remote_server(address, send_call)


def _describe_result(result: Mapping[str, Any]) -> dict[str, Any]:
    content = read_items(result, "content")
    text = "\n".join(format_block(block) for block in content)
    is_error = bool(result.get("isError"))
    row = {"ok": not is_error, "output": result.get("structuredContent", text), "content": content}
    if is_error:
        row["error"] = text
    return row


def read_items(result: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return a list of objects in a result, or an empty one. Raises SourceError if it is anything else."""
    items = result.get(key) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise SourceError(f"the server returned a result that is malformed: {key!r} is not a list of objects")
    return items


def _read_text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def format_block(block: Mapping[str, Any]) -> str:
    """Format a content block: its text, or the block as JSON."""
    return str(block["text"]) if block.get("type") == "text" else json.dumps(block, ensure_ascii=False)
