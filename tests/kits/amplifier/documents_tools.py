"""Checks of the examples of the Tool and Provider contracts; documents_contexts.py explains how they work."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import mcp_bridge.amplifier as ours
from mcp_bridge.amplifier.testing import MockTool, TestCoordinator
from tests.kits.amplifier.documents_pieces import (
    SUMMARY,
    TOOL,
    MyProvider,
    build_tool_class,
    get_provider_mount,
    list_declared_events,
)
from tests.kits.amplifier.documents_reading import Example
from tests.kits.amplifier.documents_running import run_example, run_example_tests


async def check_quick_start(example: Example) -> None:
    """Check that `mount` of the quick start mounts the module with its configuration."""
    names = await run_example(example)
    names["MyModule"].__init__ = lambda self, config: setattr(self, "config", config)
    coordinator = TestCoordinator()
    instance = await names["mount"](coordinator, {"a": 1})
    assert coordinator.get("tools", "my-module") is instance
    assert instance.config == {"a": 1}


async def check_tool_protocol(example: Example) -> None:
    """Check that the protocols of the document and of this package accept the same tools."""
    documented_protocol = (await run_example(example))["Tool"]
    for tool in (MockTool(), (await build_tool_class())({})):
        assert isinstance(tool, documented_protocol)
        assert isinstance(tool, ours.Tool)
    assert not isinstance(object(), documented_protocol | ours.Tool)


async def check_tool_call(example: Example) -> None:
    """Check that the document's ToolCall has the fields of the package's. In the summary, check ToolResult too."""
    names = await run_example(example)
    call = {"id": "1", "name": "read", "arguments": {"path": "a"}}
    assert names["ToolCall"](**call).model_dump() == ours.ToolCall(**call).model_dump() == call
    if "ToolResult" in names:
        theirs = names["ToolResult"](tool_call_id="1", output="gone", is_error=True)
        result = ours.ToolResult.model_validate(theirs.model_dump())
        assert (result.success, result.output, result.tool_call_id) == (False, "gone", "1")


async def check_tool_result(example: Example) -> None:
    """Check that the document's ToolResult has the fields and defaults of the package's ToolResult."""
    theirs = (await run_example(example))["ToolResult"]
    assert theirs().model_dump() == {key: getattr(ours.ToolResult(), key) for key in theirs.model_fields}
    result = ours.ToolResult.model_validate(theirs(success=False, output="gone").model_dump())
    assert (result.success, result.is_error, result.output) == (False, True, "gone")


async def check_tool_mount(example: Example) -> None:
    """Check that `mount` mounts the tool and returns it."""
    mount = (await run_example(example, MyTool=await build_tool_class()))["mount"]
    coordinator = TestCoordinator()
    tool = await mount(coordinator, {})
    assert coordinator.get_mounted("tools") == {"my-tool": tool}
    assert isinstance(tool, ours.Tool)


async def check_tool_class(example: Example) -> None:
    """Check MyTool. The contract shows only the class, and the summary a whole module."""
    names = await run_example(example)
    if example.document != SUMMARY:
        assert (names["MyTool"]().name, bool(names["MyTool"]().description)) == ("my_tool", True)
        return
    coordinator = TestCoordinator()
    assert await names["mount"](coordinator, {"a": 1}) is None
    tool = coordinator.get("tools", "my_tool")
    failure = await tool.execute({"_tool_call_id": "7"})
    assert (failure.is_error, failure.tool_call_id, failure.success) == (True, "7", False)
    names["MyTool"]._do_work = _return_input
    result = await tool.execute({"a": 1})
    assert (result.success, result.output, result.tool_call_id) == (True, {"a": 1}, "")


async def _return_input(self: Any, data: dict[str, Any]) -> dict[str, Any]:
    return data


async def check_tool_execute(example: Example) -> None:
    """Check that the document's `execute` works, rejects incomplete arguments, and never raises."""
    tool = (await build_tool_class(example.document))({})
    tool.__class__.execute = (await run_example(example))["execute"]
    assert (await tool.execute({"required_param": "x"})).output == "did x"
    assert (await tool.execute({})).error == {"message": "required_param is required"}
    failure = await tool.execute({"required_param": "broken"})
    assert (failure.success, failure.error) == (False, {"message": "no such thing", "type": "RuntimeError"})
    assert failure.get_serialized_output() == "no such thing"


async def check_tool_schema(example: Example) -> None:
    """Check that the schema requires the same arguments as `execute`."""
    assert (await run_example(example))["get_schema"](None)["required"] == ["required_param"]


async def check_contributor(example: Example) -> None:
    """Check that the coordinator collects the registered contributions."""
    coordinator = TestCoordinator()
    await run_example(example, coordinator=coordinator)
    assert len(await list_declared_events(coordinator)) >= 2


async def check_tool_test(example: Example) -> None:
    """Run the document's test."""
    assert await run_example_tests(await run_example(example, MyTool=await build_tool_class(TOOL))) == 1


async def run_assertions(example: Example) -> None:
    """Run an example that contains its own assertions."""
    await run_example(example)


async def check_provider_protocol(example: Example) -> None:
    """Check that the protocols of the document and of this package accept the same providers."""
    documented_protocol = (await run_example(example))["Provider"]
    provider = MyProvider("key", {})
    assert isinstance(provider, documented_protocol)
    assert isinstance(provider, ours.Provider)
    assert not isinstance(MockTool(), documented_protocol | ours.Provider)


async def check_mount(example: Example) -> None:
    """Check that nothing is mounted without an API key, and that the cleanup of a provider closes its client."""
    mount = (await run_example(example, MyProvider=MyProvider))["mount"]
    coordinator = TestCoordinator()
    assert await mount(coordinator, {}) is None
    assert coordinator.get("providers") == {}
    with mock.patch.dict(os.environ, {"MY_API_KEY": "from the environment"}):
        coordinator.register_cleanup(await mount(coordinator, {}))
    provider = coordinator.get("providers", "my-provider")
    await coordinator.cleanup()
    assert (provider.api_key, provider.closed) == ("from the environment", True)


async def check_provider_test(example: Example) -> None:
    """Run the document's test."""
    assert await run_example_tests(await run_example(example, mount=await get_provider_mount())) == 1


TOOL_CHECKS = {
    "class MyModule:": check_quick_start,
    "class Tool(Protocol):": check_tool_protocol,
    "class ToolCall(BaseModel):": check_tool_call,
    "class ToolResult(BaseModel):": check_tool_result,
    "async def mount(coordinator: ModuleCoordinator, config: dict) -> Tool | Callable | None:": check_tool_mount,
    "class MyTool:": check_tool_class,
    "async def execute(self, input: dict[str, Any]) -> ToolResult:": check_tool_execute,
    "def get_schema(self) -> dict:": check_tool_schema,
    "coordinator.register_contributor(": check_contributor,
    "async def test_tool_execution():": check_tool_test,
    "mock_tool = MockTool(": run_assertions,
    "class Provider(Protocol):": check_provider_protocol,
    "async def mount(coordinator: ModuleCoordinator, config: dict) -> Provider | Callable | None:": check_mount,
    "async def test_provider_mount():": check_provider_test,
}
