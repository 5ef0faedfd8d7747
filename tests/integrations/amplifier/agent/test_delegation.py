"""Subagents for official clients, with a module like the public tool-task and with the included one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_bridge import ToolCall
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.amplifier.sessions.module_sessions import SessionLimits
from mcp_bridge.amplifier.testing import wait_for
from tests.integrations.amplifier.agent.test_agent_tool import name_module
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.amplifier.slow_tool import SLOW, cancel_slow_run
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import ScriptedUser, get_texts
from tests.kits.loops import BOTH_LOOPS

DELEGATE = """
import uuid

class Delegate:
    name, description = "delegate", "Give a task to another agent."
    input_schema = {"type": "object"}

    def __init__(self, coordinator, config):
        self.coordinator, self.config = coordinator, config

    async def execute(self, input):
        spawn, parent = self.coordinator.get_capability("session.spawn"), self.coordinator.session
        if "session_id" in input:
            resume = self.coordinator.get_capability("session.resume")
            try:
                result = await resume(sub_session_id=input["session_id"], instruction=input["instruction"])
            except FileNotFoundError as error:
                return ToolResult(success=False, error={"message": f"lost: {error}"})
        else:
            agents = self.coordinator.config.get("agents", {})
            try:
                result = await spawn(
                    agent_name=input["agent"],
                    instruction=input["instruction"],
                    parent_session=parent,
                    agent_configs=agents,
                    sub_session_id=f"{parent.session_id}-{uuid.uuid4().hex[:16]}_{input['agent']}",
                    tool_inheritance=self.config.get("tool_inheritance") or {},
                    hook_inheritance=input.get("hooks") or {},
                    orchestrator_config=parent.config["session"]["orchestrator"].get("config"),
                    provider_preferences=input.get("preferences"),
                    something_new=1,
                )
            except Exception as error:
                return ToolResult(success=False, error={"message": f"Delegation failed: {error}"})
        return ToolResult(output={"response": result["output"], "session_id": result["session_id"]})

async def mount(coordinator, config):
    tool = Delegate(coordinator, config)
    await coordinator.mount("tools", tool, name=tool.name)
"""
FILES = """
EVENTS = []

class Read:
    name, description = "read_file", "Read a file."
    input_schema = {"type": "object", "properties": {"path": {"type": "string"}}}

    async def execute(self, input):
        return ToolResult(output=f"the text of {input['path']}")

async def mount(coordinator, config):
    await coordinator.mount("tools", Read())
"""
GATE = """
EVENTS = []

async def mount(coordinator, config):
    async def decide(event, data):
        EVENTS.append((event, data.get("tool_name"), data.get("parent_id")))
        if event == "tool:pre" and data["tool_name"] == "read_file" and data.get("parent_id"):
            return HookResult(action=config["action"], reason="not this file", approval_prompt="May it read?")
        return HookResult()
    for event in ("tool:pre", "session:fork", "session:resume", "session:end"):
        coordinator.hooks.register(event, decide)
"""
STOP = """
PARENTS = []

class Stop:
    name, description, input_schema = "stop", "Stop the parent.", {"type": "object"}

    async def execute(self, input):
        for coordinator in PARENTS:
            coordinator.cancellation.request_graceful()
        return ToolResult(output="It will stop.")

async def mount(coordinator, config):
    if coordinator.parent_id is None:
        PARENTS.append(coordinator)
    await coordinator.mount("tools", Stop())
