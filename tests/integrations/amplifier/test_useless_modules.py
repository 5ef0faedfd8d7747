"""Modules without an effect are reported, and tools for agents are not published without agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS
from tests.kits.amplifier.observe_kit import LEGACY, STATUS, ObservedPlan, read_json

pytestmark = pytest.mark.usefixtures("forgotten", "host")

REMINDS = """
async def mount(coordinator, config):
    for event in EVENTS:
        coordinator.hooks.register(event, lambda event, data: None, name="reminds")
    return lambda: None
"""
DELEGATES = """
class Task:
    name, description = "task", "Lets an agent work."
    input_schema = {"type": "object"}

    def __init__(self, coordinator): self.coordinator = coordinator

    async def execute(self, input):
        async def spawn():
            return self.coordinator.get_capability("session.spawn")
        if await spawn() is None:
            return {"success": False, "error": {"message": "Session spawning not available."}}
        return {"success": True, "output": "done"}

async def mount(coordinator, config):
    await coordinator.mount("tools", Task(coordinator))
    await coordinator.mount("tools", MockTool("other"))
"""
FORKS = """
class Skills:
    name, description = "skills", "Loads a skill, or lets an agent work with it."
    input_schema = {"type": "object"}

    def __init__(self, coordinator): self.coordinator = coordinator

    async def execute(self, input):
        return await self.fork() if input.get("fork") else {"success": True, "output": "a skill"}

    async def fork(self):
        spawn = self.coordinator.get_capability("session.spawn")
        return {"success": spawn is not None, "error": {"message": "Session spawning not available."}}

async def mount(coordinator, config):
    await coordinator.mount("tools", Skills(coordinator))
"""
HELPED = """
class Delegate:
    name, description = "delegate", "Gives a task to an agent, or lets one continue."
    input_schema = {"type": "object"}

    def __init__(self, coordinator): self.coordinator = coordinator

    async def execute(self, input):
        name = input.get("agent", "self")
        if not name:
            return ToolResult(success=False, error={"message": "Which agent?"})
        if input.get("session_id"):
            return await self._resume(input)
        return await self._start(name)

    async def _start(self, name):
        def find():
            return self.coordinator.get_capability("session.spawn")
        return await self._run(find())

    async def _resume(self, input):
        return await self._run(self.coordinator.get_capability("session.resume"))

    async def _run(self, start):
        if start is None:
            return ToolResult(success=False, error={"message": "Session spawning not available."})
        return ToolResult(output="done")

async def mount(coordinator, config):
    await coordinator.mount("tools", Delegate(coordinator))
    await coordinator.mount("tools", MockTool("other"))
"""
"""A tool in which other methods start the agent, as in the public tool-delegate."""
SPAWNS = """
async def mount(coordinator, config): pass

async def on_session_ready(coordinator):
    coordinator.register_capability("session.spawn", lambda: None)
