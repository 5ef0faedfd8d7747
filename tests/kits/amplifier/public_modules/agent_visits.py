"""Runs agents made of public loops, contexts and providers, also mixed with the bridge's own, as a client."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import stdio_client

from tests.kits.amplifier.public_modules.checks import MODES, CommandUser, Report, get_server_parameters, get_text
from tests.kits.amplifier.public_modules.plans import Repositories, build_module, build_modules
from tests.kits.amplifier.public_shapes import write_shape
from tests.kits.constants import STATELESS

READ = """
class Read:
    name, description, input_schema = "read", "Show a file.", {"type": "object"}

    async def execute(self, input):
        return {"success": True, "output": {"shown": input.get("path", "nothing")}}

async def mount(coordinator, config):
    await coordinator.mount("tools", Read())
"""
"""The tool that provider-mock calls when the prompt has its name. The name must not be in the result as well."""
APPROVAL = {"rules": [{"pattern": "sleep 77.7", "action": "auto_approve"}], "audit": {"enabled": False}}
SCRIPT = [{"text": "I look.", "calls": [{"name": "read"}]}, "It is done.", "It goes on."]
LOOPS = ("loop-basic", "loop-streaming")


def visit_agents(repositories: Repositories, checks: Report) -> None:
    """Serve plans with agents and visit them."""
    for loop in LOOPS:
        path = write_agent(repositories, f"agent-{loop}", loop)
        for mode in MODES:
            print(f"== agent of {loop}, {mode}")
            anyio.run(visit, path, mode, checks)
    for host, loop, public in itertools.product(("core", "native"), LOOPS, itertools.product((True, False), repeat=3)):
        names = ("loop", "context", "provider")
        tools = ", ".join(
            f"{'public' if is_public else 'own'} {name}" for name, is_public in zip(names, public, strict=True)
        )
        print(f"== {host}, {loop}: {tools}")
        plan = build_small_plan(repositories, loop, *public)
        path = repositories.write_plan(f"{host}-{loop}-{'-'.join(map(str, public))}", plan, host=host)
        anyio.run(visit_combination, path, public[2], checks)


def write_agent(repositories: Repositories, name: str, loop: str) -> Path:
    """Write a plan of an agent with the providers `mock`, `echo` and `scripted`. Its tool bash runs in a worker."""
    folder = repositories.folder / name
    folder.mkdir()
    (folder / "reader.py").write_text(READ)
    (folder / "echo.py").write_text(write_shape("echo", "amplifier_core"))
    names = ["tool-filesystem", "tool-bash", "tool-task"]
    plan = {
        **build_small_plan(repositories, loop, True, True, True),
        "tools": [{"module": "reader", "source": "reader.py"}, *build_modules(repositories, names, {})],
        "hooks": build_modules(repositories, ["hooks-approval"], {"hooks-approval": APPROVAL}),
        "agents": {"helper": {"description": "Helps with anything."}},
    }
    plan["providers"] += [{"module": "echo", "source": "echo.py"}, build_provider(repositories, public=False)]
    return repositories.write_plan(name, plan, isolation={"tools": ["bash"]})


def build_small_plan(
    repositories: Repositories, loop: str, public_loop: bool, public_context: bool, public_provider: bool
) -> dict[str, Any]:
    """Build the plan of an agent with the tool `read`. Each flag chooses a public module or the bridge's own."""
    return {
        "session": {
            "orchestrator": build_module(repositories, loop, public=public_loop, max_iterations=10),
            "context": build_module(repositories, "context-simple", public=public_context),
        },
        "providers": [build_provider(repositories, public=public_provider)],
        "tools": [{"module": "reader", "source": str(write_reader(repositories))}],
    }


def build_provider(repositories: Repositories, *, public: bool) -> dict[str, Any]:
    """Return the plan entry of provider-mock, or of the bridge's scripted provider."""
    if public:
        return build_module(repositories, "provider-mock", responses=["It is done."])
    return build_module(repositories, "provider-scripted", public=False, responses=SCRIPT)


def write_reader(repositories: Repositories) -> Path:
    """Write the module of the tool `read`; return its path."""
    path = repositories.folder / "reader.py"
    path.write_text(READ)
    return path


def build_use(tool: str, **arguments: Any) -> str:
    """Return a task that makes the provider `echo` call a tool."""
    return f"Use {tool} {json.dumps(arguments)}"


