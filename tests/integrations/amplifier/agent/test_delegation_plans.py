"""The plan of subagents: inherited parts, and the changes of their configuration."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge import open_bridge
from mcp_bridge._integrations.amplifier.mount_plan import read_plan
from mcp_bridge.testing import connect
from tests.integrations.amplifier.agent.test_agent_tool import PID, name_module
from tests.integrations.amplifier.agent.test_delegation import ASK_READER, READER, Plan, call, script
from tests.kits.amplifier.amplifier_modules import write_files
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, HEADS, ServedPlan
from tests.kits.hooks.hooks_kit import get_code, get_texts

NOTE = """
class Note:
    name, description, input_schema = "note", "Write a note.", {"type": "object"}

    async def execute(self, input):
        return ToolResult(output="noted")

async def mount(coordinator, config):
    await coordinator.mount("tools", Note())
    async def deny(event, data):
        if data["tool_name"] == "read_file" and data.get("parent_id"):
            return HookResult(action="deny", reason="by note")
    coordinator.hooks.register("tool:pre", deny)
"""

UNKNOWN = "unknown key '{}', did you mean '{}'?"


async def run(plan: Plan) -> list[Any]:
    """Run the agent of a plan; return the sessions of its subagents."""
    async with plan.connect() as client:
        assert not (await client.call_tool("run_agent", {"task": "Go."})).is_error
        return [(sorted(child.get_tools()), child.coordinator.config, plan.get_messages()) for child in plan.children]


@pytest.mark.parametrize(
    ("agent", "config", "tools"),
    [
        ({}, {}, ["delegate", "note", "read_file"]),
        ({"exclude_tools": ["delegate"]}, {}, ["note", "read_file"]),
        ({"inherit_tools": ["read_file"]}, {}, ["read_file"]),
        ({}, {"tool_inheritance": {"exclude_tools": ["MODULE"]}}, ["delegate", "note"]),
        ({}, {"tool_inheritance": {"inherit_tools": ["MODULE", "note"]}}, ["note", "read_file"]),
        ({"inherit_tools": ["note"], "tools": ["MODULE"]}, {}, ["note", "read_file"]),
    ],
)
@BOTH_HOSTS
async def test_agents_inherit_tools(
    host: str, agent: dict[str, Any], config: dict[str, Any], tools: list[str], tmp_path: Path
) -> None:
    note, files = name_module(tmp_path, "note"), name_module(tmp_path, "files")

    def fill(given: Any) -> Any:
        return {key: [files if name == "MODULE" else name for name in names] for key, names in given.items()}

    config = {key: fill(value) for key, value in config.items()}
    agents = {"reader": {"providers": script("Done."), **fill(agent)}}
    plan = Plan(tmp_path, ASK_READER, "Done.", agents=agents, config=config, modules={note: NOTE}, tools=[note])
    [(found, _, _)] = await run(plan)
    assert found == tools


async def test_an_excluded_tool_stays_excluded_further_down_but_its_hooks_stay(tmp_path: Path) -> None:
    note = name_module(tmp_path, "note")
    agents = {"middle": {"exclude_tools": ["note"], "providers": script(ASK_READER, "Done.")}, "reader": READER}
    first = call("delegate", agent="middle", instruction="Go.")
    plan = Plan(tmp_path, first, "Done.", agents=agents, modules={note: NOTE}, tools=[note])
    async with plan.connect() as client:
        await client.call_tool("run_agent", {"task": "Go."})
        assert [sorted(child.get_tools()) for child in plan.children] == [["delegate", "read_file"]] * 2
        assert "denied: by note" in str(plan.get_messages(1))


@pytest.mark.parametrize(
    ("agent", "config", "hooks", "is_denied"),
    [
        ({}, {}, {}, True),
        ({"exclude_hooks": ["MODULE"]}, {}, {}, False),
        ({"inherit_hooks": []}, {}, {}, False),
        ({}, {"exclude_hooks": ["MODULE"]}, {"exclude_hooks": ["MODULE"]}, False),
        ({}, {}, {"exclude_hooks": ["MODULE"]}, True),
        ({}, {}, {"inherit_hooks": []}, True),
    ],
)
async def test_hooks_are_excluded_only_by_the_settings(
    agent: dict[str, Any], config: dict[str, Any], hooks: dict[str, Any], is_denied: bool, tmp_path: Path
) -> None:
    gate = name_module(tmp_path, "gate")

    def fill(names: dict[str, Any]) -> dict[str, Any]:
        return {key: [gate for _ in value] for key, value in names.items()}

    first = call("delegate", agent="reader", instruction="Read.", hooks=fill(hooks))
    agents = {"reader": {**READER, **fill(agent)}}
    plan = Plan(tmp_path, first, "Done.", agents=agents, config=fill(config), action="deny")
    [(_, _, messages)] = await run(plan)
    assert ("was denied" in str(messages)) is is_denied


async def test_the_configuration_of_an_agent_is_laid_over_the_plan(tmp_path: Path) -> None:
    session = {"orchestrator": {"module": "loop-basic", "config": {"max_tokens": 5000, "max_iterations": 9}}}
    agents = {
        "reader": {
            "providers": script("Done."),
            "orchestrator": {"config": {"max_iterations": 2}},
            "session": {"context": {"module": "context-simple", "config": {"max_tokens": 7000}}},
            "agents": ["reader"],
        },
        "writer": {},
    }
    session_settings = {**session, "context": "context-simple"}
    plan = Plan(tmp_path, ASK_READER, "Done.", agents=agents, session=session_settings)
    [(_, config, _)] = await run(plan)
    assert config["session"]["orchestrator"] == {
        "module": "loop-basic", "config": {"max_tokens": 5000, "max_iterations": 2},
    }  # fmt: skip
    assert config["session"]["context"]["config"] == {"max_tokens": 7000}
    assert list(config["agents"]) == ["reader"]
    assert [provider["module"] for provider in config["providers"]] == ["provider-scripted"]


MODELS = """
from mcp_bridge._integrations.amplifier.providers.scripted_provider import ScriptedProvider
from types import SimpleNamespace

