"""Uses a server as a client does: lists and calls its tools, reads its resources and gets its prompts.

The server is another one, by its URL or command, or that of a file, in this process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from mcp_bridge._cli.schema_values import parse_pairs
from mcp_bridge._cli.server_address import ServerAddress
from mcp_bridge._contracts.errors import BridgeError
from mcp_bridge._engine.registry import make_not_found_error
from mcp_bridge._protocol.wire.client_names import to_client_name

if TYPE_CHECKING:
    from mcp_bridge._contracts.running_call import RunningCall

T = TypeVar("T")
_PAGES = 1_000


async def use_server(target: ServerAddress | Path | None, use: Callable[[Any], Awaitable[T]], **options: Any) -> T:
    """Connect the official client to a server, and return what `use` returns. Raises BridgeError."""
    from mcp_bridge._transports.remote import connect_command, connect_url, hide_tracebacks, run_with_client

    if isinstance(target, ServerAddress):
        hide_tracebacks()
        streams = connect_command(target.argv) if target.url is None else connect_url(target.url, target.token)
        return await run_with_client(streams, use, **options)
    from mcp_bridge._cli.target import load_target, run_sources
    from mcp_bridge._transports.memory import connect

    bridge = load_target(target).bridge
    results: list[T] = []
    errors: list[BridgeError] = []
    async with run_sources(bridge), anyio.create_task_group() as tasks:
        await bridge.wait_until_started()
        await bridge.wait_until_connected()
        await tasks.start(bridge.endpoint.run)
        try:
            results.append(await run_with_client(connect(bridge.endpoint), use, **options))
        except BridgeError as error:  # raised below, where no task group wraps it
            errors.append(error)
        tasks.cancel_scope.cancel()
    if errors:
        raise errors[0]
    return results[0]


async def read_remote_entries(address: ServerAddress) -> list[dict[str, Any]]:
    """List what another server publishes, as `list --json` prints it. Raises BridgeError."""
    return await use_server(address, _describe_entries)


async def _describe_entries(client: Any) -> list[dict[str, Any]]:
    source = client.server_info.name if client.server_info is not None else ""
    capabilities = client.server_capabilities
    rows: list[dict[str, Any]] = []
    if capabilities.tools is not None:
        rows += [_describe_tool(tool, source) for tool in await _list_pages(client.list_tools, "tools")]
    if capabilities.resources is not None:
        for resource in await _list_pages(client.list_resources, "resources"):
            rows.append({"kind": "resource", "uri": str(resource.uri), **_describe(resource, source)})
        for template in await _list_pages(client.list_resource_templates, "resource_templates"):
            rows.append({"kind": "template", "uri_template": template.uri_template, **_describe(template, source)})
    if capabilities.prompts is not None:
        for prompt in await _list_pages(client.list_prompts, "prompts"):
            rows.append({"kind": "prompt", **_describe(prompt, source), "arguments": _describe_arguments(prompt)})
    return rows


def _describe_arguments(prompt: Any) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "description": each.description or "", "required": bool(each.required)}
        for each in prompt.arguments or ()
    ]


def _describe(entry: Any, source: str) -> dict[str, Any]:
    return {"name": entry.name, "description": entry.description or "", "source": source}


def _describe_tool(tool: Any, source: str) -> dict[str, Any]:
    data = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    extras = {key: data[given] for key, given in (("title", "title"), ("annotations", "annotations")) if given in data}
    return {
        "kind": "tool",
        "name": tool.name,
        "description": tool.description or "",
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "tags": [],
        "client_name": to_client_name(tool.name),
        "source": source,
        **extras,
    }


async def _list_pages(list_page: Callable[..., Awaitable[Any]], kind: str) -> list[Any]:
    items: list[Any] = []
    cursor = None
    for _ in range(_PAGES):
        page = await list_page(cursor=cursor)
        items += getattr(page, kind)
        cursor = page.next_cursor
        if cursor is None:
            break
    return items


async def call_remote_tool(
    address: ServerAddress, name: str, pairs: Sequence[str], arguments: Any, ctx: RunningCall
) -> dict[str, Any]:
    """Call a tool of another server, and return its result as `call --json` prints it. Raises BridgeError.

    The server can ask the user of `ctx`, if there is one.
    """
    from mcp_bridge._protocol.wire.questions import read_question, render_answer
    from mcp_bridge._transports.remote import build_elicitation_options
    from mcp_bridge._upstream.trust.screening import screen_question

    async def send_call(client: Any) -> dict[str, Any]:
        tools = {tool.name: tool for tool in await _list_pages(client.list_tools, "tools")}
        if name not in tools:
            raise make_not_found_error(name, tools)
        data = arguments if arguments is not None else parse_pairs(pairs, tools[name].input_schema)
        began = time.perf_counter()
        result = await client.call_tool(name, data, progress_callback=ctx.report_progress)
        return _describe_result(result) | {"duration_ms": round((time.perf_counter() - began) * 1000, 3)}

    async def forward_log(params: Any) -> None:
        await ctx.log(params.level, params.data, params.logger)

    async def answer_elicitation(params: dict[str, Any]) -> dict[str, Any]:
        question = screen_question(read_question("elicitation/create", params), address.url or address.argv[0])
        return render_answer((await ctx.put({"": question}))[""])

    asking = build_elicitation_options(answer_elicitation) if ctx.capabilities else {}
    return await use_server(address, send_call, logging_callback=forward_log, log_level="info", **asking)


def _describe_result(result: Any) -> dict[str, Any]:
    content = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    text = "\n".join(format_block(block) for block in content)
    structured = result.structured_content
    row = {"ok": not result.is_error, "output": structured if structured is not None else text, "content": content}
    return row | ({"error": text} if result.is_error else {})


def format_block(block: Mapping[str, Any]) -> str:
    """Format a content block: its text, or the block as JSON."""
    return str(block["text"]) if block.get("type") == "text" else json.dumps(block, ensure_ascii=False)
