"""The agent of a plan as one tool, for official clients in both eras."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from mcp_bridge import ToolCall, open_bridge
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.amplifier.sessions.module_sessions import SessionLimits
from mcp_bridge.testing import connect
from tests.kits.amplifier.amplifier_modules import write_files
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, HEADS, ServedPlan
from tests.kits.amplifier.slow_tool import SLOW, cancel_slow_run
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import ScriptedUser, get_code, get_texts

FILES = """
EVENTS = []

class Read:
    name = "read_file"
    description = "Read a file."
    input_schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

    async def execute(self, input):
        return ToolResult(output=f"the text of {input['path']}")

async def mount(coordinator, config):
    await coordinator.mount("tools", Read())

    async def record(event, data):
        EVENTS.append((event, data.get("tool_name")))
        if event == "tool:pre" and config.get("action"):
            return HookResult(action=config["action"], reason="not this file", approval_prompt="May it read?")
        return HookResult()

    for event in ("tool:pre", "tool:post", "tool:error", "prompt:submit", "provider:response"):
        coordinator.hooks.register(event, record)
"""
LOOK = {"text": "I look.", "calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]}


def serve(
    folder: Path, *responses: Any, files: dict[str, Any] | None = None, limits: SessionLimits | None = None, **plan: Any
) -> ServedPlan:
    """Serve a plan with an agent and these responses of its model."""
    name = name_module(folder, "files")
    whole: dict[str, Any] = {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [{"module": "provider-scripted", "config": {"responses": list(responses)}}],
        "tools": [{"module": name, "config": files or {}}],
        **plan,
    }
    return ServedPlan(folder, {name: FILES}, limits=limits, **whole)


def name_module(folder: Path, name: str) -> str:
    """Return a name for a module of this test only."""
    return f"{name}_{re.sub(r'[^a-z0-9]+', '_', str(folder).lower())}"


def get_history(server: ServedPlan) -> list[dict[str, Any]]:
    """Return the messages of the only conversation."""
    [session] = [entry.session for key, entry in server.source.sessions._sessions.items() if key.startswith("agent/")]
    messages: list[dict[str, Any]] = session.coordinator.get("context")._messages
    return messages


@EVERY_ERA
@BOTH_HOSTS
async def test_an_agent_uses_its_tools_and_returns_its_response(mode: str, host: str, tmp_path: Path) -> None:
    server = serve(tmp_path, LOOK, "It says hello.")
    async with server.connect(mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("run_agent", {"task": "What is in a.txt?"})
        messages = get_history(server)
    assert tools["run_agent"].description.endswith("Its tools: read_file.")
    assert get_texts(result)[0] == "It says hello."
    assert result.structured_content["usage"]["total_tokens"] > 0
    assert result.structured_content["session"] in get_texts(result)[1]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2]["content"] == "the text of a.txt"


@EVERY_ERA
async def test_a_conversation_is_continued_by_its_session(mode: str, tmp_path: Path) -> None:
    server = serve(tmp_path, "One.", "Two.", "Three.")
    async with server.connect(mode=mode) as client:
        first = (await client.call_tool("run_agent", {"task": "Count."})).structured_content
        second = (
            await client.call_tool("run_agent", {"task": "Go on.", "session": first["session"]})
        ).structured_content
        second_result = (await client.call_tool("run_agent", {"task": "Count."})).structured_content
    assert (first["text"], second["text"], second_result["text"]) == ("One.", "Two.", "One.")
    assert first["session"] == second["session"] != second_result["session"]


async def test_conversations_are_separate_if_clients_share_a_session(tmp_path: Path) -> None:
    server = serve(tmp_path, "One.", "Two.", limits=SessionLimits(shared=True))
    async with server.connect() as client:
        results = [await client.call_tool("run_agent", {"task": "Count."}) for _ in range(2)]
    assert [result.structured_content["text"] for result in results] == ["One.", "One."]


async def test_a_conversation_belongs_to_its_first_principal(tmp_path: Path) -> None:
    server = serve(tmp_path, "One.", "Two.")

    async def call(principal: str, **arguments: Any) -> Any:
        ctx = RunningCall(principal=principal, session=f"principal/{principal}")
        return await server.bridge.registry.dispatch(ToolCall(id="1", name="run_agent", arguments=arguments), ctx)

    async with server.run_bridge():
        handle = (await call("anna", task="Count.")).output["session"]
        stolen = await call("ben", task="Go on.", session=handle)
        assert (stolen.code, stolen.success) == ("session_not_found", False)
        assert (await call("anna", task="Go on.", session=handle)).output["text"] == "Two."


async def test_a_conversation_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    async with serve(tmp_path, "One.").connect() as client:
        result = await client.call_tool("run_agent", {"task": "Go on.", "session": "guessed"})
    assert get_code(result) == "session_not_found"
    assert "Omit 'session'" in get_texts(result)[0]


async def test_tasks_of_one_conversation_run_one_after_another(tmp_path: Path) -> None:
    server = serve(tmp_path, "One.", LOOK, "Two.", "Three.")
    async with server.connect() as client:
        handle = (await client.call_tool("run_agent", {"task": "Count."})).structured_content["session"]
        async with anyio.create_task_group() as tasks:
            for task in ("a", "b"):
                tasks.start_soon(client.call_tool, "run_agent", {"task": task, "session": handle})
        roles = [message["role"] for message in get_history(server)]
    assert roles == ["user", "assistant", "user", "assistant", "tool", "assistant", "user", "assistant"]


@EVERY_ERA
@pytest.mark.parametrize(("choice", "read"), [("Allow", True), ("Deny", False)])
async def test_the_user_of_the_client_approves_calls_of_the_agent(
    mode: str, choice: str, read: bool, tmp_path: Path
) -> None:
    server, user = serve(tmp_path, LOOK, "Done.", files={"action": "ask_user"}), ScriptedUser(choice)
    async with server.connect(mode=mode, elicitation_callback=user) as client:
        # The hook asks about the agent as well: it governs every call.
        result = await client.call_tool("run_agent", {"task": "Read."})
        messages = get_history(server) if choice == "Allow" else []
    assert user.prompts == ["May it read?"] * (2 if read else 1)
    assert get_code(result) == (None if read else "approval_declined")
    assert [message["content"] for message in messages if message["role"] == "tool"] == ["the text of a.txt"] * read


GATE = """
async def mount(coordinator, config):
    async def decide(event, data):
        if data["tool_name"] == "read_file":
            return HookResult(action="deny", reason="not this file")
        return HookResult()
    coordinator.hooks.register("tool:pre", decide)
