"""Tasks belong to their principals, and each client has a share of them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.jsonrpc import HEADER_MISMATCH, RpcError
from mcp_bridge._contracts.tasks import TASKS
from mcp_bridge._engine.authoring import tool
from mcp_bridge._protocol.peer.connection import IncomingRequest
from mcp_bridge._server.tasks.run import NoStream
from mcp_bridge.tasks import TaskOptions, ToolTasks
from tests.kits.constants import make_envelope
from tests.kits.http.http_hosting import make_stateless_request, serve_http
from tests.kits.loops import BOTH_LOOPS
from tests.kits.questions.asking_kit import get_code, make_bridge

AT_ONCE = TaskOptions(most=4, tools={"*": ToolTasks(after=0)})
META = make_envelope({"extensions": {TASKS: {}}})
IDS = itertools.count()


def make_waiting_bridge() -> Bridge:
    """Return a bridge with an endless tool."""
    registry = ToolRegistry()

    @tool(registry=registry)
    async def work() -> str:
        await anyio.sleep_forever()

    return make_bridge(registry, tasks=AT_ONCE)


@asynccontextmanager
async def run_bridge(bridge: Bridge) -> AsyncIterator[None]:
    async with bridge.run_sources(), anyio.create_task_group() as group:
        await group.start(bridge.endpoint.run)
        yield
        group.cancel_scope.cancel()


async def send_request(bridge: Bridge, principal: str, method: str, **params: Any) -> Mapping[str, Any]:
    """Send a request as this principal, and return the result."""
    request = IncomingRequest(
        next(IDS), method, {**params, "_meta": META}, NoStream(), principal=principal, client=f"principal/{principal}"
    )
    result: Mapping[str, Any] = await bridge.endpoint.handle_stateless(request)
    return result


@BOTH_LOOPS
async def test_a_task_of_another_principal_is_an_unknown_task() -> None:
    bridge = make_waiting_bridge()
    async with run_bridge(bridge):
        task = (await send_request(bridge, "ada", "tools/call", name="work"))["taskId"]
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            errors = []
            for handle in (task, "x" * 43):
                with pytest.raises(RpcError) as caught:
                    await send_request(bridge, "eve", method, taskId=handle, inputResponses={})
                errors.append(caught.value.to_json())
            assert errors[0] == errors[1]
        assert (await send_request(bridge, "ada", "tasks/get", taskId=task))["status"] == "working"


@BOTH_LOOPS
async def test_one_client_cannot_take_all_tasks() -> None:
    bridge = make_waiting_bridge()
    async with run_bridge(bridge):
        outcomes = [await send_request(bridge, "ada", "tools/call", name="work") for _ in range(4)]
        assert [result["resultType"] for result in outcomes] == ["task", "task", "task", "complete"]
        assert get_code(outcomes[3]) == "overloaded"
        assert (await send_request(bridge, "eve", "tools/call", name="work"))["resultType"] == "task"


async def test_the_header_mcp_name_must_be_the_handle() -> None:
    async with serve_http(make_waiting_bridge()) as (base, _), httpx2.AsyncClient() as http:

        async def post(method: str, params: dict[str, Any], **headers: str) -> dict[str, Any]:
            messages = make_stateless_request(method, params, **headers)
            messages["json"]["params"]["_meta"] = META
            answer: dict[str, Any] = (await http.post(f"{base}/mcp", **messages)).json()
            return answer

        task = (await post("tools/call", {"name": "work"}))["result"]["taskId"]
        names = await post("tasks/get", {"taskId": task}, **{"Mcp-Name": task})
        assert names["result"]["status"] == "working"
        for headers in ({}, {"Mcp-Name": "another"}):
            assert (await post("tasks/get", {"taskId": task}, **headers))["error"]["code"] == HEADER_MISMATCH
