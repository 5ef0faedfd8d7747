"""xaibo's own providers and objects work unchanged, without their known problems."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from xaibo.core.models.tools import Tool, ToolParameter, ToolResult
from xaibo.core.protocols.tools import ToolProviderProtocol

from mcp_bridge._contracts.errors import SourceError
from tests.kits.xaibo.xaibo_kit import SourceBridge, call_text, list_schemas, write_files

pytestmark = pytest.mark.usefixtures("forgotten")

PYTHON = "xaibo.primitives.modules.tools:PythonToolProvider"
SHELF = '''
import asyncio
import threading

import anyio
from xaibo.primitives.modules.tools.python_tool_provider import tool

taken = []


@tool
def take(item: str, count: int = 1) -> int:
    """Take something.

    Args:
        item: what to take
    """
    taken.append(item)
    return len(taken)


@tool
async def fetch(item: str) -> str:
    """Fetch something."""
    await anyio.lowlevel.checkpoint()
    if item == "moon":
        raise LookupError("far away")
    return f"{item}, fetched"


@tool
def where() -> bool:
    """Whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()


@tool
def breaks() -> None:
    """Breaks."""
    raise ValueError("broken, sorry")


def plain(x: int) -> int:
    return x + 1
'''


async def test_python_functions_are_tools_with_a_lasting_state(tmp_path: Path) -> None:
    write_files(tmp_path, shelf=SHELF)
    async with SourceBridge(tmp_path, provider=PYTHON, config={"tool_packages": ["shelf"]}).client() as client:
        assert (await list_schemas(client))["shelf-take"] == {
            "type": "object",
            "properties": {"item": {"type": "string", "description": "what to take"}, "count": {"type": "integer"}},
            "required": ["item"],
        }
        for count in (1, 2, 3):
            await list_schemas(client)
            assert await call_text(client, "shelf-take", item="pear") == str(count)


async def test_an_async_function_returns_its_value(tmp_path: Path) -> None:
    write_files(tmp_path, shelf=SHELF)
    async with SourceBridge(tmp_path, provider=PYTHON, config={"tool_packages": ["shelf"]}).client() as client:
        assert await call_text(client, "shelf-fetch", item="pear") == "pear, fetched"
        assert "reference" in await call_text(client, "shelf-fetch", item="moon")
        assert await call_text(client, "shelf-breaks") == "error: broken, sorry"


async def test_a_synchronous_function_does_not_block_other_calls(tmp_path: Path) -> None:
    write_files(tmp_path, shelf=SHELF)
    async with SourceBridge(tmp_path, provider=PYTHON, config={"tool_packages": ["shelf"]}).client() as client:
        assert await call_text(client, "shelf-where") == "false"


async def test_modules_are_reloaded_only_after_an_edit(tmp_path: Path) -> None:
    write_files(tmp_path, shelf=SHELF + "\nloads = globals().get('loads', 0) + 1\n")
    source_bridge = SourceBridge(tmp_path, provider=PYTHON, config={"tool_packages": ["shelf"]})
    async with source_bridge.offers() as publishes:
        first = await publishes.receive()
        python_tools = source_bridge.source._providers[0]._provider
        before = python_tools._tools
        for _ in range(3):
            await source_bridge.source._providers[0].refresh()
        assert python_tools._tools is before
        write_files(tmp_path, shelf=SHELF + "\n\n@tool\ndef added() -> str:\n    '''New.'''\n    return 'new'\n")
        source_bridge.source._schedule_refresh()
        second = await publishes.receive()
    assert "shelf-added" not in [entry.name for entry in first.tools]
    assert "shelf-added" in [entry.name for entry in second.tools]


async def test_a_package_that_cannot_be_imported_is_a_source_without_tools(tmp_path: Path) -> None:
    source_bridge = SourceBridge(tmp_path, provider=PYTHON, config={"tool_packages": ["no_such_package"]})
    with pytest.raises(SourceError, match=r"provider '.*PythonToolProvider' lists no tools"):
        await source_bridge.source.run(lambda _: None)


async def test_two_lambdas_are_one_tool_and_a_problem(tmp_path: Path) -> None:
    make = """
    from xaibo.primitives.modules.tools import PythonToolProvider

    def make():
        return PythonToolProvider({"tool_functions": [lambda: "one", lambda: "two"]})
    """
    write_files(tmp_path, lambdas=make)
    source_bridge = SourceBridge(tmp_path, provider="lambdas:make")
    async with source_bridge.client() as client:
        (name,) = await list_schemas(client)
        assert await call_text(client, name) == "one"
    assert source_bridge.problems == [
        "provider 'lambdas:make' lists two tools named 'lambdas-<lambda>'; the first is published"
    ]


class Real(ToolProviderProtocol):
    """A provider of xaibo's own objects."""

    def __init__(self, name: str, answer: Any) -> None:
        self.name = name
        self.answer = answer

    async def list_tools(self) -> list[Tool]:
        if isinstance(self.answer, Exception):
            raise self.answer
        parameter = ToolParameter(type="str", required=True, enum=["a", "b"])
        return [Tool(name=self.name, description="Real.", parameters={"x": parameter})]

    async def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> ToolResult:
        await anyio.lowlevel.checkpoint()
        if parameters["x"] == "b":
            return ToolResult(success=False, error="not b")
        return ToolResult(success=True, result={self.answer: parameters["x"]})


async def test_providers_of_xaibo_are_served(tmp_path: Path) -> None:
    async with SourceBridge(tmp_path, provider=Real("real", "got")).client() as client:
        properties = {"x": {"type": "string", "enum": ["a", "b"]}}
        assert await list_schemas(client) == {"real": {"type": "object", "properties": properties, "required": ["x"]}}
        assert (await client.call_tool("real", {"x": "a"})).structured_content == {"got": "a"}
        assert await call_text(client, "real", x="b") == "error: not b"


async def test_a_collector_is_replaced_by_its_providers_and_the_last_tool_of_a_name_wins(tmp_path: Path) -> None:
    from xaibo.primitives.modules.tools import ToolCollector

    class Sync(Real):
        def list_tools(self) -> Any:
            assert threading.current_thread() is not threading.main_thread()
            return [Tool(name="sync", description="")]

        def execute_tool(self, tool_name: str, parameters: dict[str, Any]) -> Any:
            return ToolResult(success=True, result="sync")

    inner = ToolCollector([Real("same", "first"), Real("own", "o")])
    providers = [inner, Real("same", "second"), Real("broken", OSError("offline")), Sync("sync", None)]
    source_bridge = SourceBridge(tmp_path, provider=ToolCollector(providers))
    async with source_bridge.client() as client:
        assert sorted(await list_schemas(client)) == ["own", "same", "sync"]
        assert (await client.call_tool("same", {"x": "a"})).structured_content == {"second": "a"}
        assert await call_text(client, "sync") == "sync"
    assert source_bridge.problems == [
        "'ToolCollector[1]' and 'ToolCollector[0][0]' both have a tool named 'same'. "
        "That of 'ToolCollector[1]' is published. Rename or remove one",
        "provider 'ToolCollector[2]' cannot list its tools: OSError: offline",
    ]


@pytest.mark.parametrize(
    ("name", "needs"), [("oneshot:OneShotTools", "'llm'"), ("tool_collector:ToolCollector", "'tool_providers'")]
)
async def test_a_provider_that_needs_other_modules_is_rejected_with_their_names(
    name: str, needs: str, tmp_path: Path
) -> None:
    source_bridge = SourceBridge(tmp_path, provider=f"xaibo.primitives.modules.tools.{name}")
    with pytest.raises(SourceError, match=rf"needs {needs} besides config\. Name the YAML of an agent"):
        await source_bridge.source.run(lambda _: None)
