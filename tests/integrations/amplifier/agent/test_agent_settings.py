"""The settings files of agents in `config`, served over stdio as a user starts them."""

from __future__ import annotations

import sys
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import get_code, get_texts
from tests.kits.paths import ROOT

WITH_TOOLS = types.SamplingCapability(tools=types.SamplingToolsCapability())


def connect_to(file: str, **options: Any) -> Client:
    """Connect the official client to a server of one of the files."""
    command = ["-m", "mcp_bridge", "serve", str(ROOT / "config" / file)]
    return Client(stdio_client(StdioServerParameters(command=sys.executable, args=command)), **options)


async def answer_sampling(context: Any, params: types.CreateMessageRequestParams) -> Any:
    """Answer a sampling request: call `greet` for Ada, and then return the tool's result."""
    if len(params.messages) == 1:
        call = types.ToolUseContent(type="tool_use", id="call_1", name="greet", input={"who": "Ada"})
        return types.CreateMessageResultWithTools(role="assistant", content=[call], model="mine", stop_reason="toolUse")
    [result] = params.messages[-1].content_as_list
    text = types.TextContent(type="text", text=f"It said: {result.content[0].text}")
    return types.CreateMessageResultWithTools(role="assistant", content=[text], model="mine")


@EVERY_ERA
async def test_the_demo_runs_without_a_key(mode: str) -> None:
    async with connect_to("agent.yaml", mode=mode) as client:
        result = await client.call_tool("ask_host", {"task": "How are guests greeted?"})
    assert result.structured_content["text"] == "Guests are greeted with good day."


@EVERY_ERA
async def test_the_clients_model_runs_the_agent(mode: str) -> None:
    options = {"sampling_callback": answer_sampling, "sampling_capabilities": WITH_TOOLS}
    async with connect_to("agent_sampling.yaml", mode=mode, **options) as client:
        result = await client.call_tool("run_agent", {"task": "Greet Ada."})
    assert "Ada" in result.structured_content["text"]


@EVERY_ERA
@pytest.mark.parametrize("options", [{}, {"sampling_callback": answer_sampling}])
async def test_a_client_without_tools_in_sampling_receives_the_missing_capability(options: Any, mode: str) -> None:
    async with connect_to("agent_sampling.yaml", mode=mode, **options) as client:
        result = await client.call_tool("run_agent", {"task": "Greet Ada."})
    assert get_code(result) == "agent_stopped"
    assert "has not declared the capability sampling.tools" in get_texts(result)[0]
    assert "Use a client that declares it, or another provider." in get_texts(result)[0]
