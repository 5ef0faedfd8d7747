"""Every way to call a tool, and every policy and setting of a tool: the two tables of the matrix in test_every_way.py.

One bridge has a tool for each case, so a way makes the calls of all cases together. A tool writes a line when it runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError

from mcp_bridge import ChainStep, ToolCall, ToolChain, open_bridge
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tasks import TASKS
from mcp_bridge.export import Export
from mcp_bridge.testing import connect
from mcp_bridge.xaibo import RegistryToolProvider
from tests.integrations.amplifier.agent.test_delegation import DELEGATE
from tests.kits.amplifier.amplifier_plans import HEADS
from tests.kits.constants import TIMEOUT
from tests.kits.policies.policies_kit import build_bridge
from tests.kits.questions.asking_kit import serve_client
from tests.kits.web.web_kit import serve_page

Json = dict[str, Any]
SENT = "mail to ada@example.org"
SOFT = (SENT, "soft")
TRAIL = "trail/audit.sqlite3"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One policy or setting: the settings of its tool, and the arguments of each run.

    `source` and `limits` are parts of the settings of the source and of `limits.tools`.
    """

    runs: Sequence[tuple[str, str]] = ()
    policy: Json = field(default_factory=dict)
    source: Json = field(default_factory=dict)
    override: Json = field(default_factory=dict)
    limits: Json = field(default_factory=dict)
    calls: int = 1
    arguments: Json = field(default_factory=dict)


CASES: dict[str, Case] = {
    "nothing": Case(runs=[SOFT]),
    "allow": Case(policy={"allow": {"tools": ["*", "!*allow"], "resources": "*"}}),
    "deny": Case(policy={"deny": {"tools": "*deny"}}),
    "deny_original": Case(policy={"deny": {"tools": "deny_original"}}),
    "deny_source": Case(policy={"deny": {"tools": "*deny_source", "sources": "target"}}),
    "read_only": Case(policy={"read_only": {"tools": "*read_only"}}),
    "rate_limit": Case(policy={"rate_limit": {"tools": "*rate_limit", "limit": "1/hour"}}, calls=2, runs=[SOFT]),
    "approval": Case(policy={"approval": {"tools": "*approval"}}),
    "redact": Case(
        policy={"redact": {"tools": "*redact", "patterns": "email", "apply_to": "arguments"}},
        runs=[("mail to [redacted email]", "soft")],
    ),
    "audit": Case(policy={"audit": {"path": TRAIL}}, runs=[SOFT]),
    "cache": Case(
        policy={"cache": {"tools": "*cache", "ttl": "1h"}},
        override={"annotations": {"readOnlyHint": True}},
        calls=2,
        runs=[SOFT],
    ),
    "retry": Case(
        policy={"retry": {"tools": "*retry", "wait": "10ms"}},
        override={"annotations": {"idempotentHint": True}},
        runs=[SOFT, SOFT],
    ),
    "annotations": Case(
        policy={"deny": {"tools": "*annotations", "annotations": {"destructiveHint": False}}},
        override={"annotations": {"destructiveHint": False}},
    ),
    "timeout": Case(limits={"*timeout": {"timeout": "200ms"}}, runs=[SOFT]),
    "alias": Case(policy={"deny": {"tools": "renamed"}}, source={"alias": {"alias": "renamed"}}),
    "prefix": Case(policy={"deny": {"tools": "t__prefix"}}, source={"prefix": "t"}),
    "include": Case(source={"include": ["[!i]*"]}),
    "exclude": Case(source={"exclude": ["exclude"]}),
    "fixed": Case(override={"arguments": {"mode": {"value": "hard"}}}, runs=[(SENT, "hard")]),
    "hidden": Case(override={"arguments": {"mode": {"hidden": True}}}, arguments={"mode": "sent"}, runs=[SOFT]),
}
UNTESTED_SETTINGS = {
    "title": "shown to users",
    "description": "shown to models",
    "tags": "selects as include does",
    "concurrency": "is read together with the timeout",
    **dict.fromkeys(
        ("type", "name", "isolation", "options", "origin", "overrides", "arguments"), "no setting on a tool"
    ),
}
"""The settings of tools without a case, with the reason."""


def publish_name(name: str) -> str:
    """Return the published name of the tool of a case."""
    return "renamed" if name == "alias" else f"t__{name}"


def list_calls() -> list[tuple[str, Json]]:
    """Return the calls of all cases: original names with arguments."""
    return [(name, {"text": SENT, **case.arguments}) for name, case in CASES.items() for _ in range(case.calls)]


