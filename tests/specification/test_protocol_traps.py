"""One test for each trap in the SDK's own behaviour: clients of the bridge do not meet it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge import ToolEntry
from mcp_bridge._server.tools.methods import ToolIndex
from tests.client.raw_client import RawClient
from tests.kits.constants import TIMEOUT
from tests.kits.protocol.protocol_tools import META, SECRET
from tests.kits.protocol.protocol_ways import HANDSHAKE_ONLY, STATELESS_ONLY, Connected, over

COMPLETION = {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "broken", "value": ""}}
CHANGED = "notifications/tools/list_changed"


@HANDSHAKE_ONLY
async def test_an_unhandled_exception_never_reaches_a_handshake_client_verbatim(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        await raw.get_result("logging/setLevel", {"level": "debug"})
        await raw.call("crash")
        await raw.request("resources/read", {"uri": "test://crash"})
        await raw.request("prompts/get", {"name": "crash_prompt"})
        await raw.request("completion/complete", COMPLETION)
        messages = json.dumps(raw.received)
        assert SECRET not in messages
        assert "division" not in messages
        # The SDK reports an unhandled exception with the code 0 and the text of the exception.
        assert [message for message in raw.received if message.get("error", {}).get("code") == 0] == []


@HANDSHAKE_ONLY
async def test_a_tool_with_an_array_as_output_can_be_listed_and_called_by_a_handshake_client(
    connected: Connected,
) -> None:
    async with connected.raw_client() as raw:
        tools = {tool["name"]: tool for tool in (await raw.get_result("tools/list"))["tools"]}
        assert tools["numbers"].get("outputSchema", {"type": "object"})["type"] == "object"
        result = await raw.call("numbers", {"count": 2})
        assert isinstance(result.get("structuredContent", {}), dict)
        assert json.loads(result["content"][0]["text"]) == [0, 1]
    async with connected.client() as client:
        assert "numbers" in [tool.name for tool in (await client.list_tools()).tools]
        assert not (await client.call_tool("numbers", {"count": 2})).is_error


@STATELESS_ONLY
async def test_one_bad_block_never_empties_a_stateless_result(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        result = await raw.call("bad_block")
        assert result["resultType"] == "complete"
        assert result["content"][0] == {"type": "text", "text": "good"}
        assert len(result["content"]) == 2


async def test_a_vendors_own_fields_survive_in_meta(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        (echo,) = [tool for tool in (await raw.get_result("tools/list"))["tools"] if tool["name"] == "echo"]
        assert META.items() <= echo["_meta"].items()
        result = await raw.call("vendor")
        assert META.items() <= result["_meta"].items()
        assert META.items() <= result["content"][0]["_meta"].items()


@over("http", stateless=True)
async def test_a_call_over_http_does_not_list_the_tools(connected: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = 0
    get_pages = ToolIndex.get_pages

    def count(index: ToolIndex) -> Any:
        nonlocal listed
        listed += 1
        return get_pages(index)

    monkeypatch.setattr(ToolIndex, "get_pages", count)
    async with connected.raw_client() as raw:
        for _ in range(3):
            assert (await raw.call("echo", {"text": "hi"}))["content"][0]["text"] == "hi"
        assert listed == 0
        await raw.get_result("tools/list")
        assert listed == 1


@over("http", "sse", stateless=False)
async def test_a_handshake_over_http_declares_list_changes(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        capabilities = raw.initialize_result["capabilities"]
        assert all(capabilities[list_name]["listChanged"] is True for list_name in ("tools", "resources", "prompts"))


@over("memory", "http", "sse", stateless=True)
async def test_a_change_outside_of_any_request_reaches_clients_of_both_eras(connected: Connected) -> None:
    async with connected.raw_client() as new, connected.other_era().raw_client() as old:
        await new.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await new.receive_message("notifications/subscriptions/acknowledged")
        await old.get_result("ping")
        connected.bridge.registry.register(ToolEntry("newcomer", "Is new.", lambda data: 1, {"type": "object"}))
        for raw in (new, old):
            await raw.receive_message(CHANGED)


@pytest.mark.parametrize("stateless", [False, True], ids=["handshake", "stateless"])
def test_a_pipe_that_ends_with_its_last_request_loses_no_answer(tmp_path: Path, stateless: bool) -> None:
    (tmp_path / "tools.py").write_text(
        "import time\nfrom mcp_bridge import tool\n\n@tool\ndef slow(n: int) -> int:\n"
        '    "Takes its time."\n    time.sleep(0.05)\n    return n\n'
    )
    raw = RawClient(stateless=stateless)
    calls = [raw.make_request("tools/call", {"name": "slow", "arguments": {"n": n}}) for n in range(10)]
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "pipe", "version": "1"}}
    greeting = [raw.make_request("initialize", hello), {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    lines = [json.dumps(message) for message in (*([] if stateless else greeting), *calls)]
    command = [sys.executable, "-m", "mcp_bridge", "serve", str(tmp_path / "tools.py")]
    # The last line has no line break: the input ends directly after the last request.
    ran = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=TIMEOUT, check=True)
    answers = {message["id"]: message["result"] for message in map(json.loads, ran.stdout.splitlines())}
    texts = [answers[call["id"]]["content"][0]["text"] for call in calls]
    assert texts == [str(n) for n in range(10)]


@over("stdio")
async def test_a_line_that_is_no_message_is_answered_with_an_error(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for line, code in ((b"{", -32700), (b"garbage", -32700), (b'[{"jsonrpc":"2.0"}]', -32600), (b"7", -32600)):
            before = len(raw.received)
            await raw.write(line + b"\n")
            answer = await raw.receive(lambda message: "error" in message)
            assert (answer["error"]["code"], answer.get("id")) == (code, None)
            assert len(raw.received) == before + 1
        assert (await raw.call("echo", {"text": "hi"}))["content"][0]["text"] == "hi"


def test_the_sdk_is_not_imported_before_something_is_served() -> None:
    code = "import sys; from mcp_bridge import ToolRegistry, tool; tool(lambda a: a); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert {"mcp", "mcp_types", "starlette", "uvicorn", "httpx2"}.isdisjoint(ran.stdout.split())


@over("memory", "http", stateless=True)
async def test_clients_of_both_eras_receive_the_same_capabilities(connected: Connected) -> None:
    async with connected.raw_client() as new, connected.other_era().raw_client() as old:
        discovered = (await new.get_result("server/discover"))["capabilities"]
        welcomed = old.initialize_result["capabilities"]
        assert discovered == welcomed
        # Only stateless clients receive the extension for tasks, so this server must not have it.
        assert not discovered.get("extensions")
