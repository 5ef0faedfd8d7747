"""CallContext: the running call for authors."""

from __future__ import annotations

import re

import pytest

from mcp_bridge import CallContext, ToolCall, ToolEntry, ToolRegistry
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge.middleware import Pipeline, Stage
from tests.kits.paths import ROOT

MEMBERS = [name for name in dir(CallContext) if not name.startswith("_")]


def test_a_context_has_few_members_and_all_are_documented() -> None:
    pages = "\n".join(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))
    assert [name for name in MEMBERS if not re.search(rf"`(await )?ctx\.{name}\b|\bctx\.{name}\(", pages)] == []
    assert len(MEMBERS) <= 30


async def test_a_handler_and_a_middleware_get_the_same_object() -> None:
    contexts = []

    class Watch:
        stage = Stage.OBSERVE

        async def __call__(self, call, ctx: CallContext, call_next):  # type: ignore[no-untyped-def]
            contexts.append(ctx)
            return await call_next(call, ctx)

    async def handle(data: object, ctx: CallContext) -> str:
        contexts.append(ctx)
        return "done"

    registry = ToolRegistry(pipeline=Pipeline([Watch()]))
    registry.register(ToolEntry("work", "Work.", handle))
    call = RunningCall()
    await registry.dispatch(ToolCall(id="1", name="work"), call)
    assert contexts == [call, call]


async def test_a_created_context_describes_the_caller() -> None:
    async def describe(data: object, ctx: CallContext) -> list[object]:
        return [ctx.principal, ctx.session, ctx.request_id, dict(ctx.meta), dict(ctx.capabilities), len(ctx.tools())]

    registry = ToolRegistry()
    registry.register(ToolEntry("describe", "Describe.", describe))
    ctx = CallContext(principal="ann", session="s", request_id="7", meta={"a": 1}, capabilities={"roots": {}})
    result = await registry.dispatch(ToolCall(id="1", name="describe"), ctx)
    assert result.output == ["ann", "s", "7", {"a": 1}, {"roots": {}}, 1]


async def test_a_created_context_has_no_client_and_no_registry() -> None:
    ctx = CallContext()
    await ctx.report_progress(1, 2, "half")
    await ctx.info("a message without a client")
    ctx.resource_updated("a://b")
    assert (ctx.lifespan, ctx.deadline, ctx.attempt, ctx.idempotency_key) == (None, None, 1, None)
    assert ctx.tools() == ()
    with pytest.raises(RuntimeError, match="outside a registry"):
        await ctx.invoke("work")
    with pytest.raises(RuntimeError, match="outside a registry"):
        await ctx.read_resource("a://b")
    await ctx.set_state("k", 1)
    assert await ctx.get_state("k") == 1
    await ctx.delete_state("k")
    assert await ctx.get_state("k", "gone") == "gone"