RECORD = f"""
import asyncio
import json
from pathlib import Path

RUNS = Path(__file__).with_name("runs.jsonl")
NAMES = {list(CASES)!r}


async def record(name, text, mode):
    known = RUNS.read_text() if RUNS.exists() else ""
    with RUNS.open("a") as file:
        print(json.dumps([name, text, mode]), file=file)
    if name == "retry" and '["retry"' not in known:
        raise ConnectionError("reset")
    if name == "timeout":
        await asyncio.sleep(3)
        with RUNS.open("a") as file:
            print(json.dumps([name, "it has ended", mode]), file=file)
    return text
"""
TOOLS = f"""{RECORD}
from mcp_bridge import CallContext, tool


def make(name):
    async def run(text: str, mode: str = "soft") -> str:
        return await record(name, text, mode)

    return tool(name=name, description="Run.")(run)


for name in NAMES:
    globals()[name] = make(name)


@tool
async def relay(name: str, text: str, ctx: CallContext, mode: str = "soft") -> str:
    \"\"\"Call another tool.\"\"\"
    arguments = {{"text": text}} if mode == "soft" else {{"text": text, "mode": mode}}
    return str((await ctx.invoke(name, arguments)).output)
"""
MODULE = f"""{HEADS["native"]}{RECORD}
class Case:
    description = "Run."
    input_schema = {{
        "type": "object",
        "properties": {{"text": {{"type": "string"}}, "mode": {{"type": "string", "default": "soft"}}}},
        "required": ["text"],
    }}

    def __init__(self, name):
        self.name = name

    async def execute(self, input):
        return ToolResult(output=await record(self.name, input["text"], input.get("mode", "soft")))


async def mount(coordinator, config):
    for name in NAMES:
        await coordinator.mount("tools", Case(name), name=name)
"""
PROVIDER = f"""{RECORD}
from xaibo.core.models import Tool, ToolParameter, ToolResult
from xaibo.core.protocols import ResponseProtocol, TextMessageHandlerProtocol, ToolProviderProtocol


class Cases(ToolProviderProtocol):
    def __init__(self, config: dict = None):
        pass

    async def list_tools(self):
        parameters = {{
            "text": ToolParameter(type="string", required=True), "mode": ToolParameter(type="string", default="soft")
        }}
        return [Tool(name=name, description="Run.", parameters=parameters) for name in NAMES]

    async def execute_tool(self, tool_name, parameters):
        value = await record(tool_name, parameters["text"], parameters.get("mode", "soft"))
        return ToolResult(success=True, result=value)


class Runs(TextMessageHandlerProtocol):
    def __init__(self, response: ResponseProtocol, tools: ToolProviderProtocol, config: dict = None):
        self.response, self.tools = response, tools

    async def handle_text(self, text):
        for name, arguments in json.loads(text):
            await self.tools.list_tools()
            await self.tools.execute_tool(name, arguments)
        await self.response.respond_text("done")
"""
COMMANDS = """
import sys
from contextlib import suppress

from mcp_bridge._cli import main

for call in {calls}:
    sys.argv = ["mcp-bridge", "call", "bridge.json", *call]
    with suppress(SystemExit):
        main()
"""
XAIBO_AGENT = """
id: helper
modules:
  - {id: talk, module: PARTS.Runs}
  - {id: py, module: PARTS.Cases}
"""


def _script(responses: Sequence[Any]) -> list[Json]:
    return [{"module": "provider-scripted", "config": {"responses": [*responses, "Done."]}}]


def write_python(folder: Path) -> Json:
    """Write a Python file with the tools, and return the settings of its source."""
    (folder / "tools.py").write_text(TOOLS)
    return {"type": "python", "path": "tools.py"}


def write_plan(folder: Path, *, is_subagent: bool = False) -> Json:
    """Write the modules of a plan. Its agent makes all calls, or starts a subagent for them."""
    key = folder.name.replace("-", "_")
    (folder / f"cases_{key}.py").write_text(MODULE)
    (folder / f"delegate_{key}.py").write_text(HEADS["native"] + DELEGATE)
    calls = [{"calls": [{"name": name, "arguments": arguments}]} for name, arguments in list_calls()]
    start = {"calls": [{"name": "delegate", "arguments": {"agent": "child", "instruction": "Go."}}]}
    modules = [{"module": name, "source": f"{name}.py"} for name in (f"cases_{key}", f"delegate_{key}")]
    plan = {
        "session": {
            "orchestrator": {"module": "loop-basic", "config": {"max_iterations": 100}},
            "context": "context-simple",
        },
        "providers": _script([start] if is_subagent else calls),
        "tools": modules,
        "agents": {"child": {"providers": _script(calls)}},
    }
    return {"type": "amplifier", "plan": plan}


