"""Calls that can begin again from what their clients carry make room for others."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from mcp_bridge import CallContext, Form, NeedsInput, State, ToolRegistry, tool
from mcp_bridge.bridge import Bridge
from mcp_bridge.testing import connect


async def never(context: Any, params: Any) -> Any:
    """Stands for a client that can be asked; its answers come by hand."""
    raise AssertionError("asked by itself")


async def test_questions_that_nobody_answers_never_keep_out_those_of_handlers_that_have_ended() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def who(ctx: CallContext) -> str | NeedsInput:
        if not ctx.answers:
            return NeedsInput({"name": Form("Who?", str)}, {"asked": 1})
        return f"{ctx.answers['name'].content['value']} {ctx.state['asked']}"

    bridge = Bridge(registry, state=State(parked=2))
    async with connect(bridge, mode="2026-07-28", elicitation_callback=never) as client:

        async def call(**round_: Any) -> Any:
            return await client.session.call_tool("who", {}, allow_input_required=True, **round_)

        asked = [await call() for _ in range(6)]
        assert all(isinstance(one, types.InputRequiredResult) for one in asked)
        answer = {"name": types.ElicitResult(action="accept", content={"value": "Ada"})}
        for one in asked:
            done = await call(request_state=one.request_state, input_responses=answer)
            assert done.content[0].text == "Ada 1"
