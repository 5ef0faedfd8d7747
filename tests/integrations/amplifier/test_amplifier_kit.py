"""The stand-ins for tests of modules: on both loops, under pytest with the anyio plugin alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

import mcp_bridge.amplifier as ours
from mcp_bridge.amplifier.testing import (
    EventRecorder,
    MockContextManager,
    MockCoordinator,
    MockProvider,
    MockTool,
    ScriptedOrchestrator,
    TestCoordinator,
    create_test_coordinator,
    wait_for,
)

SUITE = """
import pytest
from mcp_bridge.amplifier.testing import MockTool, TestCoordinator, create_test_coordinator

pytestmark = pytest.mark.anyio


async def test_a_tool():
    coordinator = TestCoordinator()
    await coordinator.mount("tools", MockTool("read"))
    assert "read" in coordinator.get_mounted("tools")
    assert await create_test_coordinator().get("tools", "echo").execute({})
"""


def test_the_test_doubles_satisfy_the_protocols() -> None:
    assert isinstance(MockTool(), ours.Tool)
    assert isinstance(MockProvider(), ours.Provider)
    assert isinstance(MockContextManager(), ours.ContextManager)
    assert isinstance(EventRecorder(), ours.HookHandler)
    assert isinstance(ScriptedOrchestrator([]), ours.Orchestrator)
    assert isinstance(TestCoordinator().approval_system, ours.ApprovalSystem)
    assert MockCoordinator is TestCoordinator


async def test_a_mock_tool_takes_the_arguments_of_the_documents_and_of_the_package() -> None:
    theirs, packages = MockTool(name="a", description="A", return_value={"n": 1}), MockTool("a", {"n": 1})
    for tool in (theirs, packages):
        assert (tool.call_count, tool.last_input) == (0, None)
        result = await tool.execute(arguments := {"path": ["x"]})
        arguments["path"].append("changed later")
        assert (result.success, result.output) == (True, {"n": 1})
        assert (tool.call_count, tool.last_input, tool.inputs) == (1, {"path": ["x"]}, [{"path": ["x"]}])
        assert tool.execute.call_count == 1
        assert tool.return_value == {"n": 1}
    assert (theirs.description, packages.description) == ("A", "Mock tool: a")
    assert packages.get_schema() == packages.input_schema == {"type": "object", "properties": {}}
    assert (await MockTool().execute({})).output == "Success"


async def test_a_tool_may_fail_or_raise() -> None:
    failure = ours.ToolResult(success=False, error={"message": "no"})
    assert await MockTool("a", failure).execute({}) is failure
    tool = MockTool("a", return_value=ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await tool.execute({"a": 1})
    assert tool.last_input == {"a": 1}


async def test_a_coordinator_records_mounts_messages_and_questions() -> None:
    coordinator, tool = TestCoordinator(), MockTool("a")
    await coordinator.mount("tools", tool)
    await coordinator.unmount("tools", "a")
    assert coordinator.mount_history == [{"mount_point": "tools", "module": tool, "name": None}]
    assert coordinator.unmount_history == [{"mount_point": "tools", "name": "a"}]
    assert (coordinator.session_id, coordinator.config["session"]["context"]) == ("test-session", "test-context")
    asks = ours.HookResult(action="ask_user", user_message="hi")
    assert (await coordinator.process_hook_result(asks, "tool:pre")).action == "continue"
    assert (len(coordinator.approvals.asked), coordinator.display.shown) == (1, [("hi", "info", "unknown")])


async def test_a_ready_coordinator_has_two_tools_and_a_context_that_may_be_replaced() -> None:
    coordinator = create_test_coordinator()
    results = {name: await tool.execute({}) for name, tool in coordinator.get("tools").items()}
    assert {name: result.success for name, result in results.items()} == {"echo": True, "fail": False}
    await coordinator.mount("session", mine := MockContextManager(), name="context")
    assert coordinator.get("context") is mine


async def test_a_provider_returns_its_responses_in_turn() -> None:
    call = ours.ChatResponse(content=[], tool_calls=[ours.ToolCall(id="1", name="read")])
    provider = MockProvider(["one", call])
    request = ours.ChatRequest(messages=[])
    responses = [await provider.complete(request, temperature=0) for _ in range(3)]
    assert responses[0].content[0].text == "one"  # type: ignore[union-attr]
    assert responses[0].usage is not None
    assert responses[1] is responses[2] is call
    assert [provider.parse_tool_calls(response) for response in responses[:2]] == [[], call.tool_calls]
    assert (provider.call_count, len(await provider.list_models()), provider.get_info().id) == (3, 1, "mock")


async def test_a_context_never_shares_its_list() -> None:
    context = MockContextManager(history := [{"role": "user", "content": "hi"}])
    for messages in (await context.get_messages(), await context.get_messages_for_request(), history):
        messages.clear()
    assert len(context.messages) == 1
    await context.set_messages([])
    await context.add_message({"role": "user", "content": "again"})
    await context.clear()
    assert context.messages == []


async def test_a_recorder_is_a_handler_and_replaces_a_registry() -> None:
    recorder, hooks = EventRecorder(), ours.HookRegistry()
    hooks.register("a", recorder)
    await hooks.emit("a", {"n": 1})
    await recorder.emit("b", {})
    await recorder.record("b", {"n": 2})
    assert [event for event, _ in recorder.get_events()] == ["a", "b", "b"]
    assert recorder.get_events("b") == [("b", {}), ("b", {"n": 2})]
    recorder.clear()
    assert recorder.events == []


async def test_a_scripted_orchestrator_returns_its_responses_and_then_done() -> None:
    loop, context, recorder = ScriptedOrchestrator(["one"]), MockContextManager(), EventRecorder()
    output = [await loop.execute("hi", context, {}, {}, recorder, coordinator=None) for _ in range(2)]
    assert (output, loop.call_count, len(context.messages)) == (["one", "DONE"], 2, 4)
    assert [event for event, _ in recorder.events] == ["session:start", "session:end"] * 2


async def test_waiting_for_a_condition_ends_when_it_is_true_or_after_the_timeout() -> None:
    records: list[int] = []

    async def later() -> None:
        await anyio.sleep(0.02)
        records.append(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(later)
        assert await wait_for(lambda: bool(records), timeout=30)
    assert not await wait_for(lambda: False, timeout=0.02)
    assert await wait_for(lambda: True, timeout=0)


def test_pytest_runs_a_suite_that_uses_them_on_both_loops(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "anyio", str(tmp_path)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr
