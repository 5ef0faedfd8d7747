"""A server on the official SDK with every feature: `python sdk_server.py TRANSPORT ERA`.

TRANSPORT is stdio, http, http-stateless or sse; ERA is handshake, stateless or dual. Over HTTP, it prints its port.
"""

from __future__ import annotations

import base64
import os
import socket
import sys
import warnings
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.runner import serve_loop
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

Json = dict[str, Any]
ANY = {"type": "object"}
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
ICON = {"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}
NOTED = {"audience": ["user"], "priority": 0.5}
BLOCKS: list[Json] = [
    {"type": "text", "text": "words", "annotations": NOTED, "_meta": {"example.com/block": 1}},
    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "note://one", "name": "one", "description": "The first.", "size": 3},
    {"type": "resource", "resource": {"uri": "note://one", "text": "the note", "mimeType": "text/plain"}},
]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUESTIONS: dict[str, Json] = {
    "ask_form": {"method": "elicitation/create", "params": {"message": "Your name?", "requestedSchema": FORM}},
    "ask_url": {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "Sign in.", "url": "https://example.com/login", "elicitationId": "one"},
    },
    "ask_model": {
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}],
            "maxTokens": 7,
            "systemPrompt": "Be brief.",
            "tools": [{"name": "look", "inputSchema": {"type": "object"}}],
        },
    },
    "ask_roots": {"method": "roots/list", "params": {}},
}
RESULTS = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResultWithTools,
    "roots/list": types.ListRootsResult,
}
REQUESTS = {
    "elicitation/create": types.ElicitRequest,
    "sampling/createMessage": types.CreateMessageRequest,
    "roots/list": types.ListRootsRequest,
}
TOOLS: list[Json] = [
    {
        "name": "show_content", "title": "Show content", "description": "Every kind of content.", "inputSchema": ANY,
        "annotations": {"readOnlyHint": True, "title": "Show"}, "icons": [ICON], "_meta": {"example.com/tool": True},
    },
    {
        "name": "measure", "description": "Structured.", "inputSchema": ANY,
        "outputSchema": {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]},
    },
    *({"name": name, "inputSchema": ANY} for name in (
        *QUESTIONS, "show_meta", "show_subscribed", "report", "log", "wait", "show_cancelled", "fail", "reject",
        "write_long", "touch", "rename", "end",
    )),
]  # fmt: skip


