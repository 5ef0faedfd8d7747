"""Cancelling the call of an agent at any moment leaves nothing behind, and its conversation continues."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcp_bridge import CallContext, ToolCall
from mcp_bridge._contracts.question import Answer
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.amplifier.agent.agent_tools import AgentCall
from mcp_bridge._runtime.cancellation import CancellableBlock
from mcp_bridge._runtime.worker_threads import HOST_NAME
from mcp_bridge.amplifier.testing import wait_for
from tests.integrations.amplifier.agent.test_agent_tool import name_module
from tests.kits.amplifier.amplifier_plans import ServedPlan
from tests.kits.amplifier.cancel_steps import cancel_at_step
from tests.kits.amplifier.messages_provider import MODULE
from tests.kits.amplifier.model_server import ModelServer, Reply, serve_model
from tests.kits.hooks.hooks_kit import ScriptedUser
from tests.kits.loops import BOTH_LOOPS

TOOLS = """
import anyio
RUNNING = []

class Waits:
    description = "Take a moment."
    input_schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    def __init__(self, name):
        self.name = name

    async def execute(self, input):
        RUNNING.append(self.name)
        try:
            await anyio.sleep(0)
            return ToolResult(output=f"{self.name}: " + "a long result " * 150)
        finally:
            RUNNING.remove(self.name)

class Blocks(Waits):
    def execute(self, input):
        RUNNING.append(self.name)
        try:
            return ToolResult(output="read")
        finally:
            RUNNING.remove(self.name)

async def mount(coordinator, config):
    for tool in (Waits("first"), Waits("second"), Blocks("third")):
        await coordinator.mount("tools", tool)

    async def decide(event, data):
        # After the end of the agent, its conversation remains.
        if data.get("tool_name") != "run_agent":
            await anyio.sleep(0)
        if event == "tool:pre" and data["tool_name"] == "first":
            return HookResult(action="ask_user", approval_prompt="May it?")
        return HookResult()

    for event in ("tool:pre", "tool:post", "provider:request", "context:pre_compact"):
        coordinator.hooks.register(event, decide)
"""
MESSAGE: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
    "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 5},
}  # fmt: skip


def make_stream(text: str, *tools: str, number: int = 0) -> Reply:
    """Return a streamed response with text and calls of these tools."""
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"type": "text", "text": ""}, {"type": "text_delta", "text": text})
    ]
    for tool in tools:
        call = {"type": "tool_use", "id": f"{tool}_{number}", "name": tool, "input": {}}
        blocks.append((call, {"type": "input_json_delta", "partial_json": json.dumps({"n": number})}))
    events: list[Any] = [{"type": "message_start", "message": MESSAGE}]
    for index, (block, delta) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    reason = {"stop_reason": "tool_use" if tools else "end_turn"}
    return Reply(
        [*events, {"type": "message_delta", "delta": reason, "usage": {"output_tokens": 7}}, {"type": "message_stop"}]
    )


class AgentModel(ModelServer):
    """Requests three tools concurrently, and then responds. Rejects the same histories as the real API."""

    def respond(self, body: Mapping[str, Any]) -> Reply:
        messages = body["messages"]
        for before, after in zip(messages, [*messages[1:], {"content": []}], strict=True):
            calls = {block["id"] for block in before["content"] if block["type"] == "tool_use"}
            results = {block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"}
            assert calls == results, f"calls without results: {messages}"
        if messages[-1]["content"][-1]["type"] == "tool_result":
            return make_stream("Done.")
        return make_stream("I look.", "first", "second", "third", number=len(self.requests))


class AskedContext(RunningCall):
    """A call with the approval of the user."""

    open_questions = 0

    async def put(self, questions: Mapping[str, Any]) -> Mapping[str, Any]:
        type(self).open_questions += 1
        try:
            await anyio.lowlevel.checkpoint()
            return {key: Answer(action="accept", content={"value": "Allow"}, data=("Allow")) for key in questions}
        finally:
            type(self).open_questions -= 1

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return {"elicitation": {"form": {}}}


def serve(folder: Path, url: str, **plan: Any) -> ServedPlan:
    name, model = name_module(folder, "tools"), name_module(folder, "model")
    context = {"path": str(folder / "{session_id}.jsonl")}
    provider = {"base_url": url, "api_key": "sk-ant-x", "context_window": 5000, "max_tokens": 500, "max_retries": 0}
    whole: dict[str, Any] = {
        "session": {"orchestrator": "loop-streaming", "context": {"module": "context-persistent", "config": context}},
        "providers": [{"module": model, "config": provider}],
        "tools": [{"module": name}],
        **plan,
    }
    return ServedPlan(folder, {name: TOOLS, model: MODULE}, **whole)


async def call_agent(server: ServedPlan, **arguments: Any) -> Any:
    ctx = AskedContext(request_id="1", protocol_version="2025-11-25")
    return await server.bridge.registry.dispatch(ToolCall(id="1", name="run_agent", arguments=arguments), ctx)


def count_tasks() -> int:
    """Count the tasks except those that keep idle threads."""
    return sum(task.name != HOST_NAME for task in anyio.get_running_tasks())


async def check_nothing_is_left(server: ServedPlan, model: ModelServer, tasks: int) -> None:
    """Fail if a task, a request, a thread, a tool, a lease or a question of a cancelled call remains."""
    sessions = server.source.sessions
    running = server.coordinator.get("tools")["first"].execute.__globals__["RUNNING"]

    def list_rest() -> dict[str, Any]:
        leases = sum(session.calls for session in [*sessions._sessions.values(), sessions.first])
        threads = anyio.to_thread.current_default_thread_limiter().borrowed_tokens
        remains = {
            "tasks": anyio.get_running_tasks() if count_tasks() > tasks else [],
            "requests": model.open,
            "threads": threads + len(server.bridge.registry.pipeline.threads.stuck),
            "tools": list(running),
            "leases": leases,
            "questions": AskedContext.open_questions,
        }
        return {key: value for key, value in remains.items() if value}

    assert await wait_for(lambda: not list_rest(), 5), list_rest()


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Return the messages in the only file."""
    [file] = folder.glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def find_context(server: ServedPlan, handle: str) -> Any:
    key = AgentCall(RunningCall(), handle).state_key
    [found] = [
        entry for name, entry in server.source.sessions._sessions.items() if name.endswith(key.rpartition("/")[2])
    ]
    return found.session.coordinator.get("context")


