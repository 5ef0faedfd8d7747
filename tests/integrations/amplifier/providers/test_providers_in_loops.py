"""A provider over an SDK in the loops of an agent, those of the shape of the public ones too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.amplifier.agent.test_public_shapes import PACKAGES, TOOLS, name_module
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.amplifier.messages_provider import MODULE
from tests.kits.amplifier.model_server import THINKING, TOOL, ModelServer, Reply, build_stream, build_text, serve_model
from tests.kits.amplifier.public_shapes import write_shape
from tests.kits.hooks.hooks_kit import get_code, get_texts

LOOPS = pytest.mark.parametrize("loop", ["basic", "streaming", "loop-basic", "loop-streaming"])
KWARGS = {"extended_thinking": True, "stream": False}
DELTAS = [
    {"type": "thinking_delta", "thinking": "I need the file."},
    {"type": "signature_delta", "signature": "c2lnbmF0dXJl"},
]
ARGUMENTS = [{"type": "input_json_delta", "partial_json": '{"path": "a.txt"}'}]
TOOL_CALL = build_stream((THINKING, DELTAS), build_text("I look."), (TOOL, ARGUMENTS), stop="tool_use")


async def run_agent(
    folder: Path,
    host: str,
    loop: str,
    server: ModelServer,
    *,
    tools: str = TOOLS,
    settings: dict[str, Any] | None = None,
    **budgets: Any,
) -> Any:
    """Return the result of a task of an agent with the model of the server."""
    provider = name_module(folder, "provider")
    modules = {name_module(folder, "tools"): tools, provider: MODULE}
    name = loop
    if not loop.startswith("loop-"):
        name = name_module(folder, loop)
        modules |= {name: write_shape(loop, PACKAGES[host])}
    context = name_module(folder, "context")
    modules |= {context: write_shape("context", PACKAGES[host])}
    config = {"api_key": "sk-sample", "base_url": server.url, "max_retries": 0, **(settings or {})}
    served = ServedPlan(
        folder,
        modules,
        session={"orchestrator": {"module": name, "config": {"kwargs": KWARGS, **budgets}}, "context": context},
        providers=[{"module": provider, "config": config}],
        tools=[{"module": name_module(folder, "tools")}],
    )
    async with served.connect() as client:
        if served.problems:
            return served.problems
        return await client.call_tool("run_agent", {"task": "Read a.txt."})


@LOOPS
@BOTH_HOSTS
async def test_the_model_gets_its_thinking_and_the_result_back(loop: str, host: str, tmp_path: Path) -> None:
    with serve_model(TOOL_CALL, build_stream(build_text("It ", "is empty."))) as server:
        result = await run_agent(tmp_path, host, loop, server)
    assert get_texts(result)[0] == "It is empty."
    assert result.structured_content["usage"] == {"input_tokens": 30, "output_tokens": 14, "total_tokens": 44}
    assert [tool["name"] for tool in server.requests[0]["tools"]] == ["read"]
    expected = None if loop.startswith("loop-") else {"type": "adaptive"}
    assert [request.get("thinking") for request in server.requests] == [expected, expected]
    _, reply, answer = server.requests[1]["messages"]
    assert reply["content"] == [
        {"type": "thinking", "thinking": "I need the file.", "signature": "c2lnbmF0dXJl"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.txt"}},
    ]
    assert [json.loads(block["content"]) for block in answer["content"]] == [{"path": "a.txt"}]
    assert answer["content"][0]["tool_use_id"] == "toolu_1"


@LOOPS
@BOTH_HOSTS
async def test_an_error_of_the_api_is_a_failed_call(loop: str, host: str, tmp_path: Path) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with serve_model(Reply(error, 529)) as server:
        result = await run_agent(tmp_path, host, loop, server)
    assert get_code(result) == ("agent_stopped" if loop.startswith("loop-") else "agent_failed")
    assert "Overloaded" in get_texts(result)[0]


@LOOPS
@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        ([build_stream(build_text("I will not."), stop="refusal")], "refused to respond"),
        ([build_stream()], "The model's response was empty."),
        ([build_stream(build_text("It is"), stop="max_tokens")] * 4, "The model's response was truncated"),
    ],
    ids=["refused", "empty", "truncated"],
)
async def test_a_response_that_is_not_complete_is_a_failed_call(
    replies: list[Reply], reason: str, loop: str, tmp_path: Path
) -> None:
    with serve_model(*replies) as server:
        result = await run_agent(tmp_path, "native", loop, server)
    assert get_code(result) in ("agent_stopped", "agent_failed")
    assert reason in get_texts(result)[0]


DRAW = """
class Draw:
    name, description, input_schema = "read", "Draw.", {"type": "object"}

    async def execute(self, input):
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aWNvbg=="}}
        return {"success": False, "error": {"message": "it is broken"}, "output": None, "content": [image]}

async def mount(coordinator, config):
    await coordinator.mount("tools", Draw())
"""


@pytest.mark.parametrize("loop", ["loop-basic", "loop-streaming"])
async def test_the_model_gets_the_images_of_results_and_their_errors(loop: str, tmp_path: Path) -> None:
    with serve_model(TOOL_CALL, build_stream(build_text("I see it."))) as server:
        result = await run_agent(tmp_path, "native", loop, server, tools=DRAW)
    assert get_texts(result)[0] == "I see it."
    [block] = server.requests[1]["messages"][-1]["content"]
    assert block["is_error"] is True
    assert "it is broken" in block["content"][0]["text"]
    assert block["content"][1]["source"]["data"] == "aWNvbg=="


async def test_max_cost_stops_a_run_by_the_prices_of_the_model(tmp_path: Path) -> None:
    settings = {"price": "0.00001"}
    with serve_model(TOOL_CALL, build_stream(build_text("It is empty."))) as server:
        budget = {"settings": settings, "max_cost": 0.0001}
        result = await run_agent(tmp_path, "native", "loop-basic", server, **budget)
    assert len(server.requests) == 1
    assert get_code(result) == "agent_stopped"
    assert "0.0001 US dollars (max_cost)" in get_texts(result)[0]


async def test_an_agent_with_max_cost_and_no_price_is_not_published(tmp_path: Path) -> None:
    with serve_model() as server:
        [problem] = await run_agent(tmp_path, "native", "loop-basic", server, max_cost=1)
    assert "the agent of the plan is not published" in problem
    assert "the cost of the provider 'messages' is not known" in problem
