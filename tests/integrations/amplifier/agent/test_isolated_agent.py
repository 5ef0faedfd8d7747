"""The agent of a source in worker processes."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import psutil
import pytest
from anyio.abc import TaskGroup

from mcp_bridge import ToolCall
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._isolation import pool
from mcp_bridge._settings import load
from mcp_bridge.amplifier.testing import wait_for
from mcp_bridge.testing import connect
from tests.kits.amplifier.cancel_steps import cancel_at_step
from tests.kits.constants import EVERY_ERA, TIMEOUT
from tests.kits.hooks.hooks_kit import ScriptedUser, get_code, get_texts

pytestmark = pytest.mark.usefixtures("forgotten")
INCOMPLETE = "Error: the run ended before the result of this call was recorded. The call may have had effects."

TOOLS = """
import os, anyio
from pathlib import Path
from mcp_bridge.amplifier import ToolResult

class Where:
    name = "where"
    description = "Return the id of the process."
    input_schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    def __init__(self, coordinator):
        self.coordinator = coordinator

    async def execute(self, input):
        return ToolResult(output=f"{os.getpid()} {self.coordinator.session_id}")

class Blocks(Where):
    name = "blocks"

    def execute(self, input):
        return ToolResult(output=f"{os.getpid()} {self.coordinator.session_id}")

class Meets(Where):
    name = "meets"

    async def execute(self, input):
        Path(f"met_{os.getpid()}").touch()
        while len(list(Path().glob("met_*"))) < 2:
            await anyio.sleep(0.01)
        return ToolResult(output=f"{os.getpid()}")

class Crashes(Where):
    name = "crashes"

    async def execute(self, input):
        os._exit(7)

class Slow(Where):
    name = "slow"

    async def execute(self, input):
        Path("began").write_text(str(os.getpid()))
        try:
            await anyio.sleep(60)
        finally:
            Path("ended").write_text("")

async def mount(coordinator, config):
    os.chdir(Path(__file__).parent)
    for tool in (Where, Blocks, Meets, Crashes, Slow):
        await coordinator.mount("tools", tool(coordinator))
"""

GATE = """
from mcp_bridge.amplifier import HookResult

async def mount(coordinator, config):
    async def decide(event, data):
        if data["tool_name"] == "blocks":
            return HookResult(action="ask_user", approval_prompt="May it?")
        return HookResult()
    coordinator.hooks.register("tool:pre", decide)