"""


async def test_hooks_deny_calls_of_the_agent_and_each_event_comes_once(tmp_path: Path) -> None:
    gate = name_module(tmp_path, "gate")
    server = serve(tmp_path, LOOK, "I could not read it.", hooks=[{"module": gate}])
    (tmp_path / f"{gate}.py").write_text("from mcp_bridge.amplifier import HookResult\n" + GATE)
    async with server.connect() as client:
        result = await client.call_tool("run_agent", {"task": "Read."})
        [session] = [
            entry.session for key, entry in server.source.sessions._sessions.items() if key.startswith("agent/")
        ]
        [reading] = [message["content"] for message in get_history(server) if message["role"] == "tool"]
        module = session.coordinator.hooks.list_registrations()["tool:pre"]
    assert get_texts(result)[0] == "I could not read it."
    assert reading == "Error: Tool 'read_file' was denied: not this file"
    events = next(entry.handler for entry in module if entry.name == "record").__globals__["EVENTS"]
    assert [event for event in events if event[1] == "read_file"] == [
        ("tool:pre", "read_file"),
        ("tool:error", "read_file"),
    ]


async def test_the_model_reads_the_reason_for_invalid_arguments(tmp_path: Path) -> None:
    wrong = {"calls": [{"name": "read_file", "arguments": {"path": 7}}]}
    server = serve(tmp_path, wrong, "Done.")
    async with server.connect() as client:
        await client.call_tool("run_agent", {"task": "Read."})
        [reading] = [message["content"] for message in get_history(server) if message["role"] == "tool"]
    assert "Input validation failed for tool 'read_file'" in reading
    assert "$.path" in reading


@EVERY_ERA
async def test_progress_shows_the_tool_and_the_growing_response(mode: str, tmp_path: Path) -> None:
    messages: list[str | None] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    async with serve(tmp_path, LOOK, "It says hello.").connect(mode=mode) as client:
        await client.call_tool("run_agent", {"task": "Read."}, progress_callback=report)
    assert messages == ["I look.", "The agent runs the tool 'read_file'.", "It says hello."]


@EVERY_ERA
async def test_cancelling_the_call_cancels_the_agent_and_its_tools(mode: str, tmp_path: Path) -> None:
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-scripted", "config": {"responses": [{"calls": [{"name": "slow"}]}]}}],
        "tools": [{"module": name_module(tmp_path, "slow")}],
    }
    server = ServedPlan(tmp_path, {name_module(tmp_path, "slow"): SLOW}, **plan)
    async with server.connect(mode=mode) as client:
        await cancel_slow_run(client, server.coordinator)


async def test_the_agent_has_another_name_if_a_tool_has_its_name(tmp_path: Path) -> None:
    server = ServedPlan(
        tmp_path,
        {name_module(tmp_path, "files"): FILES.replace("read_file", "run_agent")},
        session={"orchestrator": "loop-basic", "context": "context-simple"},
        providers=[{"module": "provider-scripted"}],
        tools=[{"module": name_module(tmp_path, "files")}],
    )
    async with server.connect() as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"run_agent", "run_agent_agent"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"providers": []}, "no provider is mounted"),
        ({"session": {"orchestrator": "loop-basic"}}, "no context is mounted"),
        ({"session": {"orchestrator": "loop-lost", "context": "context-simple"}}, "its orchestrator is not mounted"),
    ],
)
async def test_an_agent_that_could_not_run_is_not_published(
    changes: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    server = serve(tmp_path, "One.", **changes)
    async with server.connect() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["read_file"]
    assert any(f"the agent of the plan is not published: {problem}" in line for line in server.problems)


async def test_a_plan_with_nothing_but_an_agent_is_served(tmp_path: Path) -> None:
    async with serve(tmp_path, "One.", tools=[]).connect() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["run_agent"]


@EVERY_ERA
async def test_the_model_of_the_client_runs_the_agent(mode: str, tmp_path: Path) -> None:
    requests: list[Any] = []

    async def sample(context: Any, params: types.CreateMessageRequestParams) -> Any:
        requests.append(params)
        if len(requests) == 1:
            call = types.ToolUseContent(type="tool_use", id="call_1", name="read_file", input={"path": "b.txt"})
            return types.CreateMessageResultWithTools(
                role="assistant", content=[call], model="client-model", stop_reason="toolUse"
            )
        text = types.TextContent(type="text", text="It says hello.")
        return types.CreateMessageResultWithTools(role="assistant", content=[text], model="client-model")

    capabilities = types.SamplingCapability(tools=types.SamplingToolsCapability())
    server = serve(tmp_path, providers=[{"module": "provider-sampling"}])
    async with server.connect(mode=mode, sampling_callback=sample, sampling_capabilities=capabilities) as client:
        result = await client.call_tool("run_agent", {"task": "Read b.txt."})
    assert get_texts(result)[0] == "It says hello."
    assert [tool.name for tool in requests[0].tools] == ["read_file"]
    assert [message.role for message in requests[1].messages] == ["user", "assistant", "user"]


@EVERY_ERA
async def test_a_client_without_sampling_gets_the_missing_capability(mode: str, tmp_path: Path) -> None:
    async with serve(tmp_path, providers=[{"module": "provider-sampling"}]).connect(mode=mode) as client:
        result = await client.call_tool("run_agent", {"task": "Read."})
    assert result.is_error
    assert "The client does not support sampling" in get_texts(result)[0]


SECOND = """
from mcp_bridge._integrations.amplifier.providers.scripted_provider import ScriptedProvider

