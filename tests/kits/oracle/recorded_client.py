"""Records the messages of the official Python client while it uses the whole offer of the twin servers."""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import anyio
import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from mcp_bridge._server.endpoint import Endpoint
from mcp_bridge._transports.memory import connect
from tests.kits.oracle.oracle_offers import IDENTITY, make_registry
from tests.kits.oracle.recordings import name_request


class RecordedStream:
    """One side of a client's connection. It records sent messages, with names for requests of the server."""

    def __init__(self, stream: Any, lines: list[bytes], names: dict[str, Any]) -> None:
        self._stream = stream
        self._lines = lines
        self._names = names

    async def send(self, item: SessionMessage) -> None:
        message = json.loads(item.message.model_dump_json(by_alias=True, exclude_unset=True))
        if "method" not in message:
            message["id"] = next(name for name, number in self._names.items() if number == message["id"])
        self._lines.append(json.dumps(message).encode())
        await self._stream.send(item)

    async def receive(self) -> Any:
        item = await self._stream.receive()
        if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCRequest):
            self._names[name_request(item.message.method, self._names)] = item.message.id
        return item

    def __aiter__(self) -> RecordedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> RecordedStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def record_client(mode: str) -> list[bytes]:
    """Return all messages of the client in this mode, in order, while it uses everything."""
    lines: list[bytes] = []
    endpoint = Endpoint(make_registry(), IDENTITY)

    @asynccontextmanager
    async def connect_recorded() -> AsyncIterator[tuple[Any, Any]]:
        names: dict[str, Any] = {}
        async with connect(endpoint) as (read, write):
            yield RecordedStream(read, lines, names), RecordedStream(write, lines, names)

    async with anyio.create_task_group() as tasks:
        await tasks.start(endpoint.run)
        client = Client(
            connect_recorded(), mode=mode, log_level="debug", elicitation_callback=_elicit, sampling_callback=_sample,
            list_roots_callback=_list_roots,
        )  # fmt: skip
        with warnings.catch_warnings():
            # Sampling, roots and logging are deprecated.
            warnings.simplefilter("ignore")
            async with client:
                await _use_everything(client)
        tasks.cancel_scope.cancel()
    return lines


async def _use_everything(client: Client) -> None:
    page = await client.list_tools()
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
    await client.list_resources()
    await client.list_resource_templates()
    await client.list_prompts()
    for uri in ("test://text", "test://bytes", "test://notes/ann", "test://files/a/b"):
        await client.read_resource(uri)
    await client.get_prompt("greeting", {"who": "Ada"})
    prompt = types.PromptReference(type="ref/prompt", name="greeting")
    await client.complete(prompt, {"name": "who", "value": "a"}, context_arguments={"tone": "kind"})
    template = types.ResourceTemplateReference(type="ref/resource", uri="test://notes/{name}")
    await client.complete(template, {"name": "name", "value": "an"})
    for request in (client.read_resource("test://none"), client.get_prompt("none"), client.call_tool("none", {})):
        try:
            await request
        except MCPError:
            continue
    await client.call_tool("echo", {"text": "hi"}, meta={"com.example/a": 1})
    for name in ("count", "blocks", "refuse", "crash", "ask", "sample", "roots", "open_page", "need_input",
                 "need_sampling"):  # fmt: skip
        await client.call_tool(name, {})
    await _use_notifications(client)


async def _use_notifications(client: Client) -> None:
    await client.call_tool("report", {}, progress_callback=_ignore_progress)
    is_stateless = client.protocol_version == "2026-07-28"
    if is_stateless:
        async with client.listen(tools_list_changed=True, resource_subscriptions=["test://text"]) as events:
            for name in ("change_tools", "touch"):
                await client.call_tool(name, {})
                await anext(events)
    else:
        await client.send_ping()
        await client.set_logging_level("warning")
        await client.call_tool("report", {})
        await client.subscribe_resource("test://text")
        await client.call_tool("touch", {})
        await client.unsubscribe_resource("test://text")
        await client.call_tool("change_tools", {})
        await client.send_roots_list_changed()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "wait", {})
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


async def _ignore_progress(progress: float, total: float | None, message: str | None) -> None:
    """Make the client ask for progress."""


async def _elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult(action="accept")
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def _sample(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    return types.CreateMessageResult(role="assistant", content=types.TextContent(type="text", text="Hello"), model="m")


async def _list_roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///a")])
