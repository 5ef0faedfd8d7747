"""Modules with the interfaces of the public ones, in agents, on both hosts and next to the included modules."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge import open_bridge
from mcp_bridge._integrations.amplifier.contexts.simple import SimpleContext
from mcp_bridge.amplifier import ToolResult
from mcp_bridge.testing import connect
from tests.integrations.amplifier.agent.test_agent_tool import name_module
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.amplifier.public_shapes import write_shape
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import ScriptedUser, get_code, get_texts

PACKAGES = {"native": "mcp_bridge.amplifier", "core": "amplifier_core"}
TOOLS = """
class Read:
    name, description, input_schema = "read", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}}

    async def execute(self, input):
        path = input.get("path")
        if path == "lost":
            raise FileNotFoundError("no such file")
        if path == "failed":
            return ToolResult(success=False, error={"message": "cannot read"})
        if path == "bash":
            return ToolResult(success=False, output={"stdout": "out", "returncode": 3})
        return ToolResult(output={"path": path})

async def mount(coordinator, config):
    await coordinator.mount("tools", Read())
    for event, decision in config.items():
        async def decide(event, data, decision=decision):
            if data.get("tool_name") == "run_agent":
                return HookResult()
            made = {**decision}
            if made.get("action") == "modify":
                made["data"] = {**data, **made["data"]}
            return HookResult(**made)
        coordinator.hooks.register(event, decide)
"""

HALF = """
from amplifier_core.message_models import ChatResponse, TextBlock

__amplifier_module_type__ = "provider"

class Half:
    name = "half"

    async def complete(self, request, **kwargs):
        return ChatResponse(content=[TextBlock(text="Half done.")])

    def parse_tool_calls(self, response):
        return []

async def mount(coordinator, config=None):
    await coordinator.mount("providers", Half(), name="half")