class EverythingServer:
    """The offer of the server, and its received requests."""

    def __init__(self, era: str) -> None:
        self.renamable_tool = "renamed_later"
        self.cancelled: list[str] = []
        self.subscribed: list[str] = []
        self.bus = InMemorySubscriptionBus()
        self._era = era
        self._listen = ListenHandler(self.bus)

    def build(self) -> Server[Any]:
        """Build the server."""
        warnings.simplefilter("ignore")
        server: Server[Any] = Server(
            "everything", version="1", on_list_tools=self._list_tools, on_call_tool=self._call_tool,
            on_list_resources=self._list_resources, on_list_resource_templates=self._list_templates,
            on_read_resource=self._read, on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe, on_subscriptions_listen=self._serve_listener,
            on_list_prompts=self._list_prompts, on_get_prompt=self._get_prompt, on_completion=self._complete_argument,
            on_set_logging_level=self._set_level,
        )  # fmt: skip
        server.middleware.append(self._limit_era)
        return server

    async def _limit_era(self, ctx: Any, call_next: Any) -> Any:
        if ctx.method == {"handshake": "server/discover", "stateless": "initialize"}.get(self._era):
            raise MCPError(-32601, "Method not found")
        return await call_next(ctx)

    async def _list_tools(self, ctx: Any, params: Any) -> Any:
        """List two tools per page."""
        tools = [*TOOLS, {"name": self.renamable_tool, "inputSchema": ANY}]
        start = int(params.cursor or 0) if params is not None else 0
        more = {"nextCursor": str(start + 2)} if start + 2 < len(tools) else {}
        return _complete(ctx, {"tools": tools[start : start + 2], **more}, cached=True)

    async def _call_tool(self, ctx: Any, params: Any) -> Any:
        name, data = params.name, params.arguments or {}
        if name in QUESTIONS:
            return await self._ask(ctx, params, QUESTIONS[name])
        if name == "show_meta":
            meta = (ctx.params or {}).get("_meta") or {}
            texts = {key: value for key, value in meta.items() if key.startswith("example.com/")}
            return _complete(ctx, {"content": [], "structuredContent": texts, "_meta": {"example.com/result": "yes"}})
        if name == "wait":
            return await self._wait(data)
        if name == "reject":
            raise MCPError(-32603, "The machine is on fire.")
        await self._act(ctx, name, data)
        results: Json = {
            "show_content": {"content": BLOCKS},
            "measure": {"content": [{"type": "text", "text": "three"}], "structuredContent": {"size": 3, "unit": "m"}},
            "show_subscribed": _show(self.subscribed),
            "show_cancelled": _show(self.cancelled),
            "fail": {"content": [{"type": "text", "text": "It went wrong."}, BLOCKS[1]], "isError": True},
            "write_long": {"content": [{"type": "text", "text": "x" * 300_000}]},
        }
        return _complete(ctx, results.get(name) or {"content": [{"type": "text", "text": "done"}]})

    async def _act(self, ctx: Any, name: str, data: Json) -> None:
        if name == "report":
            for step in (1, 2, 3):
                await ctx.session.report_progress(step, 3, f"step {step}")
        elif name == "log":
            for level in ("debug", "info", "error"):
                await ctx.session.send_log_message(level, {"said": level}, "work", related_request_id=ctx.request_id)
        elif name == "touch":
            if data["uri"] in self.subscribed and ctx.protocol_version != "2026-07-28":
                await ctx.session.send_resource_updated(data["uri"])
            await self.bus.publish(ResourceUpdated(data["uri"]))
        elif name == "end":
            os._exit(3)
        elif name == "rename":
            self.renamable_tool = data["name"]
            await self.bus.publish(ToolsListChanged())
            if ctx.protocol_version != "2026-07-28":
                await ctx.session.send_tool_list_changed()

    async def _ask(self, ctx: Any, params: Any, question: Json) -> Any:
        method = question["method"]
        if ctx.protocol_version == "2026-07-28":
            answers = params.input_responses
            if not answers:
                question_params = {key: value for key, value in question["params"].items() if key != "elicitationId"}
                request = {"method": method, "params": question_params}
                return {"resultType": "input_required", "inputRequests": {"it": request}, "requestState": "sealed"}
            answer = (ctx.params or {})["inputResponses"]["it"]
            return _complete(
                ctx, {"content": [], "structuredContent": {"answer": answer, "state": params.request_state}}
            )
        request = REQUESTS[method].model_validate({"method": method, "params": question["params"] or None})
        metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
        result = await ctx.session.send_request(request, RESULTS[method], metadata=metadata)
        answer = result.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"result_type"})
        return {"content": [], "structuredContent": {"answer": answer, "state": "sealed"}}

    async def _wait(self, data: Json) -> Any:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(data["label"])
            raise

    async def _list_resources(self, ctx: Any, params: Any) -> Any:
        note = {
            "uri": "note://one", "name": "one", "title": "One", "description": "A note.", "mimeType": "text/plain",
            "size": 8, "annotations": NOTED, "icons": [ICON], "_meta": {"example.com/resource": 1},
        }  # fmt: skip
        return _complete(ctx, {"resources": [note]}, cached=True)

    async def _list_templates(self, ctx: Any, params: Any) -> Any:
        return _complete(ctx, {"resourceTemplates": [{"uriTemplate": "page://{id}", "name": "page"}]}, cached=True)

    async def _read(self, ctx: Any, params: Any) -> Any:
        uri = str(params.uri)
        if uri == "note://one":
            contents = [{"uri": uri, "text": "the note", "mimeType": "text/plain", "_meta": {"example.com/c": 1}}]
        elif uri.startswith("page://"):
            contents = [{"uri": uri, "blob": PIXEL, "mimeType": "image/png"}]
        else:
            raise MCPError(-32602, "Resource not found", {"uri": uri})
        return _complete(ctx, {"contents": contents, "_meta": {"example.com/read": 1}}, cached=True)

    async def _subscribe(self, ctx: Any, params: Any) -> Any:
        self.subscribed.append(str(params.uri))
        return {}

    async def _unsubscribe(self, ctx: Any, params: Any) -> Any:
        self.subscribed.remove(str(params.uri))
        return {}

    async def _serve_listener(self, ctx: Any, params: Any) -> Any:
        uris = params.notifications.resource_subscriptions or []
        self.subscribed += uris
        try:
            return await self._listen(ctx, params)
        finally:
            for uri in uris:
                self.subscribed.remove(uri)

    async def _list_prompts(self, ctx: Any, params: Any) -> Any:
        arguments = [{"name": "who", "title": "Who", "description": "Whom to greet.", "required": True}]
        return _complete(ctx, {"prompts": [{"name": "greet", "title": "Greet", "arguments": arguments}]}, cached=True)

    async def _get_prompt(self, ctx: Any, params: Any) -> Any:
        who = (params.arguments or {})["who"]
        messages = [
            {"role": "user", "content": {"type": "text", "text": f"Greet {who}."}},
            {"role": "assistant", "content": BLOCKS[1]},
        ]
        return _complete(ctx, {"messages": messages, "_meta": {"example.com/prompt": 1}})

    async def _complete_argument(self, ctx: Any, params: Any) -> Any:
        arguments = (params.context.arguments if params.context else None) or {}
        values = [f"{params.argument.value}{end}" for end in ("da", "lan", *arguments.values())]
        return _complete(ctx, {"completion": {"values": values, "total": 250, "hasMore": True}})

    async def _set_level(self, ctx: Any, params: Any) -> Any:
        return {}