BOTH_WAYS = pytest.mark.parametrize("how", ["server", "scope"])


@BOTH_WAYS
@BOTH_LOOPS
async def test_a_call_that_is_cancelled_at_any_step_leaves_nothing_behind(how: str, tmp_path: Path) -> None:
    results: list[Any] = []
    with serve_model(model=AgentModel([])) as model:
        server = serve(tmp_path, model.url)
        async with server.run_bridge():

            async def run() -> None:
                results.append(await call_agent(server, task="Go on.", session=handle))

            results.append(await call_agent(server, task="Begin."))
            handle, tasks, number = results[0].output["session"], count_tasks(), 0
            while not await cancel_at_step(number, run, how):
                await check_nothing_is_left(server, model, tasks)
                number += 1
            await run()
            history = await find_context(server, handle).get_messages()
    assert number > 5
    assert [result.output["text"] for result in results] == ["Done."] * 3
    assert history == read_history(tmp_path)
    calls = [call["id"] for message in history for call in message.get("tool_calls") or ()]
    assert sorted(calls) == sorted(message["tool_call_id"] for message in history if message["role"] == "tool")


@BOTH_WAYS
@BOTH_LOOPS
async def test_a_new_conversation_ends_if_its_first_call_is_cancelled(how: str, tmp_path: Path) -> None:
    results: list[Any] = []
    with serve_model(model=AgentModel([])) as model:
        server = serve(tmp_path, model.url)
        async with server.run_bridge():

            async def run() -> None:
                results.append(await call_agent(server, task="Begin."))

            # Create the sessions of the client and of this conversation.
            await call_agent(server, task="Begin.")
            tasks, sessions, number = count_tasks(), server.source.sessions.in_use, 0
            while not await cancel_at_step(number, run, how):
                await check_nothing_is_left(server, model, tasks)
                assert server.source.sessions.in_use == sessions
                number += 1
    assert [result.output["text"] for result in results] == ["Done."]


@BOTH_LOOPS
async def test_a_client_that_cancels_at_any_moment_leaves_nothing_at_the_server(tmp_path: Path) -> None:
    """Every fourth step of the client and the server together."""
    results: list[Any] = []
    with serve_model(model=AgentModel([])) as model:
        server = serve(tmp_path, model.url)
        async with server.connect(mode="legacy", elicitation_callback=ScriptedUser("Allow")) as client:

            async def run() -> None:
                results.append(await client.call_tool("run_agent", {"task": "Go on.", **result}))

            result: dict[str, str] = {}
            await run()
            result["session"] = results[0].structured_content["session"]
            tasks, number = count_tasks(), 0
            while not await cancel_at_step(number, run, "scope"):
                await check_nothing_is_left(server, model, tasks)
                number += 4
            await run()
    assert number > 5
    assert [each.structured_content["text"] for each in results] == ["Done."] * 3


@BOTH_WAYS
@BOTH_LOOPS
async def test_cancelling_closes_the_request_to_a_model_that_is_silent(how: str, tmp_path: Path) -> None:
    reply = make_stream("I thi", "first")
    reply.body, reply.is_endless = reply.body[:3], True
    with serve_model(reply, make_stream("Here I am.")) as model:
        server = serve(tmp_path, model.url)
        async with server.run_bridge(), anyio.create_task_group() as tasks:
            block: Any = CancellableBlock() if how == "server" else anyio.CancelScope()

            async def run() -> None:
                with block:
                    await call_agent(server, task="Begin.")

            tasks.start_soon(run)
            assert await wait_for(lambda: model.open == 1 and len(model.requests) == 1, 10)
            block.cancel()
            assert await wait_for(lambda: model.open == 0, 10)
            assert (await call_agent(server, task="Begin.")).output["text"] == "Here I am."


@BOTH_LOOPS
async def test_a_thread_that_outlasts_its_call_does_not_begin_the_conversation_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_entered, is_released = threading.Event(), threading.Event()
    with serve_model(model=AgentModel([])) as model:
        server = serve(tmp_path, model.url)
        async with server.run_bridge(), anyio.create_task_group() as tasks:
            await call_agent(server, task="Begin.")
            before = count_tasks()
            find = server.source.sessions.find

            def find_late(ctx: CallContext) -> Any:
                if threading.current_thread() is not threading.main_thread():
                    has_entered.set()
                    is_released.wait(10)
                return find(ctx)

            monkeypatch.setattr(server.source.sessions, "find", find_late)
            tasks.start_soon(partial(call_agent, server, task="Begin."))
            assert await wait_for(has_entered.is_set, 10)
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                try:
                    assert await wait_for(lambda: count_tasks() == before, 10)
                finally:
                    is_released.set()
                await check_nothing_is_left(server, model, before)
