"""Tools, in both eras."""

from __future__ import annotations

import base64
import json
import re
import threading
from typing import Any

import anyio
import jsonschema
import mcp_types as types
import pytest
from anyio import to_thread
from mcp.shared.exceptions import MCPError

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._transports import memory
from mcp_bridge.sources import PromptArgument, PromptEntry
from tests.client.raw_client import Json, RawClient
from tests.kits.constants import TIMEOUT
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_tools import PNG, SECRET, WAV
from tests.kits.protocol.protocol_ways import STATELESS_ONLY, Connected, over

TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


async def list_tools(raw: RawClient) -> dict[str, Json]:
    """Return the tools by name."""
    tools = (await raw.get_result("tools/list"))["tools"]
    assert len({tool["name"] for tool in tools}) == len(tools)
    return {tool["name"]: tool for tool in tools}


@proves("tools/list", "tools/names", "tools/input-schema")
async def test_tools_are_listed_with_fitting_names_and_schemas(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        tools = await list_tools(raw)
        assert {"echo", "person", "crash"} <= tools.keys()
        for name, tool in tools.items():
            assert TOOL_NAME.fullmatch(name)
            assert tool["inputSchema"]["type"] == "object"
            jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        assert tools["blocks"]["inputSchema"]["additionalProperties"] is False
        assert (tools["echo"]["title"], tools["echo"]["annotations"]) == ("An echo", {"readOnlyHint": True})


@proves("tools/names")
async def test_case_counts_in_names(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert (await raw.get_error("tools/call", {"name": "Echo", "arguments": {"text": "hi"}}))["code"] == -32602


@proves("tools/list")
async def test_an_empty_list_is_a_list(connected: Connected) -> None:
    bridge, mode = Bridge(ToolRegistry()), "auto" if connected.stateless else "legacy"
    async with bridge.run_sources(), memory.make_client(bridge.endpoint, mode=mode) as client:
        assert (await client.list_tools()).tools == []
        assert (await client.list_resources()).resources == []
        assert (await client.list_prompts()).prompts == []


@proves("tools/names-of-several-sources")
async def test_sources_with_a_prefix_share_names(connected: Connected, tmp_path: Any) -> None:
    from mcp_bridge._app.factory import build_from_settings
    from mcp_bridge._settings import load

    for name in ("one", "two"):
        file = tmp_path / f"{name}.py"
        file.write_text(f'from mcp_bridge import tool\n\n@tool\ndef search() -> str:\n    "x"\n    return "{name}"\n')
    settings = tmp_path / "settings.json"
    sources = [{"type": "python", "path": f"{name}.py", "prefix": name} for name in ("one", "two")]
    settings.write_text(json.dumps({"sources": sources}))
    bridge = build_from_settings(load(settings, {}))
    mode = "auto" if connected.stateless else "legacy"
    async with bridge.run_sources():
        await bridge.wait_until_started()
        async with memory.make_client(bridge.endpoint, mode=mode) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["one__search", "two__search"]
            answers = [(await client.call_tool(name, {})).content[0].text for name in names]  # type: ignore[union-attr]
            assert answers == ["one", "two"]


@proves("tools/list-order")
async def test_the_list_has_the_same_order_each_time(connected: Connected) -> None:
    async with connected.raw_client() as first_client, connected.raw_client() as second_client:
        first = list(await list_tools(first_client))
        await first_client.call("count", {"name": "any", "limit": 1})
        assert first == list(await list_tools(first_client)) == list(await list_tools(second_client))


@proves("tools/list-does-not-vary", "resources/list-does-not-vary", "prompts/list-does-not-vary")
async def test_lists_do_not_vary_by_connection_or_by_what_was_done_on_it(connected: Connected) -> None:
    async with connected.raw_client() as first, connected.raw_client(elicitation={}, sampling={}, roots={}) as second:
        for method, key in (("tools/list", "tools"), ("resources/list", "resources"), ("prompts/list", "prompts")):
            before = (await first.get_result(method))[key]
            await first.call("crash")
            await first.request("resources/read", {"uri": "test://crash"})
            await first.get_result("prompts/get", {"name": "greeting"})
            assert (await first.get_result(method))[key] == before == (await second.get_result(method))[key]
            assert before


@proves("tools/structured-output", "tools/structured-as-text")
async def test_structured_results_conform_and_are_there_as_text(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        schema = (await list_tools(raw))["person"]["outputSchema"]
        result = await raw.call("person", {"name": "Ann", "age": 9})
        assert result["structuredContent"] == {"name": "Ann", "age": 9}
        jsonschema.validate(result["structuredContent"], schema)
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@proves("tools/structured-output")
async def test_what_does_not_conform_is_no_structured_result(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        result = await raw.call("liar")
        assert result["isError"] is True
        assert "structuredContent" not in result
        assert "truth" in result["content"][0]["text"]


@proves("tools/any-structure")
@STATELESS_ONLY
async def test_structured_content_is_any_json_value(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        assert (await list_tools(raw))["numbers"]["outputSchema"]["type"] == "array"
        result = await raw.call("numbers", {"count": 3})
        assert result["structuredContent"] == [0, 1, 2]
        assert json.loads(result["content"][0]["text"]) == [0, 1, 2]


@proves("tools/content")
async def test_content_has_the_fields_of_its_type(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        text, image, audio, embedded, binary, link = (await raw.call("blocks"))["content"]
        assert text == {"type": "text", "text": "text", "annotations": {"audience": ["user"], "priority": 0.5}}
        assert (image["type"], image["mimeType"], base64.b64decode(image["data"])) == ("image", "image/png", PNG)
        assert (audio["type"], audio["mimeType"], base64.b64decode(audio["data"])) == ("audio", "audio/wav", WAV)
        assert embedded["resource"] == {"uri": "test://text", "mimeType": "text/plain", "text": "embedded"}
        assert base64.b64decode(binary["resource"]["blob"], validate=True) == b"\x00\xff"
        assert link == {"type": "resource_link", "uri": "test://text", "name": "text", "mimeType": "text/plain"}


@proves("tools/unknown-tool")
async def test_an_unknown_tool_is_a_protocol_error(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        error = await raw.get_error("tools/call", {"name": "nothing", "arguments": {}})
        assert error["code"] == -32602
        assert "nothing" in error["message"]
    async with connected.client() as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("nothing", {})
        assert caught.value.error.code == -32602


@proves("tools/execution-errors")
async def test_a_failure_of_a_tool_is_an_error_result(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        failure = await raw.call("refuse", {"reason": "Too late. Try tomorrow."})
        assert failure["isError"] is True
        assert failure["content"][0]["text"] == "Too late. Try tomorrow."
        crashed = await raw.call("crash")
        assert crashed["isError"] is True
        assert SECRET not in json.dumps(crashed)


@proves("tools/input-errors", "tools/inputs-validated")
async def test_arguments_that_do_not_fit_are_named_and_reach_no_tool(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for wrong in (
            {"name": "never"},
            {"name": "never", "limit": "many"},
            {"name": "never", "limit": 1, "x": 2},
            None,
        ):
            result = await raw.call("count", wrong)
            assert result["isError"] is True
            assert ("$.x" if wrong and "x" in wrong else "$.limit") in result["content"][0]["text"]
        assert (await raw.call("counted", {"name": "never"}))["content"][0]["text"] == "0"
        assert (await raw.call("count", {"name": "never", "limit": 1}))["content"][0]["text"] == "1"


@proves("tools/outputs-sanitized")
async def test_whatever_a_tool_answers_is_valid_json_and_valid_content(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for name in ("odd", "bad_block"):
            result = types.CallToolResult.model_validate(await raw.call(name), by_name=False)
            assert len(result.content) > 1
    async with connected.client() as client:
        assert (await client.call_tool("bad_block", {})).content[0].text == "good"  # type: ignore[union-attr]


@proves("tools/access-control")
@over("http")
@pytest.mark.parametrize("http", [{"token": "secret"}])
async def test_a_client_without_a_token_calls_no_tool(connected: Connected) -> None:
    async with connected.raw_client(initialize=False) as raw:
        for headers in ({}, {"Authorization": "Bearer guess"}, {"Authorization": "Basic secret"}):
            request = raw.make_request("tools/call", {"name": "count", "arguments": {"name": "x", "limit": 1}})
            await raw.send(request, **headers)
            await raw.receive(lambda message: message.get("id") is None)
            assert raw.responses[request["id"]].status == 401
        assert all("result" not in message for message in raw.received)
        if connected.stateless:
            raw.headers["Authorization"] = "Bearer secret"
            assert (await raw.call("counted", {"name": "x"}))["content"][0]["text"] == "0"


class Crowd:
    """A synchronous handler that waits to be released, and counts its concurrent runs."""

    def __init__(self) -> None:
        self.here, self.go = threading.Semaphore(0), threading.Event()
        self.running = self.most = 0
        self._lock = threading.Lock()

    def __call__(self, data: Any) -> list[str]:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.here.release()
        self.go.wait(TIMEOUT)
        with self._lock:
            self.running -= 1
        return ["done"]

    async def full(self, count: int) -> None:
        """Wait until so many run."""
        await to_thread.run_sync(lambda: [self.here.acquire(timeout=TIMEOUT) for _ in range(count)])
        await anyio.wait_all_tasks_blocked()


class Waiting:
    """The same, asynchronous."""

    def __init__(self) -> None:
        self.running = 0
        self.go = anyio.Event()

    async def __call__(self, data: Any) -> str:
        self.running += 1
        await self.go.wait()
        return "done"


THREADS = 64
SHARE, CALLS = 48, 768
"""Three quarters of all threads and calls, which one tool may have."""


@proves("tools/calls-limited")
async def test_a_flood_of_calls_does_not_run_all_at_once(connected: Connected) -> None:
    crowd, waiting = Crowd(), Waiting()
    connected.bridge.registry.register(ToolEntry("crowd", "Waits in a thread.", crowd, {"type": "object"}))
    connected.bridge.registry.register(ToolEntry("waiting", "Waits.", waiting, {"type": "object"}))
    async with connected.raw_client() as raw:
        calls = [await raw.send_call("crowd") for _ in range(2 * SHARE)]
        await crowd.full(SHARE)
        assert crowd.most == SHARE
        crowd.go.set()
        for call in calls:
            assert "isError" not in (await raw.receive_response(call))["result"]
        calls = [await raw.send_call("waiting") for _ in range(CALLS + 20)]
        await anyio.wait_all_tasks_blocked()
        assert waiting.running == CALLS
        waiting.go.set()
        for call in calls:
            assert "isError" not in (await raw.receive_response(call))["result"]


@proves("completion/limited")
async def test_a_flood_of_completions_does_not_run_all_at_once(connected: Connected) -> None:
    crowd = Crowd()
    connected.bridge.registry.prompts.add(
        PromptEntry("crowd", lambda data: "", "", [PromptArgument("a")], completions={"a": crowd})
    )
    params = {"ref": {"type": "ref/prompt", "name": "crowd"}, "argument": {"name": "a", "value": ""}}
    async with connected.raw_client() as raw:
        calls = [await raw.send_request("completion/complete", params) for _ in range(2 * THREADS)]
        await crowd.full(THREADS)
        assert crowd.most == THREADS
        crowd.go.set()
        for call in calls:
            assert (await raw.receive_response(call))["result"]["completion"]["values"] == ["done"]
