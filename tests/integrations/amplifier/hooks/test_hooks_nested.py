"""Nested calls: their ids, and the injected texts in their results."""

from __future__ import annotations

from typing import Any

from mcp_bridge import CallContext
from mcp_bridge._contracts.errors import ToolError
from mcp_bridge._engine.authoring import tool
from mcp_bridge.tool_use import ChainStep, ToolChain
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import HookedServer, get_texts, inject, open_client


def build_house() -> HookedServer:
    """Return a server with a chain of three steps. The last one fails for a sum above 10."""
    server = HookedServer()

    @tool(registry=server.registry)
    def check(total: dict[str, int]) -> dict[str, int]:
        if total["sum"] > 10:
            raise ToolError("too much")
        return {"n": total["sum"]}

    @tool(registry=server.registry)
    async def add_twice(n: int, ctx: CallContext) -> int:
        once = await ctx.invoke("add", {"n": n})
        twice = await ctx.invoke("add", {"n": once.output["sum"]})
        return twice.output["sum"]

    @tool(registry=server.registry)
    async def pass_on(n: int, ctx: CallContext) -> Any:
        return await ctx.invoke("add", {"n": n})

    chain = ToolChain(server.registry)
    chain.add_step(ChainStep("add", {"n": "n"}, "total"))
    chain.add_step(ChainStep("add", {"n": "total.sum"}, "total"))
    chain.add_step(ChainStep("check", {"total": "total"}))
    server.registry.register(chain.as_tool("chain"))
    server.registry.register(
        ToolChain(server.registry).add_step(ChainStep("add_twice", {"n": "n"}, "x")).as_tool("outer")
    )
    return server


def note_sum(data: dict[str, Any]) -> Any:
    output = data["result"]["output"]
    return inject(f"The sum is {output['sum']}.") if data["tool_name"] == "add" and output else None


async def test_the_id_of_each_step_begins_with_the_id_of_the_chain() -> None:
    server = build_house()
    server.on("tool:pre")
    async with open_client(server, "2026-07-28") as client:
        await client.call_tool("chain", {"n": 1})
    outer, *steps = (data["tool_call_id"] for data in server.get_events("tool:pre"))
    assert outer
    assert steps == [f"{outer}.1", f"{outer}.2", f"{outer}.3"]


async def test_the_ids_of_nested_calls_show_the_whole_path() -> None:
    server = build_house()
    server.on("tool:pre")
    async with open_client(server, "legacy") as client:
        await client.call_tool("outer", {"n": 1})
    ids = {data["tool_call_id"]: data["tool_name"] for data in server.get_events("tool:pre")}
    (outer,) = (call_id for call_id, name in ids.items() if name == "outer")
    assert ids == {outer: "outer", f"{outer}.1": "add_twice", f"{outer}.1.1": "add", f"{outer}.1.2": "add"}


@EVERY_ERA
async def test_texts_that_hooks_inject_during_steps_are_in_the_result_of_the_chain(mode: str) -> None:
    server = build_house()
    server.on("tool:post", note_sum)
    async with open_client(server, mode) as client:
        result = await client.call_tool("chain", {"n": 1})
        assert get_texts(result)[1:] == ["The sum is 2.", "The sum is 3."]
        assert result.structured_content == {"n": 3, "total": {"sum": 3}}


@EVERY_ERA
async def test_texts_that_hooks_inject_are_in_the_error_of_a_chain_that_fails_later(mode: str) -> None:
    server = build_house()
    server.on("tool:post", note_sum)
    async with open_client(server, mode) as client:
        result = await client.call_tool("chain", {"n": 9})
    assert result.is_error
    assert get_texts(result)[1:] == ["The sum is 10.", "The sum is 11."]


async def test_texts_of_nested_calls_reach_the_client_once() -> None:
    server = build_house()
    server.on("tool:post", note_sum)
    async with open_client(server, "2026-07-28") as client:
        assert get_texts(await client.call_tool("outer", {"n": 1}))[1:] == ["The sum is 2.", "The sum is 3."]
        assert get_texts(await client.call_tool("pass_on", {"n": 4}))[1:] == ["The sum is 5."]