def write_xaibo(folder: Path) -> Json:
    """Write an agent of Xaibo with the calls in its message."""
    parts = f"parts_{folder.name.replace('-', '_')}"
    (folder / f"{parts}.py").write_text(PROVIDER)
    (folder / "helper.yaml").write_text(XAIBO_AGENT.replace("PARTS", parts))
    return {"type": "xaibo", "agent": "helper.yaml", "offer": "both"}


def write_settings(folder: Path, source: Json, **more: Any) -> Json:
    """Return the settings with the policies and settings of all cases on one source."""
    source = {**source, "name": "target", "overrides": {}}
    limits: Json = {}
    for name, case in CASES.items():
        source |= case.source
        limits |= case.limits
        if case.override:
            source["overrides"][name] = case.override
    return {
        "source": source,
        "policy": [case.policy for case in CASES.values() if case.policy],
        "limits": {"tools": limits},
        "approvals": {"remember": False, "terminal": False},
        **more,
    }


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to a tool: its source, how to make the calls, and the modules that start these calls."""

    write: Callable[[Path], Json]
    make_calls: Callable[[Path, Any], Awaitable[None]]
    settings: Json = field(default_factory=dict)
    through: tuple[str, ...] = ()


async def _dispatch(bridge: Any, name: str, arguments: Json) -> None:
    if name in bridge.registry:
        await bridge.registry.dispatch(ToolCall(id="1", name=name, arguments=arguments), RunningCall())


async def call_direct(folder: Path, bridge: Any) -> None:
    """Call as a client does."""
    async with connect(bridge) as client:
        for name, arguments in list_calls():
            # The tool may not be published.
            with suppress(MCPError):
                await client.call_tool(publish_name(name), arguments)


async def call_by_relay(folder: Path, bridge: Any) -> None:
    async with bridge.run_sources():
        await bridge.wait_until_started()
        for name, arguments in list_calls():
            await _dispatch(bridge, "t__relay", {"name": publish_name(name), **arguments})


async def call_by_chain(folder: Path, bridge: Any) -> None:
    async with bridge.run_sources():
        await bridge.wait_until_started()
        for name, arguments in list_calls():
            if publish_name(name) in bridge.registry:
                step = ChainStep(publish_name(name), {key: key for key in arguments}, "out")
                entry = ToolChain(bridge.registry).add_step(step).as_tool("a_chain", "Run.")
                call = ToolCall(id="1", name="a_chain", arguments=arguments)
                await bridge.registry.dispatch_entry(entry, call, RunningCall())


async def call_by_settings_chain(folder: Path, bridge: Any) -> None:
    async with bridge.run_sources():
        await bridge.wait_until_started()
        for name, arguments in list_calls():
            await _dispatch(bridge, f"chain{list(CASES).index(name)}", arguments)


async def call_by_agent(folder: Path, bridge: Any) -> None:
    async with bridge.run_sources():
        await bridge.wait_until_started()
        await _dispatch(bridge, "t__run_agent", {"task": "Go."})


async def call_by_xaibo_agent(folder: Path, bridge: Any) -> None:
    async with bridge.run_sources():
        await bridge.wait_until_started()
        await _dispatch(bridge, "t__helper", {"message": json.dumps(list_calls())})


async def call_by_search(folder: Path, bridge: Any) -> None:
    async with connect(bridge) as client:
        for name, arguments in list_calls():
            await client.call_tool("call_tool", {"name": publish_name(name), "arguments": arguments})


async def call_by_task(folder: Path, bridge: Any) -> None:
    async with serve_client(bridge, capabilities={"extensions": {TASKS: {}}}) as client:
        for name, arguments in list_calls():
            response = await client.request("tools/call", {"name": publish_name(name), "arguments": arguments})
            task = response.get("result", {}).get("taskId")
            with anyio.fail_after(TIMEOUT):
                while task and (await client.request("tasks/get", {"taskId": task}))["result"]["status"] == "working":
                    pass


async def call_on_page(folder: Path, bridge: Any) -> None:
    async with serve_page(bridge) as server, server.read() as page:
        for name, arguments in list_calls():
            if publish_name(name) in bridge.registry:
                await page.call_tool(publish_name(name), **arguments)


async def call_by_export(folder: Path, bridge: Any) -> None:
    async with open_bridge(folder / "bridge.json") as opened:
        export = Export(opened, "anthropic")
        for name, arguments in list_calls():
            request = {"type": "tool_use", "id": "1", "name": publish_name(name), "input": arguments}
            await export.run({"content": [request]})


async def call_by_provider(folder: Path, bridge: Any) -> None:
    async with open_bridge(folder / "bridge.json") as opened:
        for name, arguments in list_calls():
            await RegistryToolProvider(opened).execute_tool(publish_name(name), arguments)


async def call_by_command(folder: Path, bridge: Any) -> None:
    """Run the command for each call, in one process because most of its time is the start."""
    calls = [(publish_name(name), json.dumps(arguments)) for name, arguments in list_calls() if CASES[name].calls == 1]
    (folder / "commands.py").write_text(COMMANDS.format(calls=calls))
    await anyio.run_process([sys.executable, "commands.py"], cwd=folder)


def _build_chains() -> Mapping[str, Json]:
    steps = {
        name: {"tool": publish_name(name), "input": {key: key for key in ("text", *case.arguments)}, "output": "out"}
        for name, case in CASES.items()
    }
    return {
        f"chain{at}": {"description": "Run.", "steps": [step], "output": "out"}
        for at, step in enumerate(steps.values())
    }


def _isolate(write: Callable[[Path], Json]) -> Callable[[Path], Json]:
    return lambda folder: {**write(folder), "isolation": {"workers": 1}}


WAYS: dict[str, Way] = {
    "direct": Way(write=write_python, make_calls=call_direct, through=("_server/calls/runner.py",)),
    "invoke": Way(write=write_python, make_calls=call_by_relay, through=("_contracts/running_call.py",)),
    "chain": Way(write=write_python, make_calls=call_by_chain, through=("_engine/tool_use/chain_tool.py",)),
    "chain in settings": Way(
        write=write_python, make_calls=call_by_settings_chain, settings={"chains": _build_chains()}
    ),
    "agent": Way(write=write_plan, make_calls=call_by_agent, through=("_integrations/amplifier/agent/agent_tools.py",)),
    "subagent": Way(write=lambda folder: write_plan(folder, is_subagent=True), make_calls=call_by_agent),
    "xaibo agent": Way(
        write=write_xaibo,
        make_calls=call_by_xaibo_agent,
        through=("_integrations/xaibo/source/agent_tools.py",),
    ),
    "worker": Way(write=_isolate(write_python), make_calls=call_direct),
    "invoke in worker": Way(
        write=_isolate(write_python), make_calls=call_by_relay, through=("_isolation/conversation.py",)
    ),
    "agent in worker": Way(
        write=_isolate(write_plan),
        make_calls=call_by_agent,
        through=("_isolation/nested_runs.py",),
    ),
    "subagent in worker": Way(
        write=_isolate(lambda folder: write_plan(folder, is_subagent=True)), make_calls=call_by_agent
    ),
    "xaibo agent in worker": Way(write=_isolate(write_xaibo), make_calls=call_by_xaibo_agent),
    "call_tool": Way(
        write=write_python,
        make_calls=call_by_search,
        settings={"tool_search": {"above": 1}},
        through=("_server/tools/search.py",),
    ),
    "task": Way(write=write_python, make_calls=call_by_task, settings={"tasks": {"after": 0}}),
    "page": Way(write=write_python, make_calls=call_on_page),
    "export": Way(write=write_python, make_calls=call_by_export, through=("_integrations/export/exporting.py",)),
    "provider": Way(
        write=write_python,
        make_calls=call_by_provider,
        through=("_integrations/xaibo/registry_provider.py",),
    ),
    "command": Way(write=write_python, make_calls=call_by_command, through=("_cli/call.py",)),
}


async def follow_way(folder: Path, way: Way) -> dict[str, list[tuple[str, str]]]:
    """Make the calls of all cases in one way. Return the arguments of each tool's runs."""
    settings = write_settings(folder, way.write(folder), **way.settings)
    bridge = build_bridge(folder, settings.pop("source"), *settings.pop("policy"), **settings)
    await way.make_calls(folder, bridge)
    runs: dict[str, list[tuple[str, str]]] = {name: [] for name in CASES}
    for line in (folder / "runs.jsonl").read_text().splitlines():
        name, text, mode = json.loads(line)
        runs[name].append((text, mode))
    return runs