"""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a response of a model with a tool call."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def script(*responses: Any) -> list[dict[str, Any]]:
    """Return the providers of a plan: one that gives these responses."""
    return [{"module": "provider-scripted", "config": {"responses": list(responses)}}]


READ = call("read_file", path="a.txt")
ASK_READER = call("delegate", agent="reader", instruction="Read a.txt.")
READER = {"description": "Reads files.", "providers": script(READ, "It says hello.")}


class Plan(ServedPlan):
    """A plan with subagents; `config` is the configuration of the delegating module."""

    def __init__(
        self,
        folder: Path,
        *responses: Any,
        agents: dict[str, Any],
        config: dict[str, Any] | None = None,
        action: str = "",
        modules: dict[str, str] | None = None,
        tools: list[Any] | None = None,
        limits: SessionLimits | None = None,
        **plan: Any,
    ) -> None:
        names = {key: name_module(folder, key) for key in ("delegate", "files", "gate")}
        whole = {
            "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
            "providers": script(*responses),
            "tools": [{"module": names["delegate"], "config": config or {}}, names["files"], *(tools or [])],
            "hooks": [{"module": names["gate"], "config": {"action": action}}] if action else [],
            "agents": agents,
            **plan,
        }
        get_texts = {names["delegate"]: DELEGATE, names["files"]: FILES, names["gate"]: GATE, **(modules or {})}
        super().__init__(folder, get_texts, limits=limits, **whole)

    @property
    def children(self) -> list[Any]:
        """The sessions of subagents."""
        sessions = [entry.session for key, entry in self.source.sessions._sessions.items() if key.startswith("agent/")]
        return [session for session in sessions if session.coordinator.parent_id]

    def get_messages(self, place: int = 0) -> list[dict[str, Any]]:
        """The conversation of a subagent."""
        messages: list[dict[str, Any]] = self.children[place].coordinator.get("context")._messages
        return messages

    def get_results(self) -> list[str]:
        """Return the tool results that the first agent has received."""
        [first] = [
            entry.session
            for key, entry in self.source.sessions._sessions.items()
            if key.startswith("agent/") and not entry.session.coordinator.parent_id
        ]
        messages = first.coordinator.get("context")._messages
        return [message["content"] for message in messages if message["role"] == "tool"]

    def get_events(self) -> list[tuple[str, Any, Any]]:
        """Return the events received by the hooks of `gate`."""
        [registration] = self.coordinator.hooks.list_registrations()["tool:pre"]
        results: list[tuple[str, Any, Any]] = registration.handler.__globals__["EVENTS"]
        return results


@EVERY_ERA
@BOTH_HOSTS
async def test_an_agent_gives_a_task_to_another_and_reads_its_response(mode: str, host: str, tmp_path: Path) -> None:
    reader = {**READER, "instructions": "You read."}
    plan = Plan(tmp_path, ASK_READER, "The reader says hello.", agents={"reader": reader})
    async with plan.connect(mode=mode) as client:
        result = await client.call_tool("run_agent", {"task": "What is in a.txt?"})
        messages, [reading] = plan.get_messages(), plan.get_results()
        [child] = plan.children
        assert child.coordinator.session_id in reading
        assert child.coordinator.session.config["session"]["orchestrator"]["module"] == "loop-streaming"
    assert get_texts(result)[0] == "The reader says hello."
    assert '"response":"It says hello."' in reading.replace(": ", ":")
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert [messages[place]["content"] for place in (0, 1, 3)] == ["You read.", "Read a.txt.", "the text of a.txt"]


@BOTH_HOSTS
async def test_a_resumed_agent_has_its_history(host: str, tmp_path: Path) -> None:
    reader = {"providers": script("One.", "Two.")}
    plan = Plan(tmp_path, "Done.", agents={"reader": reader}, action="continue")
    async with plan.connect() as client:
        first = await client.call_tool("delegate", {"agent": "reader", "instruction": "Count."})
        session_id = first.structured_content["session_id"]
        second = await client.call_tool("delegate", {"session_id": session_id, "instruction": "Go on."})
        assert [message["content"] for message in plan.get_messages()] == ["Count.", "One.", "Go on.", "Two."]
        events = [event for event, _, parent in plan.get_events() if parent]
    assert second.structured_content == {"response": "Two.", "session_id": session_id}
    assert events == ["session:fork", "session:resume"]


async def test_a_tool_that_is_not_a_coroutine_function_starts_agents_too(tmp_path: Path) -> None:
    sync = name_module(tmp_path, "sync")
    text = DELEGATE.replace("async def execute(self, input)", "async def start(self, input)").replace(
        "async def mount", "    def execute(self, input):\n        return self.start(input)\n\nasync def mount"
    )
    modules = {sync: text.replace('"delegate"', '"sync"')}
    plan = Plan(tmp_path, "Done.", agents={"reader": READER}, modules=modules, tools=[sync])
    async with plan.connect() as client:
        result = await client.call_tool("sync", {"agent": "reader", "instruction": "Read."})
    assert result.structured_content["response"] == "It says hello."


async def test_subagents_end_with_the_session_of_their_parent(tmp_path: Path) -> None:
    plan = Plan(tmp_path, ASK_READER, "Done.", agents={"reader": READER}, action="continue")
    async with plan.run_bridge():
        async with plan.connect(mode="legacy") as client:
            await client.call_tool("run_agent", {"task": "Read."})
            assert len(plan.children) == 1
        events = plan.get_events()
        assert await wait_for(lambda: any(event == "session:end" and parent for event, _, parent in events), 10)
        assert plan.children == []


@BOTH_HOSTS
async def test_a_subagent_stops_when_a_module_cancels_the_session_of_its_parent(host: str, tmp_path: Path) -> None:
    module = name_module(tmp_path, "stop")
    reader = {"providers": script(call("stop"), "It goes on.")}
    plan = Plan(tmp_path, "Done.", agents={"reader": reader}, modules={module: STOP}, tools=[module])
    async with plan.connect() as client:
        result = await client.call_tool("delegate", {"agent": "reader", "instruction": "Go."})
    assert result.structured_content["response"] == "[Stopped early. The session was cancelled.]"


@pytest.mark.parametrize("shared", [True, False])
async def test_an_agent_cannot_be_resumed_from_another_session(shared: bool, tmp_path: Path) -> None:
    plan = Plan(tmp_path, "Done.", agents={"reader": READER}, limits=SessionLimits(shared=shared))

    async def delegate(principal: str, **arguments: Any) -> Any:
        ctx = RunningCall(principal=principal, session=f"principal/{principal}")
        call = ToolCall(id="1", name="delegate", arguments={"instruction": "Go on.", **arguments})
        return await plan.bridge.registry.dispatch(call, ctx)

    async with plan.run_bridge():
        session_id = (await delegate("anna", agent="reader")).output["session_id"]
        stolen = await delegate("ben", session_id=session_id)
        assert "lost: There is no agent session" in stolen.error_text
        assert (await delegate("anna", session_id=session_id)).success


async def test_an_unknown_agent_is_an_error_that_lists_the_others(tmp_path: Path) -> None:
    plan = Plan(tmp_path, call("delegate", agent="writer", instruction="Go."), "Done.", agents={"reader": READER})
    async with plan.connect() as client:
        await client.call_tool("run_agent", {"task": "Go."})
        [reading] = plan.get_results()
        assert plan.children == []
    assert "There is no agent 'writer'. The agents are: reader." in reading


async def test_agents_start_others_only_to_a_limited_depth(tmp_path: Path) -> None:
    deeper = call("delegate", agent="self", instruction="Go deeper.")
    plan = Plan(tmp_path, deeper, "Done.", agents={})
    async with plan.connect() as client:
        assert not (await client.call_tool("run_agent", {"task": "Go."})).is_error
        assert len(plan.children) == 3
        [last] = [message for message in map(plan.get_messages, range(3)) if "Delegation failed" in str(message)]
    assert "Agents start others at most 3 levels deep. Do this task without another agent." in str(last)


async def test_a_run_starts_a_limited_number_of_agents(tmp_path: Path) -> None:
    many = {"calls": [ASK_READER["calls"][0]] * 3}
    config = {"max_repeated_calls": 100}
    session = {"orchestrator": {"module": "loop-basic", "config": config}, "context": "context-simple"}
    plan = Plan(tmp_path, *[many] * 7, "Done.", agents={"reader": {"providers": script("Yes.")}}, session=session)
    async with plan.connect() as client:
        await client.call_tool("run_agent", {"task": "Go."})
        results = plan.get_results()
    failures = [text for text in results if "This run has started 20 agents" in text]
    assert (len(results), len(failures)) == (21, 1)


async def test_the_tokens_of_a_subagent_count_against_its_parent(tmp_path: Path) -> None:
    long = {"providers": script({"text": "x" * 4000, **READ}, "Never sent.")}
    session = {"orchestrator": {"module": "loop-basic", "config": {"max_tokens": 900}}, "context": "context-simple"}
    free = {**long, "orchestrator": {"config": {"max_tokens": 100_000}}}
    plan = Plan(tmp_path, ASK_READER, "Never sent.", agents={"reader": free}, session=session)
    async with plan.connect() as client:
        result = await client.call_tool("run_agent", {"task": "Go."})
        [reading] = plan.get_results()
    assert result.is_error
    assert "The budget was used up: 900 tokens (max_tokens)." in get_texts(result)[0]
    assert "900 tokens (max_tokens) of the agent that started this one" in reading


async def test_the_usage_of_a_run_includes_its_subagents(tmp_path: Path) -> None:
    reader = {"providers": script("y" * 4000)}
    plan = Plan(tmp_path, ASK_READER, "Done.", agents={"reader": reader})
    async with plan.connect() as client:
        result = await client.call_tool("run_agent", {"task": "Go."})
    assert 2000 > result.structured_content["usage"]["output_tokens"] > 1000


async def test_the_time_of_a_run_includes_its_subagents(tmp_path: Path) -> None:
    slow = name_module(tmp_path, "slow")
    session = {"orchestrator": {"module": "loop-basic", "config": {"max_seconds": 0.5}}, "context": "context-simple"}
    reader = {"providers": script(call("slow"), "Never sent."), "orchestrator": {"config": {"max_seconds": 60}}}
    plan = Plan(tmp_path, ASK_READER, agents={"reader": reader}, session=session, modules={slow: SLOW}, tools=[slow])
    async with plan.connect() as client:
        result = await client.call_tool("run_agent", {"task": "Go."})
        assert plan.children == []
    assert "0.5 seconds (max_seconds)" in get_texts(result)[0]


@EVERY_ERA
@BOTH_LOOPS
async def test_cancelling_the_call_cancels_its_subagents(mode: str, tmp_path: Path) -> None:
    slow = name_module(tmp_path, "slow")
    reader = {"providers": script(call("slow"))}
    plan = Plan(tmp_path, ASK_READER, agents={"reader": reader}, modules={slow: SLOW}, tools=[slow])
    async with plan.connect(mode=mode) as client:
        await cancel_slow_run(client, plan.coordinator)
        assert await wait_for(lambda: plan.children == [], 10)


@BOTH_LOOPS
async def test_agents_run_concurrently(tmp_path: Path) -> None:
    meeting = """
