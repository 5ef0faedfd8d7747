"""Subagents with the model of the client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import mcp_types as types

from tests.integrations.amplifier.agent.test_delegation import ASK_READER, Plan
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import get_texts


@EVERY_ERA
async def test_the_time_of_the_clients_model_counts_for_all_parents(mode: str, tmp_path: Path) -> None:
    async def sample(context: Any, params: Any) -> Any:
        await anyio.sleep(1)
        response = types.TextContent(type="text", text="Read.")
        return types.CreateMessageResultWithTools(role="assistant", content=[response], model="client-model")

    session = {"orchestrator": {"module": "loop-basic", "config": {"max_seconds": 0.5}}, "context": "context-simple"}
    reader = {"providers": ["provider-sampling"], "orchestrator": {"config": {"max_seconds": 60}}}
    plan = Plan(tmp_path, ASK_READER, "Done.", agents={"reader": reader}, session=session)
    capabilities = types.SamplingCapability(tools=types.SamplingToolsCapability())
    async with plan.connect(mode=mode, sampling_callback=sample, sampling_capabilities=capabilities) as client:
        result = await client.call_tool("run_agent", {"task": "Go."})
    assert "0.5 seconds (max_seconds)" in get_texts(result)[0]