class AgentClient:
    """Calls the agent of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.progress: list[str] = []

    async def run(self, task: str, **arguments: Any) -> types.CallToolResult:
        """Run a task; `progress` has its messages."""
        self.progress = []
        return await self._client.call_tool(
            "run_agent", {"task": task, **arguments}, progress_callback=self._record_progress
        )

    async def use(self, tool: str, **arguments: Any) -> str:
        """Run a task with a tool call, and return the response. It repeats the result of the tool."""
        return get_text(await self.run(build_use(tool, **arguments), provider="echo"))

    async def _record_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append(message or "")


async def visit(path: Path, mode: str, checks: Report) -> None:
    """Check one agent in one protocol era."""
    user = CommandUser("echo out; exit 3")
    server = stdio_client(get_server_parameters(path, folder="/"))
    async with Client(server, mode=mode, elicitation_callback=user) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        checks.check("tools", sorted(names), lambda found: {"run_agent", "read", "bash"} <= set(found))
        agent = AgentClient(client)
        await check_conversation(agent, checks)
        await check_tools(agent, path, user, checks)
        await check_cancel(agent, checks)
        if "task" in names:
            await check_delegation(agent, checks)
        else:
            print("skip tool-task: nothing provides session.spawn")


async def check_conversation(agent: AgentClient, checks: Report) -> None:
    """Check text, usage, progress and continued conversations with provider-mock, then with provider-scripted."""
    first = await agent.run("Please look.", provider="mock")
    output = first.structured_content or {}
    checks.check("text", output, lambda value: value.get("text") == "It is done.")
    checks.check("usage", output.get("usage"), lambda usage: usage["total_tokens"] == 30)
    handle = output["session"]
    second = (await agent.run("Please read it.", provider="mock", session=handle)).structured_content or {}
    checks.check("usage with a tool", second.get("usage"), lambda usage: usage["total_tokens"] == 45)
    checks.check("the session", second.get("session"), lambda value: value == handle)
    checks.check("progress", agent.progress, lambda value: any("'read'" in text for text in value))
    repeated = get_text(await agent.run("What was said?", provider="echo", session=handle))
    checks.check("the conversation", repeated, lambda text: "Please look." in text and "test.txt" in text)
    scripted = await agent.run("Go.", provider="scripted")
    checks.check("a call without arguments", get_text(scripted), lambda text: "It is done." in text)
    failure = await agent.run("Go.", session="guessed")
    checks.check(
        "an unknown session", get_text(failure), lambda text: failure.is_error and "no such conversation" in text
    )


async def check_tools(agent: AgentClient, path: Path, user: CommandUser, checks: Report) -> None:
    """Check public tools in the run, and the questions of hooks-approval in it."""
    fails = await agent.use("bash", command="echo out; exit 3")
    checks.check("bash, approved in the run, that fails", fails, lambda text: "out" in text and "3" in text)
    checks.check("the question", user.asked[-1:], lambda question: "echo out; exit 3" in str(question))
    denial = await agent.use("bash", command="rm -rf /tmp/nothing")
    checks.check("bash, denied in the run", denial, lambda text: "I saw" in text and "declined" in text)
    (path.parent / "card.txt").write_text("the card\n")
    card = await agent.use("read_file", file_path=str(path.parent / "card.txt"))
    checks.check("read_file", card, lambda text: "the card" in text)
    failure = await agent.use("read_file", file_path=str(path.parent / "lost.txt"))
    checks.check("read_file, no file", failure, lambda text: "not found" in text.lower() or "no such" in text.lower())
    await agent.use("write_file", file_path="made.txt", content="here")
    file = path.parent / "made.txt"
    checks.check("write_file", file.exists() and file.read_text(), lambda text: text == "here")
    invalid = await agent.use("bash", command=7)
    checks.check("invalid arguments", invalid, lambda text: "validation failed" in text)


async def check_cancel(agent: AgentClient, checks: Report) -> None:
    """Check that a cancellation ends the program of bash, and that the conversation can continue."""
    first = await agent.run("Please look.", provider="mock")
    handle = (first.structured_content or {}).get("session")
    task = build_use("bash", command="sleep 77.7")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: agent.run(task, provider="echo", session=handle))
        checks.check("bash runs", await wait_for_program("sleep\x0077.7", running=True), lambda found: found)
        tasks.cancel_scope.cancel()
    checks.check("bash ends", await wait_for_program("sleep\x0077.7", running=False), lambda found: found)
    later_text = get_text(await agent.run("Go on.", provider="echo", session=handle))
    checks.check("after a cancel", later_text, lambda text: "cancelled by user" in text and "Go on." in text)


async def wait_for_program(command: str, *, running: bool) -> bool:
    """Return whether a program runs, or has ended, within ten seconds. Linux only."""
    for _ in range(100):
        if is_running(command) == running:
            return True
        await anyio.sleep(0.1)
    return False


def is_running(command: str) -> bool:
    """Whether a process has this command line, with NUL between its arguments."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().strip(b"\0") == command.encode():
                return True
        except OSError:
            continue
    return False


async def check_delegation(agent: AgentClient, checks: Report) -> None:
    """Check that tool-task starts a subagent with `session.spawn`, and resumes it with `session.resume`."""
    first = await agent.run(build_use("task", agent="helper", instruction="Help."), provider="echo")
    handle = (first.structured_content or {}).get("session")
    response = find_response(get_text(first))
    checks.check("tool-task", response, lambda data: "Help." in data.get("response", ""))
    task = build_use("task", session_id=response.get("session_id", ""), instruction="Go on.")
    resumed = find_response(get_text(await agent.run(task, provider="echo", session=handle)), last=True)
    checks.check("tool-task, resumed", resumed, lambda data: "Help. | Go on." in data.get("response", ""))
    unknown = await agent.use("task", agent="unknown", instruction="Help.")
    checks.check("tool-task, unknown agent", unknown, lambda text: "'unknown' not found" in text)


def find_response(text: str, *, last: bool = False) -> Mapping[str, Any]:
    """Return the first or the last result of tool-task in a text."""
    start = (text.rfind if last else text.find)('{"response"')
    response: Mapping[str, Any] = json.JSONDecoder().raw_decode(text[start:])[0] if start >= 0 else {}
    return response


async def visit_combination(path: Path, is_mock: bool, checks: Report) -> None:
    """Check two tasks of one conversation."""
    server = stdio_client(get_server_parameters(path, folder="/"))
    async with Client(server, mode=STATELESS) as client:
        agent = AgentClient(client)
        first = (await agent.run("Please read it.")).structured_content or {}
        checks.check("text", first.get("text"), lambda text: text == "It is done.")
        checks.check("progress", agent.progress, lambda texts: any("'read'" in text for text in texts))
        checks.check("usage", first.get("usage"), lambda usage: usage and usage["total_tokens"] > 0)
        second = (await agent.run("Go on.", session=first.get("session"))).structured_content or {}
        expected = "It is done." if is_mock else "It goes on."
        checks.check("continued", second.get("text"), lambda text: text == expected)
