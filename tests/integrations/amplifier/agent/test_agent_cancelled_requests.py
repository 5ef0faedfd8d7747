"""Cancelling the request of an agent, in the way of each transport, stops the request to the model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_bridge.amplifier.testing import wait_for
from tests.client.stdio_client import serve_over_pipes
from tests.integrations.amplifier.agent.test_agent_cancellation import (
    check_nothing_is_left,
    count_tasks,
    make_stream,
    serve,
)
from tests.kits.amplifier import messages_provider
from tests.kits.amplifier.model_server import ModelServer, Reply, serve_model
from tests.kits.constants import ENVELOPE, HTTP_HEADERS, STATELESS
from tests.kits.http.http_process import get_command, run_http_server


def build_silent_reply() -> Reply:
    """Return a stream that sends its first half and stays open."""
    reply = make_stream("I thi", "first")
    reply.body, reply.is_endless = reply.body[:3], True
    return reply


@pytest.mark.parametrize("stateless", [False, True])
async def test_a_cancelled_notification_over_stdio_ends_the_run(stateless: bool, tmp_path: Path) -> None:
    with serve_model(build_silent_reply(), make_stream("Here I am.")) as model:
        server = serve(tmp_path, model.url)
        async with serve_over_pipes(server.bridge, stateless=stateless, initialize=False) as client:
            if not stateless:
                await client.initialize()
            await client.request("tools/list")
            tasks = count_tasks()
            number = await client.send_call("run_agent", {"task": "Begin."})
            assert await wait_for(lambda: model.open == 1 and len(model.requests) == 1, 10)
            await client.notify("notifications/cancelled", {"requestId": number})
            # One more task belongs to the session of the client.
            await check_nothing_is_left(server, model, tasks + 1)
            answer = await client.receive_response(await client.send_call("run_agent", {"task": "Begin."}))
    assert answer["result"]["structuredContent"]["text"] == "Here I am."


@pytest.mark.parametrize("isolation", [False, {"invokes": []}])
async def test_a_closed_response_over_http_ends_the_run(isolation: Any, tmp_path: Path) -> None:
    with serve_model(build_silent_reply(), make_stream("Here I am.")) as model:
        write_settings(tmp_path, model, isolation)
        argv = get_command("agent.json", "--http", "127.0.0.1:0")
        async with (
            run_http_server(tmp_path, argv) as server,
            httpx2.AsyncClient(base_url=server.base, timeout=30) as http,
        ):
            headers = {
                **HTTP_HEADERS,
                "MCP-Protocol-Version": STATELESS,
                "Mcp-Method": "tools/call",
                "Mcp-Name": "run_agent",
            }
            params = {"name": "run_agent", "arguments": {"task": "Begin."}, "_meta": {**ENVELOPE, "progressToken": "1"}}
            message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            async with http.stream("POST", "/mcp", json=message, headers=headers):
                assert await wait_for(lambda: model.open == 1 and len(model.requests) == 1, 20)
            assert await wait_for(lambda: model.open == 0, 20)
            response = await http.post("/mcp", json=message, headers=headers)
    assert "Here I am." in response.text


def write_settings(folder: Path, model: ModelServer, isolation: Any) -> None:
    plan = {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [{"module": "messages", "config": {"base_url": model.url, "api_key": "sk-ant-x"}}],
    }
    shutil.copy(messages_provider.__file__, folder / "messages.py")
    source = {"type": "amplifier", "plan": plan, **({"isolation": isolation} if isolation else {})}
    (folder / "agent.json").write_text(json.dumps({"sources": [source]}))