async def mount(coordinator, config):
    await coordinator.mount("providers", ScriptedProvider(["Two."]), name="two")
"""


@pytest.mark.parametrize(
    ("provider", "text"),
    [("two", "Two."), ("three", "There is no provider 'three'. The mounted providers are: scripted, two.")],
)
@pytest.mark.parametrize("config", [{}, {"default_provider": "scripted"}])
async def test_the_client_chooses_a_provider(config: Any, provider: str, text: str, tmp_path: Path) -> None:
    name = name_module(tmp_path, "two")
    (tmp_path / f"{name}.py").write_text(SECOND)
    providers = [{"module": "provider-scripted", "config": {"responses": ["One."]}}, {"module": name}]
    session = {"orchestrator": {"module": "loop-basic", "config": config}, "context": "context-simple"}
    async with serve(tmp_path, providers=providers, session=session).connect() as client:
        assert get_texts(await client.call_tool("run_agent", {"task": "Go.", "provider": provider}))[0] == text


BROKEN = """
class Broken:
    async def execute(self, prompt, context, providers, tools, hooks, **kwargs):
        raise RuntimeError("no idea")

async def mount(coordinator, config):
    await coordinator.mount("session", Broken(), name="orchestrator")
"""


async def test_an_orchestrator_that_raises_is_an_error_and_the_agent_stays(tmp_path: Path) -> None:
    name = name_module(tmp_path, "broken")
    (tmp_path / f"{name}.py").write_text(BROKEN)
    server = serve(tmp_path, "One.", session={"orchestrator": name, "context": "context-simple"})
    async with server.connect() as client:
        for _ in range(2):
            result = await client.call_tool("run_agent", {"task": "Go."})
            assert (get_code(result), get_texts(result)) == (
                "agent_failed",
                ["The agent failed: RuntimeError: no idea"],
            )


PID = """
import os