"""
"""A provider without `get_info` and `list_models`, as provider-mock is."""


def serve(
    folder: Path,
    host: str,
    *,
    loop: str = "basic",
    context: str = "context",
    provider: str = "echo",
    responses: Any = (),
    decide: Any = None,
    **plan: Any,
) -> ServedPlan:
    """A plan with an agent of such modules, or of the included ones; `decide` has the decisions of hooks by event."""
    shapes = [shape for shape in (loop, context, provider) if shape in ("basic", "streaming", "context", "echo")]
    modules = {name_module(folder, shape): write_shape(shape, PACKAGES[host]) for shape in shapes}
    modules[name_module(folder, "tools")] = TOOLS

    def name(shape: str) -> str:
        return name_module(folder, shape) if shape in shapes else shape

    config = {"responses": list(responses)} if responses else {}
    return ServedPlan(
        folder,
        modules,
        session={"orchestrator": {"module": name(loop), **plan}, "context": {"module": name(context)}},
        providers=[{"module": name(provider), "config": config}],
        tools=[{"module": name_module(folder, "tools"), "config": decide or {}}],
    )


async def run(server: ServedPlan, *tasks: str, **options: Any) -> Any:
    """Run tasks in one conversation; return the last result and the history."""
    handle: dict[str, Any] = {}
    async with server.connect(**options) as client:
        for task in tasks:
            result = await client.call_tool("run_agent", {"task": task, **handle})
            handle = {"session": (result.structured_content or {}).get("session")} if not result.is_error else {}
        return result, await read_history(server)


async def read_history(server: ServedPlan) -> list[dict[str, Any]]:
    """Return the messages of the only conversation, or none if there is no conversation."""
    sessions = [entry.session for key, entry in server.source.sessions._sessions.items() if key.startswith("agent/")]
    return [message for session in sessions for message in await session.coordinator.get("context").get_messages()]


def list_tool_results(history: list[dict[str, Any]]) -> list[Any]:
    """Return the results of tools as the model reads them."""
    return [message["content"] for message in history if message["role"] == "tool"]


LOOPS = pytest.mark.parametrize("loop", ["basic", "streaming"])
BY_TWO = itertools.product(
    ["basic", "streaming", "loop-basic", "loop-streaming"], ["context", "context-simple"], ["echo", "provider-scripted"]
)


@BOTH_HOSTS
@pytest.mark.parametrize(("loop", "context", "provider"), list(BY_TWO))
async def test_public_and_included_modules_work_in_any_combination(
    loop: str, context: str, provider: str, host: str, tmp_path: Path
) -> None:
    script = [{"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}, "It is read.", "It goes on."]
    responses = script if provider == "provider-scripted" else ()
    server = serve(tmp_path, host, loop=loop, context=context, provider=provider, responses=responses)
    result, history = await run(server, "Use read a.txt", "Go on.")
    assert [message["role"] for message in history] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [json.loads(reading) for reading in list_tool_results(history)] == [{"path": "a.txt"}]
    assert get_texts(result)[0] == ("It goes on." if responses else get_texts(result)[0])
    assert "Go on." in get_texts(result)[0] or responses
    assert result.structured_content["usage"]["total_tokens"] > 0


@LOOPS
@BOTH_HOSTS
async def test_every_request_is_counted_once(loop: str, host: str, tmp_path: Path) -> None:
    result, _ = await run(serve(tmp_path, host, loop=loop), "Use read a.txt", "Use read b.txt")
    assert result.structured_content["usage"] == {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}


@LOOPS
@BOTH_HOSTS
@pytest.mark.parametrize(
    ("path", "reading"),
    [
        ("a.txt", '{"path": "a.txt"}'),
        ("bash", '{"stdout": "out", "returncode": 3}'),
        ("failed", "cannot read"),
        ("lost", "Tool 'read' failed with an internal error"),
    ],
)
async def test_the_model_reads_the_text_of_a_result(
    path: str, reading: str, loop: str, host: str, tmp_path: Path
) -> None:
    _, history = await run(serve(tmp_path, host, loop=loop), f"Use read {path}")
    assert reading in list_tool_results(history)[0]
    assert "success=" not in list_tool_results(history)[0]


@LOOPS
@BOTH_HOSTS
async def test_a_call_without_arguments_of_an_included_provider_runs(loop: str, host: str, tmp_path: Path) -> None:
    script = [{"calls": [{"name": "read"}]}, "Done."]
    result, history = await run(serve(tmp_path, host, loop=loop, provider="provider-scripted", responses=script), "Go.")
    assert (get_texts(result)[0], list_tool_results(history)) == ("Done.", ['{"path": null}'])


@LOOPS
@BOTH_HOSTS
async def test_hooks_modify_arguments_and_results(loop: str, host: str, tmp_path: Path) -> None:
    decide = {"tool:pre": {"action": "modify", "data": {"tool_input": {"path": "b.txt"}}}}
    _, history = await run(serve(tmp_path, host, loop=loop, decide=decide), "Use read a.txt")
    assert [json.loads(reading) for reading in list_tool_results(history)] == [{"path": "b.txt"}]
    (tmp_path / "second").mkdir()
    decide = {"tool:post": {"action": "modify", "data": {"result": {"path": "[REDACTED]"}}}}
    _, history = await run(serve(tmp_path / "second", host, loop=loop, decide=decide), "Use read a.txt")
    assert [json.loads(reading) for reading in list_tool_results(history)] == [{"path": "[REDACTED]"}]


@LOOPS
@BOTH_HOSTS
async def test_hooks_deny_a_call(loop: str, host: str, tmp_path: Path) -> None:
    decide = {"tool:pre": {"action": "deny", "reason": "not this file"}}
    result, history = await run(serve(tmp_path, host, loop=loop, decide=decide), "Use read a.txt")
    assert list_tool_results(history) == ["Tool 'read' was denied: not this file"]
    assert "not this file" in get_texts(result)[0]


@LOOPS
@BOTH_HOSTS
@pytest.mark.parametrize("event", ["prompt:submit", "provider:request"])
async def test_an_execution_that_a_hook_denies_is_a_failed_call(
    event: str, loop: str, host: str, tmp_path: Path
) -> None:
    decide = {event: {"action": "deny", "reason": "not today"}}
    result, _ = await run(serve(tmp_path, host, loop=loop, decide=decide), "Go.")
    assert (get_code(result), "not today" in get_texts(result)[0]) == ("agent_stopped", True)


@LOOPS
@BOTH_HOSTS
@pytest.mark.parametrize("event", ["prompt:submit", "provider:request", "tool:post"])
async def test_the_model_reads_what_hooks_inject(event: str, loop: str, host: str, tmp_path: Path) -> None:
    decide = {event: {"action": "inject_context", "context_injection": "it rains"}}
    result, _ = await run(serve(tmp_path, host, loop=loop, decide=decide), "Use read a.txt")
    # The history keeps the text of each request.
    times = 2 if event == "provider:request" else 1
    assert get_texts(result)[0].count("it rains") == times


@EVERY_ERA
@LOOPS
async def test_progress_names_the_tool(loop: str, mode: str, tmp_path: Path) -> None:
    messages: list[str | None] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    script = [{"text": "I look.", "calls": [{"name": "read"}]}, "Done."]
    server = serve(tmp_path, "native", loop=loop, provider="provider-scripted", responses=script)
    async with server.connect(mode=mode) as client:
        await client.call_tool("run_agent", {"task": "Go."}, progress_callback=report)
    tool = "The agent runs the tool 'read'."
    assert messages == (["I look.", tool, "Done."] if loop == "streaming" else [tool])


@EVERY_ERA
@LOOPS
@pytest.mark.parametrize("choice", ["Allow", "Deny"])
async def test_the_user_approves_calls(choice: str, loop: str, mode: str, tmp_path: Path) -> None:
    user = ScriptedUser(choice)
    server = serve(tmp_path, "native", loop=loop, decide={"tool:pre": {"action": "ask_user"}})
    result, history = await run(server, "Use read a.txt", mode=mode, elicitation_callback=user)
    assert not result.is_error
    assert len(user.prompts) == 1
    assert ("a.txt" in list_tool_results(history)[0]) == (choice == "Allow")


@BOTH_HOSTS
async def test_a_tool_delegates_as_tool_task_does(host: str, tmp_path: Path) -> None:
    task = name_module(tmp_path, "task")
    script = [{"calls": [{"name": "task", "arguments": {"agent": "helper", "instruction": "Help."}}]}, "Done."]
    helper = {"description": "Helps.", "providers": [{"module": "provider-scripted", "config": {"responses": ["Me."]}}]}
    server = ServedPlan(
        tmp_path,
        {task: write_shape("task", PACKAGES[host])},
        session={"orchestrator": "loop-basic", "context": "context-simple"},
        providers=[{"module": "provider-scripted", "config": {"responses": script}}],
        tools=[{"module": task}],
        agents={"helper": helper},
    )
    async with server.connect() as client:
        description = {tool.name: tool.description for tool in (await client.list_tools()).tools}["task"]
        assert description == "Delegate to: helper (Helps.)"
        has_spawn = server.coordinator.get_capability("session.spawn") is not None
        result = await client.call_tool("run_agent", {"task": "Go."})
        readings = list_tool_results(await read_history(server))
    if not has_spawn:
        pytest.skip("session.spawn is not provided yet")
    assert get_texts(result)[0] == "Done."
    assert json.loads(readings[0])["response"] == "Me."


def test_the_model_reads_the_text_of_a_result_of_a_tool() -> None:
    assert str(ToolResult(output={"path": "a.txt"})) == '{"path": "a.txt"}'
    assert str(ToolResult(success=False, output={"stdout": "out"})) == '{"stdout": "out"}'
    assert str(ToolResult(success=False, error={"message": "cannot read"})) == "cannot read"


async def test_a_provider_that_does_not_describe_its_model_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    context = SimpleContext()
    for _ in range(3):
        await context.get_messages_for_request(provider=object())
    assert [record.levelname for record in caplog.records if "does not describe" in record.message] == ["WARNING"]


async def test_a_module_that_fails_validation_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = name_module(tmp_path, "half")
    package = tmp_path / name / f"amplifier_module_{name}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(HALF)
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": name, "source": f"./{name}"}],
    }
    settings = {"sources": [{"type": "amplifier", "host": "core", "plan": plan}]}
    (tmp_path / "bridge.json").write_text(json.dumps(settings))
    async with open_bridge(tmp_path / "bridge.json") as bridge, connect(bridge) as client:
        # Each call is a conversation with its own instances of the modules.
        for _ in range(3):
            assert get_texts(await client.call_tool("run_agent", {"task": "Go."}))[0] == "Half done."
    levels = [record.levelname for record in caplog.records if "fails the validation" in record.message]
    assert levels.count("WARNING") == 1