import anyio
COUNT = []
ALL = anyio.Event()

class Meet:
    name, description, input_schema = "meet", "Wait for the others.", {"type": "object"}

    async def execute(self, input):
        COUNT.append(1)
        if len(COUNT) == 3:
            ALL.set()
        with anyio.fail_after(TIMEOUT):
            await ALL.wait()
        return ToolResult(output="met")

async def mount(coordinator, config):
    await coordinator.mount("tools", Meet())
"""
    meet = name_module(tmp_path, "meet")
    reader = {"providers": script(call("meet"), "Met.")}
    three = {"calls": [ASK_READER["calls"][0]] * 3}
    plan = Plan(tmp_path, three, "Done.", agents={"reader": reader}, modules={meet: meeting}, tools=[meet])
    async with plan.connect() as client:
        await client.call_tool("run_agent", {"task": "Go."})
        assert ["Met." in text for text in plan.get_results()] == [True] * 3


@BOTH_HOSTS
async def test_hooks_deny_calls_of_subagents(host: str, tmp_path: Path) -> None:
    plan = Plan(tmp_path, ASK_READER, "Done.", agents={"reader": READER}, action="deny")
    async with plan.connect() as client:
        await client.call_tool("run_agent", {"task": "Go."})
        [reading] = [message["content"] for message in plan.get_messages() if message["role"] == "tool"]
    assert reading == "Error: Tool 'read_file' was denied: not this file"


@EVERY_ERA
@BOTH_HOSTS
@pytest.mark.parametrize(("choice", "read"), [("Allow", True), ("Deny", False)])
async def test_the_user_of_the_client_approves_calls_of_subagents(
    mode: str, host: str, choice: str, read: bool, tmp_path: Path
) -> None:
    plan, user = (
        Plan(tmp_path, ASK_READER, "Done.", agents={"reader": READER}, action="ask_user"),
        ScriptedUser(choice),
    )
    async with plan.connect(mode=mode, elicitation_callback=user) as client:
        result = await client.call_tool("run_agent", {"task": "Go."})
        [reading] = [message["content"] for message in plan.get_messages() if message["role"] == "tool"]
    assert user.prompts == ["May it read?"]
    assert get_texts(result)[0] == "Done."
    assert (reading == "the text of a.txt") is read


@EVERY_ERA
async def test_progress_names_the_agent(mode: str, tmp_path: Path) -> None:
    messages: list[str | None] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    plan = Plan(tmp_path, ASK_READER, "Done.", agents={"reader": READER})
    async with plan.connect(mode=mode) as client:
        await client.call_tool("run_agent", {"task": "Go."}, progress_callback=report)
    assert messages == [
        "The agent runs the tool 'delegate'.",
        "reader: The agent runs the tool 'read_file'.",
        "reader: It says hello.",
        "Done.",
    ]