class Where:
    name, description, input_schema = "where", "Return the process.", {"type": "object"}

    async def execute(self, input):
        return ToolResult(output=str(os.getpid()))

async def mount(coordinator, config):
    await coordinator.mount("tools", Where())
"""
SETTINGS = """
sources:
  - type: amplifier
    isolation: {ISOLATION}
    plan:
      session: {orchestrator: loop-basic, context: context-persistent}
      context: {config: {path: history.jsonl}}
      providers:
        - {module: provider-scripted, config: {responses: [{calls: [{name: where}]}, Done.]}}
      tools:
        - {module: where_it_runs, source: where_it_runs.py}
"""


async def test_a_tool_that_is_isolated_runs_in_a_worker_for_the_agent_too(tmp_path: Path) -> None:
    write_files(tmp_path, {"where_it_runs.py": HEADS["native"] + PID})
    settings = SETTINGS.replace("{ISOLATION}", "{tools: [where]}").replace("history", str(tmp_path / "h"))
    write_files(tmp_path, {"agent.yaml": settings})
    async with open_bridge(tmp_path / "agent.yaml") as bridge, connect(bridge) as client:
        result = await client.call_tool("run_agent", {"task": "Where?"})
        direct = await client.call_tool("where")
    assert get_texts(result)[0] == "Done."
    pids = re.findall(r'"content":"(\d+)"', (tmp_path / "h.jsonl").read_text())
    assert len(pids) == 1
    assert str(os.getpid()) not in [*pids, *get_texts(direct)]


async def test_an_agent_of_an_isolated_source_is_published(tmp_path: Path) -> None:
    write_files(tmp_path, {"where_it_runs.py": HEADS["native"] + PID})
    write_files(tmp_path, {"agent.yaml": SETTINGS.replace("{ISOLATION}", "process")})
    async with open_bridge(tmp_path / "agent.yaml") as bridge:
        assert [entry.name for entry in bridge.registry.list()] == ["run_agent", "where"]
        assert bridge.problems["amplifier"] == []


@pytest.mark.parametrize("context", ["context-simple", "context-persistent"])
async def test_half_of_an_emoji_and_a_large_number_do_not_end_a_conversation(tmp_path: Path, context: str) -> None:
    look = {"calls": [{"name": "read_file", "arguments": {"path": "\ud83d.txt", "number": 10**30}}]}
    config = {"path": str(tmp_path / "{session_id}.jsonl")} if context == "context-persistent" else {}
    session = {"orchestrator": "loop-basic", "context": {"module": context, "config": config}}
    server = serve(tmp_path, look, "Done.", "Again.", session=session)
    async with server.connect() as client:
        first = await client.call_tool("run_agent", {"task": "Look at \ud83d"})
        assert get_texts(first)[0] == "Done."
        handle = first.structured_content["session"]
        assert get_texts(await client.call_tool("run_agent", {"task": "Again", "session": handle}))[0] == "Again."
        assert get_history(server)[0]["content"] == "Look at \ufffd"