class Models(ScriptedProvider):
    name = "models"

    async def list_models(self):
        return [SimpleNamespace(id=name) for name in ("small-1", "small-2", "large-1")]

async def mount(coordinator, config):
    text = f"I am {config.get('default_model')} at {config.get('base_url')}."
    await coordinator.mount("providers", Models([text]), name="models")
"""


@pytest.mark.parametrize(
    ("preferences", "text"),
    [
        ([{"provider": "models", "model": "Small-*"}], "I am small-2 at None."),
        ([{"provider": "models", "model": "huge-*"}, {"provider": "models", "model": "l"}], "I am l at None."),
        ([{"provider": "models", "model": "m", "config": {"base_url": "http://evil"}}], "I am m at None."),
        ([{"provider": "models"}], "I am None at None."),
        ([{"provider": "other", "model": "x"}], "Done."),
        ([], "I am own at http://own."),
    ],
)
async def test_the_first_preferred_provider_that_is_available_is_used(
    preferences: list[dict[str, Any]], text: str, tmp_path: Path
) -> None:
    models = name_module(tmp_path, "models")
    preferences_of_agent = (
        [] if preferences else [{"provider": models, "model": "own", "config": {"base_url": "http://own"}}]
    )
    session = {"orchestrator": {"module": "loop-basic", "config": {"default_provider": "scripted"}}}
    arguments = {"agent": "helper", "instruction": "Go.", "preferences": preferences}
    plan = Plan(
        tmp_path,
        agents={"helper": {"provider_preferences": preferences_of_agent}},
        modules={models: MODELS},
        providers=[*script("Done."), models],
        session={**session, "context": "context-simple"},
    )
    async with plan.connect() as client:
        result = await client.call_tool("delegate", arguments)
    assert result.structured_content["response"] == text


@pytest.mark.parametrize(
    ("agents", "started", "is_started"),
    [("none", "self", False), ("none", "reader", False), (["reader"], "self", False), (["reader"], "reader", True),
     ("all", "self", True)],
)  # fmt: skip
async def test_an_agent_starts_only_its_allowed_subagents(
    agents: Any, started: str, is_started: bool, tmp_path: Path
) -> None:
    middle = {"agents": agents, "providers": script(call("delegate", agent=started, instruction="Go."), "Done.")}
    first = call("delegate", agent="middle", instruction="Go.")
    limited = {"middle": middle, "reader": {"providers": script("Yes.")}}
    plan = Plan(tmp_path, first, "Done.", agents=limited, session={
        "orchestrator": "loop-basic", "context": "context-simple"})  # fmt: skip
    async with plan.connect() as client:
        await client.call_tool("run_agent", {"task": "Go."})
        assert ("There is no agent" not in str(plan.get_messages())) is is_started


async def test_an_agent_that_cannot_run_is_an_error_with_the_reason(tmp_path: Path) -> None:
    agents = {"reader": {"session": {"context": "context-lost"}}}
    plan = Plan(tmp_path, ASK_READER, "Done.", agents=agents)
    async with plan.connect() as client:
        await client.call_tool("run_agent", {"task": "Go."})
        assert plan.children == []
        assert "The agent 'reader' cannot run: no context is mounted" in plan.get_results()[0]


@pytest.mark.parametrize(
    ("agents", "path", "problem"),
    [
        ([], "agents", "expected a mapping of names to agents, such as agents: {NAME: {instructions: TEXT}}"),
        ({"a": "b"}, "agents.a", "expected an agent, as a mapping"),
        ({"a": {"tols": []}}, "agents.a.tols", "unknown key 'tols', did you mean 'tools'?"),
        (
            {"a": {"tools": [{"source": "x"}]}},
            "agents.a.tools[0]",
            "expected a mapping with 'module', the id of a module. Its keys are: source",
        ),
        (
            {"a": {"session": {"contxt": "c"}}},
            "agents.a.session.contxt",
            "unknown key 'contxt', did you mean 'context'?",
        ),
        (
            {"reader": {}, "a": {"agents": ["raeder"]}},
            "agents.a.agents[0]",
            "no agent 'raeder', did you mean 'reader'?",
        ),
        ({"a": {"agents": "some"}}, "agents.a.agents", "expected 'all', 'none' or a list of names"),
        ({"a": {"exclude_tools": "x"}}, "agents.a.exclude_tools", "expected a list of names"),
        (
            {"a": {"exclude_hooks": ["x"], "inherit_hooks": ["y"]}},
            "agents.a.inherit_hooks",
            "'exclude_hooks' and 'inherit_hooks' cannot be combined. Give only one of them",
        ),
        ({"a": {"instructions": 1}}, "agents.a.instructions", "expected a string"),
        ({"a": {"orchestrator": {"config": 1}}}, "agents.a.orchestrator.config", "expected a mapping"),
        (
            {"a": {"provider_preferences": [{"model": "m"}]}},
            "agents.a.provider_preferences[0]",
            "expected a mapping with 'provider', and optionally 'model'",
        ),
        (
            {"a": {"provider_preferences": [{"provider": "p", "model": ["m"]}]}},
            "agents.a.provider_preferences[0].model",
            "expected the name or a pattern of models",
        ),
        (
            {"a": {"provider_preferences": [{"provider": "p", "model": "m", "config": 1}]}},
            "agents.a.provider_preferences[0].config",
            "expected a mapping",
        ),
        ({"a": {"agents": [{"name": "a"}]}}, "agents.a.agents[0]", "expected the name of an agent"),
    ],
)
def test_an_invalid_agent_is_reported_with_its_place(agents: Any, path: str, problem: str) -> None:
    [problem_row] = read_plan({"agents": agents})[1]
    assert (problem_row.path, problem_row.problem) == (path, problem)


def test_the_forms_of_instructions_are_the_same() -> None:
    for agent in (
        {"instructions": "Go."},
        {"instruction": "Go."},
        {"system": "Go."},
        {"system": {"instruction": "Go."}},
    ):
        assert read_plan({"agents": {"a": agent}})[1] == []


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ({"tools": ["tool-lost"]}, "agents.a.tools[0]: module 'tool-lost' is not an entry point"),
        ({"exclude_tools": ["raed_file"]}, "agents.a.exclude_tools: no tool or tool module 'raed_file', did you mean"),
        ({"exclude_hooks": ["gate"]}, "agents.a.exclude_hooks: no hook module 'gate'"),
    ],
)
async def test_unknown_names_in_the_configuration_of_an_agent_are_reported(
    agent: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    plan = Plan(tmp_path, "Done.", agents={"a": agent})
    async with plan.connect():
        assert [line for line in plan.problems if problem in line] == plan.problems != []


async def test_agents_of_a_plan_without_an_orchestrator_are_reported(tmp_path: Path) -> None:
    plan = Plan(tmp_path, agents={"a": {}}, session={})
    async with plan.connect() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["read_file"]
        assert "agents: none of them can run, because the session of the plan has no orchestrator" in plan.problems


SETTINGS = """
sources:
  - type: amplifier
    isolation: {tools: [where]}
    plan:
      session: {orchestrator: loop-basic, context: context-simple}
      providers:
        - {module: provider-scripted, config: {responses: [{calls: [{name: where}]}, Done.]}}
      tools: [{module: where_agents_run, source: where_agents_run.py}, tool-task]
      agents:
        finder:
          description: Finds out.
          session: {context: {module: context-persistent, config: {path: history.jsonl}}}
        owner: {tools: [{module: another, source: where_agents_run.py}]}
