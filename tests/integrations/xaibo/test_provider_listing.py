"""The tools of providers are listed again, and changes are published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._integrations.xaibo.source import provider_tools
from mcp_bridge.xaibo import Tool, ToolNotFoundError, ToolResult
from tests.kits.constants import TIMEOUT
from tests.kits.xaibo.xaibo_kit import SourceBridge, call_text, list_schemas

SOON = 0.001


class Changing:
    """A provider with the tools `names`. Listings are counted, and may fail."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.count = 0
        self.fails: BaseException | None = None
        self.listed = anyio.Event()

    async def list_tools(self) -> list[Tool]:
        self.count += 1
        self.listed.set()
        self.listed = anyio.Event()
        if self.fails is not None:
            raise self.fails
        return [Tool(name=name, description=name) for name in self.names]

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> ToolResult:
        if tool_name not in self.names:
            return ToolResult(success=False, error=f"Tool {tool_name} not found")
        return ToolResult(success=True, result=tool_name)


async def list_again(source_bridge: SourceBridge) -> None:
    """Request another listing, and wait for it."""
    provider: Any = source_bridge.source._provider
    listed = provider.listed
    source_bridge.source._schedule_refresh()
    await listed.wait()


async def test_the_provider_is_listed_once_for_all_clients(tmp_path: Path) -> None:
    provider = Changing("a")
    async with SourceBridge(tmp_path, provider=provider).client() as client:
        for _ in range(3):
            await list_schemas(client)
            assert await call_text(client, "a") == "a"
    assert provider.count == 1


@pytest.mark.parametrize("raises", [False, True])
async def test_tools_are_listed_again_and_clients_notified_if_one_is_not_found(raises: bool, tmp_path: Path) -> None:
    class Raising(Changing):
        async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> ToolResult:
            answer = await super().execute_tool(tool_name, parameters)
            if raises and not answer.success:
                raise ToolNotFoundError(answer.error)
            return answer

    provider = Raising("old", "kept")
    async with SourceBridge(tmp_path, provider=provider).client() as client:
        provider.names = ["kept", "new"]
        async with client.listen(tools_list_changed=True) as changes:
            assert await call_text(client, "old") == "error: Tool old not found"
            with anyio.fail_after(TIMEOUT):
                await anext(aiter(changes))
        assert list(await list_schemas(client)) == ["kept", "new"]
        assert await call_text(client, "new") == "new"


async def test_a_synchronous_provider_is_listed_again_if_a_tool_is_not_found(tmp_path: Path) -> None:
    class Sync:
        names = ("old",)

        def list_tools(self) -> list[Tool]:
            return [Tool(name=name, description="") for name in self.names]

        def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> ToolResult:
            return ToolResult(success=False, error=f"Unknown tool: {tool_name}")

    provider = Sync()
    async with SourceBridge(tmp_path, provider=provider).client() as client:
        provider.names = ("new",)
        async with client.listen(tools_list_changed=True) as changes:
            await call_text(client, "old")
            with anyio.fail_after(TIMEOUT):
                await anext(aiter(changes))
        assert list(await list_schemas(client)) == ["new"]


async def test_other_failures_cause_no_new_listing(tmp_path: Path) -> None:
    class City(Changing):
        async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> ToolResult:
            return ToolResult(success=False, error="City 'X' not found")

    provider = City("weather")
    async with SourceBridge(tmp_path, provider=provider).client() as client:
        await call_text(client, "weather")
        await list_schemas(client)
    assert provider.count == 1


async def test_only_a_changed_list_is_published_again(tmp_path: Path) -> None:
    provider = Changing("a")
    source_bridge = SourceBridge(tmp_path, provider=provider)
    async with source_bridge.offers() as publishes:
        first = await publishes.receive()
        await list_again(source_bridge)
        provider.names.append("b")
        await list_again(source_bridge)
        second = await publishes.receive()
    assert [entry.name for entry in first.tools] == ["a"]
    assert [entry.name for entry in second.tools] == ["a", "b"]


async def test_tools_of_a_provider_that_fails_later_stay_published_with_a_problem(tmp_path: Path) -> None:
    provider = Changing("a")
    source_bridge = SourceBridge(tmp_path, provider=provider)
    async with source_bridge.offers() as publishes:
        first = await publishes.receive()
        provider.fails = RuntimeError("offline")
        await list_again(source_bridge)
        second = await publishes.receive()
        provider.fails = None
        await list_again(source_bridge)
        third = await publishes.receive()
    assert list(first.tools) == list(second.tools) == list(third.tools)
    assert second.problems == [
        "provider 'Changing' cannot list its tools: RuntimeError: offline; its tools stay as they were"
    ]
    assert third.problems == []


async def test_listing_a_provider_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs(Changing):
        async def list_tools(self) -> list[Tool]:
            await anyio.sleep_forever()
            return []

    monkeypatch.setattr(provider_tools, "LIST_TIMEOUT", SOON)
    source_bridge = SourceBridge(tmp_path, provider=Hangs())
    with pytest.raises(SourceError, match=r"provider 'Hangs' did not list its tools within 0\.001 seconds"):
        await source_bridge.source.run(lambda _: None)
