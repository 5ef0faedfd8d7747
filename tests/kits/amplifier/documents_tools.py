"""How the examples of the Tool and Provider contracts are used."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import mcp_bridge.amplifier as ours
from mcp_bridge.amplifier.testing import MockTool, TestCoordinator
from tests.kits.amplifier.documents_pieces import SUMMARY, TOOL, MyProvider, contributed, my_tool, provider_mount
from tests.kits.amplifier.documents_reading import Example
from tests.kits.amplifier.documents_running import run, run_tests


async def my_module(example: Example) -> None:
    """The quick start: a completed class, and its `mount`."""
    names = await run(example)
    names["MyModule"].__init__ = lambda self, config: setattr(self, "config", config)
    coordinator = TestCoordinator()
    instance = await names["mount"](coordinator, {"a": 1})
    assert coordinator.get("tools", "my-module") is instance
    assert instance.config == {"a": 1}


async def tool_protocol(example: Example) -> None:
    """Tools have the documented shape, in the document and in this package."""
    theirs = (await run(example))["Tool"]
    for tool in (MockTool(), (await my_tool())({})):
        assert isinstance(tool, theirs)
        assert isinstance(tool, ours.Tool)
    assert not isinstance(object(), theirs | ours.Tool)


async def tool_call(example: Example) -> None:
    """A call of the document has the shape of this package; the summary also has its result."""
    names = await run(example)
    call = {"id": "1", "name": "read", "arguments": {"path": "a"}}
    assert names["ToolCall"](**call).model_dump() == ours.ToolCall(**call).model_dump() == call
    if "ToolResult" in names:
        theirs = names["ToolResult"](tool_call_id="1", output="gone", is_error=True)
        result = ours.ToolResult.model_validate(theirs.model_dump())
        assert (result.success, result.output, result.tool_call_id) == (False, "gone", "1")


async def tool_result(example: Example) -> None:
    """Check that the document's ToolResult has the fields and defaults of the package's ToolResult."""
    theirs = (await run(example))["ToolResult"]
    assert theirs().model_dump() == {key: getattr(ours.ToolResult(), key) for key in theirs.model_fields}
    result = ours.ToolResult.model_validate(theirs(success=False, output="gone").model_dump())
    assert (result.success, result.is_error, result.output) == (False, True, "gone")


async def tool_mount(example: Example) -> None:
    """The tool is mounted after `mount`, and is its result."""
    mount = (await run(example, MyTool=await my_tool()))["mount"]
    coordinator = TestCoordinator()
    tool = await mount(coordinator, {})
    assert coordinator.get_mounted("tools") == {"my-tool": tool}
    assert isinstance(tool, ours.Tool)


async def tool_class(example: Example) -> None:
    """Check MyTool. The contract shows only the class, and the summary a whole module."""
    names = await run(example)
    if example.document != SUMMARY:
        assert (names["MyTool"]().name, bool(names["MyTool"]().description)) == ("my_tool", True)
        return
    coordinator = TestCoordinator()
    assert await names["mount"](coordinator, {"a": 1}) is None
    tool = coordinator.get("tools", "my_tool")
    failure = await tool.execute({"_tool_call_id": "7"})
    assert (failure.is_error, failure.tool_call_id, failure.success) == (True, "7", False)
    names["MyTool"]._do_work = _same
    result = await tool.execute({"a": 1})
    assert (result.success, result.output, result.tool_call_id) == (True, {"a": 1}, "")


async def _same(self: Any, data: dict[str, Any]) -> dict[str, Any]:
    return data


async def tool_execute(example: Example) -> None:
    """It works, rejects incomplete arguments, and never raises."""
    tool = (await my_tool(example.document))({})
    tool.__class__.execute = (await run(example))["execute"]
    assert (await tool.execute({"required_param": "x"})).output == "did x"
    assert (await tool.execute({})).error == {"message": "required_param is required"}
    failure = await tool.execute({"required_param": "broken"})
    assert (failure.success, failure.error) == (False, {"message": "no such thing", "type": "RuntimeError"})
    assert failure.get_serialized_output() == "no such thing"


async def tool_schema(example: Example) -> None:
    """The schema requires the same arguments as `execute`."""
    assert (await run(example))["get_schema"](None)["required"] == ["required_param"]


async def contributor(example: Example) -> None:
    """Check that the coordinator collects the registered contributions."""
    coordinator = TestCoordinator()
    await run(example, coordinator=coordinator)
    assert len(await contributed(coordinator)) >= 2


async def tool_test(example: Example) -> None:
    """The document's test passes."""
    assert await run_tests(await run(example, MyTool=await my_tool(TOOL))) == 1


async def mock_tool(example: Example) -> None:
    """The document's assertions hold."""
    await run(example)


async def provider_protocol(example: Example) -> None:
    """Providers have the documented shape, in the document and in this package."""
    theirs = (await run(example))["Provider"]
    provider = MyProvider("key", {})
    assert isinstance(provider, theirs)
    assert isinstance(provider, ours.Provider)
    assert not isinstance(MockTool(), theirs | ours.Provider)


async def provider_mounts(example: Example) -> None:
    """Without a key nothing is mounted; with one, the cleanup closes its client."""
    mount = (await run(example, MyProvider=MyProvider))["mount"]
    coordinator = TestCoordinator()
    assert await mount(coordinator, {}) is None
    assert coordinator.get("providers") == {}
    with mock.patch.dict(os.environ, {"MY_API_KEY": "from the environment"}):
        coordinator.register_cleanup(await mount(coordinator, {}))
    provider = coordinator.get("providers", "my-provider")
    await coordinator.cleanup()
    assert (provider.api_key, provider.closed) == ("from the environment", True)


async def provider_test(example: Example) -> None:
    """The document's test passes."""
    assert await run_tests(await run(example, mount=await provider_mount())) == 1


USES = {
    "class MyModule:": my_module,
    "class Tool(Protocol):": tool_protocol,
    "class ToolCall(BaseModel):": tool_call,
    "class ToolResult(BaseModel):": tool_result,
    "async def mount(coordinator: ModuleCoordinator, config: dict) -> Tool | Callable | None:": tool_mount,
    "class MyTool:": tool_class,
    "async def execute(self, input: dict[str, Any]) -> ToolResult:": tool_execute,
    "def get_schema(self) -> dict:": tool_schema,
    "coordinator.register_contributor(": contributor,
    "async def test_tool_execution():": tool_test,
    "mock_tool = MockTool(": mock_tool,
    "class Provider(Protocol):": provider_protocol,
    "async def mount(coordinator: ModuleCoordinator, config: dict) -> Provider | Callable | None:": provider_mounts,
    "async def test_provider_mount():": provider_test,
}