"""


def get_reminder(*events: str) -> str:
    """Return a module with hooks for these events."""
    return REMINDS.replace("EVENTS", repr(events))


@BOTH_HOSTS
async def test_hooks_of_events_that_are_never_emitted_are_reported_and_the_others_work(tmp_path: Path) -> None:
    modules = {"reminds": get_reminder("provider:request", "llm:response"), "delegates": DELEGATES}
    server = ObservedPlan(tmp_path, modules, plan={"tools": ["delegates"], "hooks": ["reminds"]})
    async with server.connect(mode=LEGACY) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["other"]
        assert not (await client.call_tool("other", {})).is_error
        session = (await read_json(client, STATUS))["session"]
    reasons = [
        "it has no effect, because its hooks only receive 'llm:response', 'provider:request', and the plan has no "
        "agent that runs. Remove it from the plan",
        "its tool 'task' is not published: it can only start agents (the capability 'session.spawn'), and the plan has "
        "none that runs: its session has no orchestrator, and no module registers the capability. Add them, or remove "
        "the tool from the plan",
    ]
    assert server.problems == [f"reminds: {reasons[0]}", f"delegates: {reasons[1]}"]
    assert [(line["mounted"], line["problem"]) for line in session["modules"]] == [
        (True, reasons[1]),
        (True, reasons[0]),
    ]


@pytest.mark.parametrize(
    "module",
    [
        get_reminder("provider:request", "tool:pre"),
        get_reminder("my:event"),
        get_reminder("provider:request") + "\nasync def on_session_ready(coordinator): pass\n",
        get_reminder("provider:request").replace("return", "coordinator.register_capability('mine', 1)\n    return"),
    ],
)
async def test_a_module_that_may_have_an_effect_is_not_reported(tmp_path: Path, module: str) -> None:
    server = ObservedPlan(tmp_path, {"reminds": module}, plan={"hooks": ["reminds"]})
    async with server.connect(mode=LEGACY):
        assert server.problems == []


async def test_a_tool_whose_results_all_come_from_agents_is_not_published_without_one(tmp_path: Path) -> None:
    server = ObservedPlan(tmp_path, {"helped": HELPED}, plan={"tools": ["helped"]})
    async with server.connect(mode=LEGACY) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["other"]
    [problem] = server.problems
    assert problem.startswith("helped: its tool 'delegate' is not published: it can only start agents")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return await self._start(name)", "return ToolResult(output=name)"),
        ("return await self._start(name)", "await self._start(name)"),
        ("return await self._start(name)", "return await self._start(name) or name"),
        ("success=False, error={'message': 'Which agent?'}", "output='Which agent?'"),
    ],
)
async def test_a_tool_with_another_result_is_published(old: str, new: str, tmp_path: Path) -> None:
    module = HELPED.replace('"', "'").replace(old, new)
    assert new in module
    server = ObservedPlan(tmp_path, {"helped": module}, plan={"tools": ["helped"]})
    async with server.connect(mode=LEGACY):
        assert server.problems == []


@BOTH_HOSTS
@pytest.mark.parametrize(("module", "tool"), [(DELEGATES, "task"), (HELPED, "delegate")], ids=["own", "helped"])
async def test_a_tool_that_starts_agents_is_published_if_a_module_provides_them(
    module: str, tool: str, tmp_path: Path
) -> None:
    server = ObservedPlan(tmp_path, {"delegates": module, "spawns": SPAWNS}, plan={"tools": ["delegates", "spawns"]})
    async with server.connect(mode=LEGACY) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"other", tool}
        assert server.problems == []


async def test_a_tool_that_needs_agents_for_some_calls_only_is_published(tmp_path: Path) -> None:
    server = ObservedPlan(tmp_path, {"forks": FORKS}, plan={"tools": ["forks"]})
    async with server.connect(mode=LEGACY) as client:
        assert not (await client.call_tool("skills", {})).is_error
        assert server.problems == []


@BOTH_HOSTS
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("'tool:*', decide", "a hook must name one event, such as 'tool:pre', got 'tool:*'"),
        ("'tool:pre', decide, priority='10'", "must be an integer, such as 10, got '10'"),
    ],
)
async def test_a_hook_that_could_never_decide_is_reported_and_calls_are_denied(
    arguments: str, problem: str, tmp_path: Path
) -> None:
    module = f"""
def decide(event, data):
    return HookResult(action="deny")

async def mount(coordinator, config):
    coordinator.hooks.register({arguments})
"""
    module_text = "async def mount(coordinator, config):\n    await coordinator.mount('tools', MockTool('other'))\n"
    plan = {"tools": ["other"], "hooks": ["never"]}
    server = ObservedPlan(tmp_path, {"never": module, "other": module_text}, plan=plan)
    async with server.connect(mode=LEGACY) as client:
        assert (await client.call_tool("other", {})).is_error
        assert problem in server.problems[0]
