"""A tool that waits a minute and records its beginning and end, for tests that cancel it."""

from __future__ import annotations

from typing import Any

import anyio

from mcp_bridge.amplifier.testing import wait_for

SLOW = """
import anyio
STATE = []

class Slow:
    name, description, input_schema = "slow", "Take long.", {"type": "object"}

    async def execute(self, input):
        STATE.append("began")
        try:
            await anyio.sleep(60)
        finally:
            STATE.append("ended")

async def mount(coordinator, config):
    await coordinator.mount("tools", Slow())
"""


async def cancel_slow_run(client: Any, coordinator: Any) -> None:
    """Cancel a call of the agent while the tool runs, and wait until the tool has ended."""
    state = coordinator.get("tools")["slow"].execute.__globals__["STATE"]
    with anyio.move_on_after(60) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "run_agent", {"task": "Wait."})
            assert await wait_for(lambda: "began" in state, 10)
            scope.cancel()
    assert await wait_for(lambda: "ended" in state, 10)