def _complete(ctx: Any, result: Json, *, cached: bool = False) -> Json:
    if ctx.protocol_version != "2026-07-28":
        return result
    return {**result, "resultType": "complete", **({"ttlMs": 0, "cacheScope": "public"} if cached else {})}


def _show(names: list[str]) -> Json:
    return {"content": [], "structuredContent": {"names": sorted(names)}}


async def serve_streams(server: Server[Any], read: Any, write: Any, era: str) -> None:
    """Serve one client."""
    changes = NotificationOptions(tools_changed=True, resources_changed=True, prompts_changed=True)
    options = server.create_initialization_options(changes)
    if era == "handshake":
        await serve_loop(server, read, write, lifespan_state={}, init_options=options)
    else:
        await server.run(read, write, options)


async def serve_stdio(server: Server[Any], era: str) -> None:
    """Serve one client."""
    async with stdio_server() as (contents, write):
        await serve_streams(server, contents, write, era)


def build_sse_app(server: Server[Any], era: str) -> Starlette:
    """Build the app of the older transport."""
    transport = SseServerTransport("/messages/")

    async def connect(request: Any) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (contents, write):
            await serve_streams(server, contents, write, era)
        return Response()

    messages = Mount("/messages/", app=transport.handle_post_message)
    return Starlette(routes=[Route("/sse", connect, methods=["GET"]), messages])


def main() -> None:
    """Serve until the end of the input, or until killed."""
    transport, era = sys.argv[1:3]
    server = EverythingServer(era).build()
    if transport == "stdio":
        anyio.run(serve_stdio, server, era)
        return
    is_sse = transport == "sse"
    app = (
        build_sse_app(server, era)
        if is_sse
        else server.streamable_http_app(stateless_http=transport == "http-stateless")
    )
    bound = socket.create_server(("127.0.0.1", 0))
    print(bound.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([bound])


if __name__ == "__main__":
    main()