"""


async def test_a_tool_that_is_isolated_runs_in_a_worker_for_agents_too(tmp_path: Path) -> None:
    write_files(tmp_path, {"where_agents_run.py": HEADS["native"] + PID})
    settings = SETTINGS.replace("history", str(tmp_path / "history"))
    write_files(tmp_path, {"agent.yaml": settings})
    async with open_bridge(tmp_path / "agent.yaml") as bridge, connect(bridge) as client:
        result = await client.call_tool("task", {"agent": "finder", "instruction": "Where?"})
        own = await client.call_tool("task", {"agent": "owner", "instruction": "Where?"})
    [history] = [name for name in os.listdir(tmp_path) if name.startswith("history")]
    assert result.structured_content["response"] == "Done."
    assert result.structured_content["session_id"] in history
    [pid] = re.findall(r'"content":"(\d+)"', (tmp_path / history).read_text())
    assert pid != str(os.getpid())
    assert "has tools of its own, which cannot run in worker processes" in get_texts(own)[0]


def test_the_modules_of_agents_are_locked(tmp_path: Path) -> None:
    plan = "{agents: {a: {tools: [{module: m, source: 'git+https://example.org/m@main'}]}}}"
    (tmp_path / "mine.yaml").write_text(f"sources:\n  - type: amplifier\n    plan: {plan}\n")
    command = [sys.executable, "-m", "mcp_bridge", "module", "lock", str(tmp_path / "mine.yaml")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "mine.yaml:3: sources[0].plan.agents.a.tools[0].source" in process.stderr


async def test_the_included_tool_lists_agents_resumes_them_and_fails_if_they_stop(tmp_path: Path) -> None:
    agents = {
        "counter": {"description": "Counts.", "providers": script("One.", "Two.")},
        "endless": {"providers": script(call("nothing")), "orchestrator": {"config": {"max_iterations": 2}}},
    }
    server = ServedPlan(
        tmp_path,
        {},
        session={"orchestrator": "loop-basic", "context": "context-simple"},
        providers=script("Done."),
        tools=["tool-task"],
        agents=agents,
    )
    async with server.connect() as client:
        task = next(tool for tool in (await client.list_tools()).tools if tool.name == "task")
        assert task.description.endswith("The agents:\n- counter: Counts.\n- endless: no description")
        first = await client.call_tool("task", {"agent": "counter", "instruction": "Count."})
        session_id = first.structured_content["session_id"]
        second = await client.call_tool("task", {"session_id": session_id, "instruction": "Go on."})
        assert second.structured_content == {"response": "Two.", "session_id": session_id}
        result = await client.call_tool("task", {"agent": "endless", "instruction": "Go."})
        assert get_code(result) == "agent_stopped"
        assert "2 requests to the model" in get_texts(result)[0]
        failure = await client.call_tool("task", {"session_id": "guessed", "instruction": "Go."})
        assert get_code(failure) == "session_not_found"
        neither = await client.call_tool("task", {"instruction": "Go."})
        assert "Give `agent` to start an agent" in get_texts(neither)[0]


async def test_the_included_tool_needs_agents(tmp_path: Path) -> None:
    server = ServedPlan(tmp_path, {}, session={"orchestrator": "loop-basic", "context": "context-simple"},
                    providers=script("Done."), tools=["tool-task"])  # fmt: skip
    async with server.connect():
        assert any("the plan has no agents. Add them under `agents`" in line for line in server.problems)
