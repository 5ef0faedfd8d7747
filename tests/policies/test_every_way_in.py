"""Policies apply to calls wherever they come from and wherever the tool runs: workers, tasks, chains, agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.types import ElicitResult

from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tasks import TASKS
from mcp_bridge._contracts.tool import ToolCall, ToolEntry
from mcp_bridge._engine.explanation import explain_call
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.policies.policies_kit import build_bridge, call, open_tools
from tests.kits.questions.asking_kit import ALL_CAPABILITIES, get_text, serve_client

TOOLS = '''
from pathlib import Path


@tool
def change(text: str = "") -> str:
    """Change something."""
    return f"changed {text}"


@tool(annotations={"readOnlyHint": True})
async def look(ctx: CallContext) -> str:
    """Call another tool."""
    result = await ctx.invoke("change", {"text": "ada@example.org"})
    return result.code or result.output


runs = []


@tool(annotations={"readOnlyHint": True})
async def report(ctx: CallContext) -> int:
    """Report progress."""
    runs.append("")
    await ctx.report_progress(1, message="mail to ada@example.org")
    return len(runs)
'''
ABLE: Any = {**ALL_CAPABILITIES, "extensions": {TASKS: {}}}


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_calls_of_isolated_tools_are_under_the_policies(tmp_path: Path, isolation: str) -> None:
    policy = ["read_only", {"redact": {"patterns": "email"}}]
    async with open_tools(tmp_path, TOOLS, *policy, source={"isolation": isolation}) as bridge:
        assert (await call(bridge, "change")).code == "denied"
        assert (await call(bridge, "look")).output == "denied"
    async with open_tools(tmp_path, TOOLS, policy[1], source={"isolation": isolation}) as bridge:
        assert (await call(bridge, "look")).output == "changed [redacted email]"


async def test_tasks_are_under_the_policies(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import CallContext, tool\n{TOOLS}")
    source = {"type": "python", "path": "tools.py"}
    policy = [{"deny": {"tools": "look"}}, {"redact": {"patterns": "email"}}, {"approval": {}}]
    approvals = {"remember": False, "terminal": False}
    bridge = build_bridge(tmp_path, source, *policy, tasks={"after": 0}, approvals=approvals)
    async with serve_client(bridge, capabilities=ABLE) as client:
        assert get_text(await finish(client, "look")).startswith("Tool 'look' was denied")
        task = await start(client, "change", text="ada@example.org")
        questions = (await wait_for(client, task, "input_required"))["inputRequests"]
        answers = {key: {"action": "accept", "content": {"value": "Allow once"}} for key in questions}
        await client.request("tasks/update", {"taskId": task, "inputResponses": answers})
        assert get_text((await wait_for(client, task, "completed"))["result"]) == "changed [redacted email]"


async def test_progress_of_tasks_is_redacted_and_their_results_are_not_cached(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import CallContext, tool\n{TOOLS}")
    source = {"type": "python", "path": "tools.py"}
    bridge = build_bridge(tmp_path, source, {"redact": {"patterns": "email"}}, "cache", tasks={"after": 0})
    async with serve_client(bridge, capabilities=ABLE) as client:
        tasks_at_end = [await wait_for(client, await start(client, "report"), "completed") for _ in range(2)]
    assert [get_text(task["result"]) for task in tasks_at_end] == ["1", "2"]
    assert [task["statusMessage"] for task in tasks_at_end] == ["mail to [redacted email]"] * 2


async def start(client: Any, name: str, **arguments: Any) -> str:
    return str((await client.request("tools/call", {"name": name, "arguments": arguments}))["result"]["taskId"])


async def finish(client: Any, name: str) -> Any:
    return (await wait_for(client, await start(client, name), "completed"))["result"]


async def wait_for(client: Any, task: str, status: str) -> Any:
    with anyio.fail_after(TIMEOUT):
        while True:
            result = (await client.request("tasks/get", {"taskId": task}))["result"]
            if result["status"] == status:
                return result


async def test_a_tool_of_an_agent_is_under_the_policies(tmp_path: Path) -> None:
    async with open_tools(tmp_path, TOOLS, {"deny": {"tools": "private_*"}}) as bridge:
        ctx = RunningCall(caller=bridge.registry)
        entry = ToolEntry("private_tool", "Not published.", lambda data: "ran")
        assert (await ctx.invoke_entry(entry)).code == "denied"


async def test_a_tool_of_an_agent_is_no_tool_of_the_server_itself(tmp_path: Path) -> None:
    async with open_tools(tmp_path, TOOLS, {"allow": {"tools": "look"}}) as bridge:
        ctx = RunningCall(caller=bridge.registry)
        entry = ToolEntry("read_resource", "Not published.", lambda data: "ran")
        assert (await ctx.invoke_entry(entry)).code == "denied"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_user_is_asked_about_calls_that_a_tool_makes(tmp_path: Path, mode: str) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import CallContext, tool\n{TOOLS}")
    questions: list[str] = []

    async def choose(context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"value": "Deny"})

    policy = {"approval": {"annotations": {"readOnlyHint": False}, "question": "May {tool} run?"}}
    bridge = build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, policy, approvals={"remember": False})
    async with connect(bridge, mode=mode, elicitation_callback=choose) as client:
        assert (await client.call_tool("look", {})).content[0].text == "approval_declined"
    assert questions == ['May change run?\n- text (length 15): "ada@example.org"']


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_unusable_answers_are_not_reported_as_a_decision_of_the_user(tmp_path: Path, mode: str) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import CallContext, tool\n{TOOLS}")
    questions: list[str] = []

    async def choose(context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"value": "Perhaps"})

    source = {"type": "python", "path": "tools.py"}
    bridge = build_bridge(tmp_path, source, "approval", approvals={"remember": False, "terminal": False})
    async with connect(bridge, mode=mode, elicitation_callback=choose) as client:
        result = await client.call_tool("change", {})
    assert (result.is_error, len(questions)) == (True, 3)
    text = result.content[0].text
    assert "The client's answers to the question were not valid: " in text
    assert "declined" not in text


@pytest.mark.parametrize(("default", "ok"), [("allow", True), ("deny", False)])
async def test_the_default_applies_if_no_user_can_be_asked(tmp_path: Path, default: str, ok: bool) -> None:
    policy = {"approval": {"default": default}}
    async with open_tools(tmp_path, TOOLS, policy, approvals={"remember": False, "terminal": False}) as bridge:
        result = await call(bridge, "change")
    assert result.success == ok
    assert ok or "No user could be asked: the client does not support elicitation" in result.error_text


async def test_the_user_is_asked_about_calls_of_the_named_principals(tmp_path: Path) -> None:
    policy = {"approval": {"principals": "guest"}}
    async with open_tools(tmp_path, TOOLS, policy, approvals={"remember": False, "terminal": False}) as bridge:
        assert (await call(bridge, "change", "admin")).success
        assert (await call(bridge, "change", "guest")).code == "approval_declined"


async def test_a_remembered_decision_applies_without_a_question(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import CallContext, tool\n{TOOLS}")
    answers = iter(["Allow always (same arguments)"])

    async def choose(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"value": next(answers)})

    source = {"type": "python", "path": "tools.py"}
    bridge = build_bridge(
        tmp_path, source, "approval", state={"store": "sqlite:decisions.sqlite3"}, approvals={"terminal": False}
    )
    async with connect(bridge, elicitation_callback=choose) as client:
        assert [(await client.call_tool("change", {})).is_error for _ in range(2)] == [False, False]
        prepared = bridge.registry.get_prepared("change")
        assert prepared is not None
        tool_call = ToolCall(id="1", name="change", arguments={})
        explanation = await explain_call(bridge.registry.pipeline, prepared, tool_call, RunningCall())
    assert ("approval", "passes", "the user has allowed this call earlier") in explanation.layers
