"""Runs the public loops with the public providers for Anthropic and OpenAI, against a local model server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client
from mcp.client.stdio import stdio_client

from tests.kits.amplifier.model_server import ModelServer, Reply, serve_model
from tests.kits.amplifier.public_modules.agent_visits import LOOPS, AgentClient, build_small_plan
from tests.kits.amplifier.public_modules.checks import Report, get_server_parameters
from tests.kits.amplifier.public_modules.plans import Repositories, build_module
from tests.kits.constants import STATELESS

THINKING = {"type": "thinking", "thinking": "I need the file.", "signature": "c2lnbmF0dXJl"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.txt"}}
TEXT = {"type": "text", "text": "It is done."}
FUNCTION_CALL = {
    "type": "function_call", "id": "fc_1", "call_id": "toolu_1", "name": "read", "arguments": '{"path": "a.txt"}',
    "status": "completed",
}  # fmt: skip
OUTPUT_TEXT = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": "It is done.", "annotations": []}],
}  # fmt: skip


def visit_models(repositories: Repositories, checks: Report) -> None:
    """Run an agent of each public loop with the models of both APIs."""
    replies = {
        "provider-anthropic": [build_stream([THINKING, CALL], "tool_use"), build_stream([TEXT], "end_turn")],
        "provider-openai": [build_response(FUNCTION_CALL), build_response(OUTPUT_TEXT)],
    }
    for loop, provider in itertools.product(LOOPS, replies):
        print(f"== {loop} with {provider}")
        with serve_model(*replies[provider]) as server:
            path = write_agent(repositories, loop, provider, server)
            anyio.run(visit, path, checks)
        check_requests(provider, server.requests, checks)


def write_agent(repositories: Repositories, loop: str, provider: str, server: ModelServer) -> Path:
    """Write a plan of an agent with the model of a server."""
    plan = build_small_plan(repositories, loop, public_loop=True, public_context=True, public_provider=False)
    plan["session"]["orchestrator"]["config"]["extended_thinking"] = True
    url = server.url + ("/v1" if provider == "provider-openai" else "")
    config = {"api_key": "sk-sample-key", "base_url": url, "use_streaming": provider == "provider-anthropic"}
    if provider == "provider-anthropic":
        config["default_model"] = "claude-sonnet-5-5"
    plan["providers"] = [build_module(repositories, provider, **config)]
    return repositories.write_plan(f"{loop}-{provider}", plan)


async def visit(path: Path, checks: Report) -> None:
    """Run one task, and check its output."""
    async with Client(stdio_client(get_server_parameters(path, folder="/")), mode=STATELESS) as client:
        agent = AgentClient(client)
        output = (await agent.run("Read a.txt.")).structured_content or {}
    checks.check("text", output.get("text"), lambda text: text == "It is done.")
    checks.check("usage", output.get("usage"), lambda usage: usage and usage["total_tokens"] == 30)
    checks.check("progress", agent.progress, lambda texts: any("'read'" in text for text in texts))


def check_requests(provider: str, requests: Sequence[Any], checks: Report) -> None:
    """Check that the second request contains the first response and the result of the tool."""
    if provider == "provider-openai":
        _, call, result = requests[-1]["input"]
        checks.check("the call", call.get("name"), lambda name: name == "read")
        checks.check("the result", json.loads(result["output"]), lambda value: value == {"shown": "a.txt"})
        return
    _, reply, result = requests[-1]["messages"]
    checks.check("thinking", requests[0].get("thinking"), lambda value: value["type"] == "adaptive")
    kinds = [block["type"] for block in reply["content"]]
    checks.check("the response", kinds, lambda value: value[-1:] == ["tool_use"])
    [block] = result["content"]
    checks.check("the result", json.loads(block["content"]), lambda value: value == {"shown": "a.txt"})


def build_stream(blocks: Sequence[dict[str, Any]], stop: str) -> Reply:
    """Return a streamed response of the Messages API."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "sample", "content": [], "usage": usage}
    events: list[Any] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": build_empty(block)})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in list_deltas(block)]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}})
    return Reply([*events, {"type": "message_stop"}])


def build_empty(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block without content, as a stream starts it."""
    if block["type"] == "tool_use":
        return {**block, "input": {}}
    return {key: value if key == "type" else "" for key, value in block.items()}


def list_deltas(block: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the deltas of a streamed block."""
    if block["type"] == "tool_use":
        return [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    names = [name for name in block if name != "type"]
    return [{"type": f"{name}_delta", name: block[name]} for name in names]


def build_response(item: dict[str, Any]) -> Reply:
    """Return a response of the Responses API."""
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, **details}
    head = {"id": "resp_1", "object": "response", "created_at": 0, "model": "sample", "status": "completed"}
    return Reply(
        {**head, "output": [item], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage}
    )
