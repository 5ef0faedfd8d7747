"""Questions over HTTP: each round is a request on any connection, and disconnects cancel calls."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from mcp_bridge import CallContext, Form, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._engine.authoring import tool
from mcp_bridge._transports.http.app import BridgeApp, HttpOptions
from mcp_bridge._transports.http.server import format_address, listen, serve
from mcp_bridge.questions import Roots, Sampling
from tests.kits.constants import EVERY_ERA, STATELESS, make_envelope
from tests.kits.questions.asking_kit import ALL_CAPABILITIES, NAME_SCHEMA, accept, get_text, is_idle, make_bridge
from tests.kits.questions.simulated_users import Model, SimulatedUser, folders
from tests.kits.waiting import wait_for_event

ANSWER = {"name": accept(name="Ada")}
TRANSPORTS = pytest.mark.parametrize("transport", ["http", "sse"])
ENVELOPE = make_envelope(ALL_CAPABILITIES)


@contextlib.asynccontextmanager
async def serve_bridge(bridge: Bridge) -> AsyncIterator[str]:
    """Serve a bridge on a free port, and yield its base URL."""
    app = BridgeApp(bridge.endpoint, HttpOptions(), around=bridge.run_sources)
    bound = listen("127.0.0.1", 0, has_token=False)
    async with anyio.create_task_group() as tasks:
        up = anyio.Event()
        tasks.start_soon(partial(serve, app, bound, handles_signals=False, drain=0.2, started=up.set))
        await up.wait()
        yield format_address(bound)
        tasks.cancel_scope.cancel()


async def post(base: str, name: str, **params_of_round: Any) -> Mapping[str, Any]:
    """Send one round of a tools/call on a new connection."""
    params = {"name": name, "arguments": {}, **params_of_round, "_meta": ENVELOPE}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": STATELESS,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with httpx2.AsyncClient(timeout=60) as http:
        answer = await http.post(f"{base}/mcp", json=message, headers=headers)
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data:")][-1].removeprefix("data:")
    answered: Mapping[str, Any] = json.loads(text)
    return answered


class Working:
    """A tool that asks, works until its release, and records its cancellation."""

    def __init__(self) -> None:
        self.registry = ToolRegistry()
        self.at_work, self.go_on, self.cleaned = anyio.Event(), anyio.Event(), anyio.Event()
        self.stopped = False
        tool(registry=self.registry)(self.work)

    async def work(self, ctx: CallContext) -> str:
        """Asks and works."""
        try:
            name = (await ctx.ask("Who?", NAME_SCHEMA, key="name")).content["name"]
            self.at_work.set()
            await self.go_on.wait()
        except anyio.get_cancelled_exc_class():
            self.stopped = True
            raise
        finally:
            self.cleaned.set()
        return f"done for {name}"


@EVERY_ERA
@TRANSPORTS
async def test_every_kind_of_question_works_over_every_transport(mode: str, transport: str) -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def ask(ctx: CallContext) -> str:
        """Asks."""
        got = await ctx.put({"name": Form("Who?", NAME_SCHEMA), "model": Sampling("Hi"), "roots": Roots()})
        page = await ctx.ask("Open.", url="https://example.com/")
        return f"{got['name'].content['name']} {got['model'].text} {len(got['roots'])} {page.action}"

    user = SimulatedUser({"name": "A"}, {"name": "Ada"}, "accept")
    callbacks: Any = {"sampling_callback": Model("Hello"), "list_roots_callback": folders}
    async with serve_bridge(make_bridge(registry)) as base:
        way: Any = sse_client(f"{base}/sse") if transport == "sse" else streamable_http_client(f"{base}/mcp")
        async with Client(way, mode=mode, elicitation_callback=user, **callbacks) as client:
            assert get_text(await client.call_tool("ask", {})) == "Ada Hello 2 accept"
    assert "was not valid" in user.questions[1].message


async def test_each_round_may_use_another_connection() -> None:
    working = Working()
    working.go_on.set()
    bridge = make_bridge(working.registry)
    async with serve_bridge(bridge) as base:
        questions = (await post(base, "work"))["result"]
        assert questions["inputRequests"]["name"]["params"]["message"] == "Who?"
        # The connection is closed, and the call still waits.
        assert not working.cleaned.is_set()
        repeated_questions = (await post(base, "work", requestState=questions["requestState"]))["result"]
        usage = await post(base, "work", requestState=questions["requestState"], inputResponses=ANSWER)
        assert usage["error"]["code"] == -32602
        outcome = await post(base, "work", requestState=repeated_questions["requestState"], inputResponses=ANSWER)
        assert get_text(outcome["result"]) == "done for Ada"
        assert is_idle(bridge)


async def test_a_client_that_disconnects_during_a_round_cancels_the_call() -> None:
    working = Working()
    bridge = make_bridge(working.registry)
    async with serve_bridge(bridge) as base:
        questions = (await post(base, "work"))["result"]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(post, base, "work", requestState=questions["requestState"], inputResponses=ANSWER))
            await wait_for_event(working.at_work)
            tasks.cancel_scope.cancel()
        await wait_for_event(working.cleaned)
        assert working.stopped
        assert is_idle(bridge)


async def test_a_server_that_stops_cancels_the_calls_that_wait_for_answers() -> None:
    working = Working()
    bridge = make_bridge(working.registry)
    async with serve_bridge(bridge) as base:
        await post(base, "work")
        assert not working.cleaned.is_set()
    assert working.stopped
    assert is_idle(bridge)


async def test_two_servers_with_the_same_keys_serve_one_call() -> None:
    from mcp_bridge.questions import NeedsInput

    ran: list[str] = []

    def instance(name: str) -> Bridge:
        registry = ToolRegistry()

        @tool(registry=registry)
        def ask(ctx: CallContext) -> Any:
            """Asks twice."""
            ran.append(name)
            got = [*(ctx.state or ()), *(answer.content["name"] for answer in ctx.answers.values())]
            return NeedsInput({"name": Form("Who?", NAME_SCHEMA)}, got) if len(got) < 2 else " ".join(got)

        return make_bridge(registry, keys=["a key of at least thirty-two bytes, shared"])

    async with serve_bridge(instance("one")) as first_base, serve_bridge(instance("two")) as two:
        first = (await post(first_base, "ask"))["result"]
        second = (await post(two, "ask", requestState=first["requestState"], inputResponses=ANSWER))["result"]
        last = await post(
            first_base, "ask", requestState=second["requestState"], inputResponses={"name": accept(name="Bob")}
        )
        assert get_text(last["result"]) == "Ada Bob"
    assert ran == ["one", "two", "one"]