"""


def make_call_response(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a response of the model with a call of a tool."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def serve(folder: Path, *responses: Any, workers: int = 1, **plan: Any) -> Bridge:
    """Serve a plan in workers with these responses of its model, and without `isolation.invokes`."""
    (folder / "tools_of_agent.py").write_text(TOOLS)
    (folder / "gate.py").write_text(GATE)
    context = {"module": "context-persistent", "config": {"path": str(folder / "{session_id}.jsonl")}}
    whole = {
        "session": {"orchestrator": "loop-streaming", "context": context},
        "providers": [{"module": "provider-scripted", "config": {"responses": list(responses)}}],
        "tools": [{"module": "tools_of_agent", "source": "tools_of_agent.py"}],
        **plan,
    }
    agent = {"type": "amplifier", "plan": whole, "isolation": {"workers": workers, "invokes": []}}
    hooks = {"type": "amplifier", "name": "gate", "plan": {"hooks": [{"module": "gate", "source": "gate.py"}]}}
    (folder / "bridge.json").write_text(json.dumps({"sources": [agent, hooks]}))
    return build_from_settings(load(folder / "bridge.json", {}))


def list_results(folder: Path) -> list[str]:
    """Return the tool results that the agent has received."""
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    return [message["content"] for message in map(json.loads, lines) if message["role"] == "tool"]


def list_children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@EVERY_ERA
async def test_an_agent_in_a_worker_uses_its_tools_there_in_its_own_session(mode: str, tmp_path: Path) -> None:
    messages: list[str | None] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    bridge = serve(tmp_path, {"calls": [{"name": "where"}, {"name": "where", "arguments": {"n": 1}}]}, "Done.")
    async with connect(bridge, mode=mode) as client:
        result = await client.call_tool("run_agent", {"task": "Where?"}, progress_callback=report)
    [first, second] = list_results(tmp_path)
    assert first == second
    process, session = first.split()
    assert int(process) != os.getpid()
    assert (tmp_path / f"{session}.jsonl").exists()
    assert get_texts(result)[0] == "Done."
    assert result.structured_content["usage"]["total_tokens"] > 0
    assert {"The agent runs the tool 'where'.", "Done."} <= set(messages)


async def test_a_conversation_continues_in_the_worker_that_has_it(tmp_path: Path) -> None:
    """Two conversations meet, so they are in two workers."""
    results: dict[str, Any] = {}
    async with connect(
        serve(tmp_path, make_call_response("meets"), "One.", make_call_response("where"), "Two.", workers=2)
    ) as client:

        async def talk(name: str) -> None:
            first = (await client.call_tool("run_agent", {"task": "Meet."})).structured_content
            second = await client.call_tool("run_agent", {"task": "Go on.", "session": first["session"]})
            results[name] = [first["text"], second.structured_content["text"]]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk, "a")
            tasks.start_soon(talk, "b")
    assert results == {"a": ["One.", "Two."], "b": ["One.", "Two."]}
    processes = [result.split()[0] for result in list_results(tmp_path)]
    assert processes[0] == processes[1] != processes[2] == processes[3]


async def test_tasks_of_one_conversation_wait_for_its_worker(tmp_path: Path) -> None:
    async with connect(serve(tmp_path, "One.", make_call_response("where"), "Two.", "Three.", workers=3)) as client:
        handle = (await client.call_tool("run_agent", {"task": "Count."})).structured_content["session"]
        results: list[str] = []

        async def go_on() -> None:
            result = await client.call_tool("run_agent", {"task": "Go on.", "session": handle})
            results.append(result.structured_content["text"])

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(go_on)
    assert sorted(results) == ["Three.", "Two."]


async def test_a_conversation_in_a_worker_belongs_to_its_first_principal(tmp_path: Path) -> None:
    bridge = serve(tmp_path, "One.", "Two.")

    async def run(principal: str, **arguments: Any) -> Any:
        ctx = RunningCall(principal=principal, session=f"principal/{principal}")
        return await bridge.registry.dispatch(ToolCall(id="1", name="run_agent", arguments=arguments), ctx)

    async with bridge.run_sources():
        await bridge.wait_until_started()
        handle = (await run("anna", task="Count.")).output["session"]
        assert (await run("ben", task="Go on.", session=handle)).code == "session_not_found"
        assert (await run("anna", task="Go on.", session=handle)).output["text"] == "Two."


async def test_the_bridge_validates_the_calls_of_an_agent_in_a_worker(tmp_path: Path) -> None:
    async with connect(serve(tmp_path, make_call_response("where", n="one"), "Done.")) as client:
        await client.call_tool("run_agent", {"task": "Where?"})
    [result] = list_results(tmp_path)
    assert "Input validation failed for tool 'where'" in result


@EVERY_ERA
@pytest.mark.parametrize(("choice", "runs"), [("Allow once", True), ("Deny", False)])
async def test_the_user_approves_calls_of_an_agent_in_a_worker(
    mode: str, choice: str, runs: bool, tmp_path: Path
) -> None:
    user = ScriptedUser(choice)
    async with connect(
        serve(tmp_path, make_call_response("blocks"), "Done."), mode=mode, elicitation_callback=user
    ) as client:
        result = await client.call_tool("run_agent", {"task": "Where?"})
    [read] = list_results(tmp_path)
    assert user.prompts == ["May it?"]
    assert read.startswith("Error: Tool 'blocks' was not approved") != runs
    assert get_texts(result)[0] == "Done."


@EVERY_ERA
async def test_the_model_of_the_client_runs_an_agent_in_a_worker(mode: str, tmp_path: Path) -> None:
    requests: list[types.CreateMessageRequestParams] = []

    async def sample(context: Any, params: types.CreateMessageRequestParams) -> Any:
        requests.append(params)
        response = types.TextContent(type="text", text="Done.")
        use = types.ToolUseContent(type="tool_use", id="call_1", name="where", input={})
        content: list[Any] = [use] if len(requests) == 1 else [response]
        return types.CreateMessageResultWithTools(role="assistant", content=content, model="client-model")

    capabilities = types.SamplingCapability(tools=types.SamplingToolsCapability())
    bridge = serve(tmp_path, providers=[{"module": "provider-sampling"}])
    async with connect(bridge, mode=mode, sampling_callback=sample, sampling_capabilities=capabilities) as client:
        result = await client.call_tool("run_agent", {"task": "Where?"})
    assert get_texts(result)[0] == "Done."
    assert [message.role for message in requests[1].messages] == ["user", "assistant", "user"]
    assert len(list_results(tmp_path)) == 1


@EVERY_ERA
async def test_cancelling_the_call_ends_the_run_in_the_worker(mode: str, tmp_path: Path) -> None:
    responses = [make_call_response("slow"), "One.", make_call_response("slow")]
    async with connect(serve(tmp_path, *responses), mode=mode) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "run_agent", {"task": "Wait."})
            assert await wait_for((tmp_path / "began").exists, 30)
            tasks.cancel_scope.cancel()
        assert await wait_for((tmp_path / "ended").exists, 10)
        process = int((tmp_path / "began").read_text())
        async with anyio.create_task_group() as tasks:
            (tmp_path / "began").unlink()
            tasks.start_soon(client.call_tool, "run_agent", {"task": "Wait."})
            assert await wait_for((tmp_path / "began").exists, 30)
            assert int((tmp_path / "began").read_text() or process) == process, "another worker was needed"
            tasks.cancel_scope.cancel()
    assert await wait_for(lambda: not psutil.pid_exists(process), 10)


async def test_a_call_that_waits_for_the_worker_of_its_conversation_can_be_cancelled(tmp_path: Path) -> None:
    async with connect(serve(tmp_path, "One.", make_call_response("slow"), "Two.", workers=3)) as client:
        handle = (await client.call_tool("run_agent", {"task": "Count."})).structured_content["session"]

        async def go_on(tasks: TaskGroup) -> None:
            tasks.start_soon(client.call_tool, "run_agent", {"task": "Go on.", "session": handle})

        async with anyio.create_task_group() as running, anyio.create_task_group() as waiting:
            await go_on(running)
            assert await wait_for((tmp_path / "began").exists, 30)
            await go_on(waiting)
            await anyio.wait_all_tasks_blocked()
            waiting.cancel_scope.cancel()
            running.cancel_scope.cancel()
        assert await wait_for((tmp_path / "ended").exists, 10)
        (tmp_path / "began").unlink()
        result = await client.call_tool("run_agent", {"task": "Count.", "session": handle})
    assert get_texts(result)[0] == "Two."
    assert not (tmp_path / "began").exists()


async def test_a_worker_with_a_conversation_does_not_stop_when_it_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_TIMEOUT", 0.05)
    async with connect(serve(tmp_path, make_call_response("meets"), "One.", "Two.", workers=2)) as client:
        handles: list[str] = []

        async def begin() -> None:
            result = await client.call_tool("run_agent", {"task": "Meet."})
            handles.append(result.structured_content["session"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(begin)
            tasks.start_soon(begin)
        # An idle worker would stop between these calls.
        for _ in range(2):
            await anyio.sleep(0.2)
            for handle in handles:
                result = await client.call_tool("run_agent", {"task": "Go on.", "session": handle})
                assert get_texts(result)[0] == "Two."


async def test_a_crash_in_the_middle_of_a_run_is_reported_and_the_next_run_works(tmp_path: Path) -> None:
    async with connect(serve(tmp_path, "One.", make_call_response("crashes"), "Two.")) as client:
        handle = (await client.call_tool("run_agent", {"task": "Count."})).structured_content["session"]
        failure = await client.call_tool("run_agent", {"task": "Go on.", "session": handle})
        result = await client.call_tool("run_agent", {"task": "Go on.", "session": handle})
        second_result = await client.call_tool("run_agent", {"task": "Count."})
    assert get_code(failure) == "tool_crashed"
    assert "run_agent" in get_texts(failure)[0]
    # The conversation continues from the file of its context.
    assert not result.is_error
    assert get_texts(second_result)[0] == "One."


@pytest.mark.parametrize("how", ["server", "scope"])
async def test_a_call_that_is_cancelled_at_any_step_leaves_no_process_and_no_call(how: str, tmp_path: Path) -> None:
    """The conversation continues in the same worker. A worker takes one call at a time."""
    both = {"calls": [{"name": "where"}, {"name": "where", "arguments": {"n": 1}}]}
    bridge = serve(tmp_path, *[both, "Done."] * 100)
    results: list[Any] = []

    async def run(**arguments: Any) -> None:
        call = ToolCall(id="1", name="run_agent", arguments={"task": "Go on.", **arguments})
        results.append(await bridge.registry.dispatch(call, RunningCall(session="one")))

    earlier = list_children()
    with anyio.fail_after(TIMEOUT):
        async with bridge.run_sources():
            await bridge.wait_until_started()
            await run()
            await run(session=results[0].output["session"])
            processes, number = list_children() - earlier, 0
            while not await cancel_at_step(number, partial(run, session=results[0].output["session"]), how):
                number += 1
            await run(session=results[0].output["session"])
            assert list_children() - earlier == processes
        assert await wait_for(lambda: not processes & list_children(), 10)
    # How many steps there are depends on how many messages of the worker arrive together.
    assert number > 1
    assert [result.output and result.output["text"] for result in results] == ["Done."] * len(results)
    assert len(set(list_results(tmp_path)) - {INCOMPLETE}) == 1
