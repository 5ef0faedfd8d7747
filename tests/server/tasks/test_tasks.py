"""Calls that continue as tasks: io.modelcontextprotocol/tasks (SEP-2663)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, Form, ToolError, ToolRegistry
from mcp_bridge._contracts.tasks import TASKS
from mcp_bridge._engine.authoring import tool
from mcp_bridge.questions import NeedsInput
from mcp_bridge.tasks import TaskOptions, ToolTasks
from tests.client.raw_client import Json
from tests.kits.constants import HANDSHAKE, TIMEOUT
from tests.kits.questions.asking_kit import (
    ALL_CAPABILITIES,
    NAME_SCHEMA,
    accept,
    get_code,
    get_text,
    make_registry,
    serve_client,
)
from tests.kits.questions.task_kit import (  # noqa: F401 - fixtures
    AT_ONCE,
    EVERY_ENGINE,
    TASK_CAPABILITIES,
    create_task,
    fetch_task,
    make_task_bridge,
    redis_process,
    redis_server,
    set_engine_url,
)

pytestmark = EVERY_ENGINE


async def test_a_call_becomes_a_task_whose_result_the_client_fetches() -> None:
    registry, release = ToolRegistry(), anyio.Event()

    @tool(registry=registry)
    async def work(ctx: CallContext) -> str:
        await ctx.report_progress(1, 4, "counting")
        await release.wait()
        return "four"

    async with serve_client(make_task_bridge(registry), capabilities=TASK_CAPABILITIES) as client:
        creation = (await client.request("tools/call", {"name": "work"}))["result"]
        assert creation["status"] == "working"
        assert creation["ttlMs"] == 86_400_000
        assert creation["pollIntervalMs"] == 10
        with anyio.fail_after(TIMEOUT):
            while (await fetch_task(client, creation["taskId"], "working")).get("statusMessage") != "counting":
                pass
        release.set()
        task = await fetch_task(client, creation["taskId"])
        assert task["resultType"] == "complete"
        assert get_text(task["result"]) == "four"


async def test_a_short_call_has_an_ordinary_result_and_leaves_no_task() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def work() -> str:
        return "done"

    async with serve_client(
        make_task_bridge(registry, TaskOptions(after=TIMEOUT, most=1)), capabilities=TASK_CAPABILITIES
    ) as client:
        for _ in range(3):
            result = (await client.request("tools/call", {"name": "work"}))["result"]
            assert result["resultType"] == "complete"
            assert get_text(result) == "done"


async def test_a_call_that_is_an_ordinary_one_so_far_reports_progress_and_asks_as_one() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def work(ctx: CallContext) -> str:
        await ctx.report_progress(1, message="before the question")
        return f"Hello, {(await ctx.ask('Who?', NAME_SCHEMA, key='name')).content['name']}"

    async with serve_client(
        make_task_bridge(registry, TaskOptions(after=TIMEOUT)), capabilities=TASK_CAPABILITIES
    ) as client:
        call = client.start_call("work")
        questions = await call.get_questions(meta={"progressToken": "p"})
        progress = await client.receive(lambda message: message.get("method") == "notifications/progress")
        assert progress["params"]["message"] == "before the question"
        assert get_text(await call.get_result({key: accept(name="Ada") for key in questions})) == "Hello, Ada"


async def test_a_call_that_has_asked_can_still_become_a_task() -> None:
    registry, release = ToolRegistry(), anyio.Event()

    @tool(registry=registry)
    async def work(ctx: CallContext) -> str:
        name = (await ctx.ask("Who?", NAME_SCHEMA)).content["name"]
        await release.wait()
        return f"Hello, {name}"

    async with serve_client(
        make_task_bridge(registry, TaskOptions(after=2.0)), capabilities=TASK_CAPABILITIES
    ) as client:
        call = client.start_call("work")
        questions = await call.get_questions()
        creation = (await call.exchange({key: accept(name="Ada") for key in questions}))["result"]
        assert creation["resultType"] == "task"
        assert "requestState" not in creation
        release.set()
        assert get_text((await fetch_task(client, creation["taskId"]))["result"]) == "Hello, Ada"


@pytest.mark.parametrize("style", ["asks", "returns"])
async def test_questions_of_a_task_are_answered_with_tasks_update(style: str) -> None:
    registry = ToolRegistry()
    questions = {"first": Form("First name?", NAME_SCHEMA), "second": Form("Second name?", NAME_SCHEMA)}

    @tool(registry=registry)
    async def asks(ctx: CallContext) -> str:
        answers = await ctx.put(questions)
        return " ".join(answers[key].content["name"] for key in questions)

    @tool(registry=registry)
    async def returns(ctx: CallContext) -> Any:
        if not ctx.answers:
            return NeedsInput(questions)
        return " ".join(ctx.answers[key].content["name"] for key in questions)

    async with serve_client(make_task_bridge(registry), capabilities=TASK_CAPABILITIES) as client:
        task = await create_task(client, style)
        asked = (await fetch_task(client, task, "input_required"))["inputRequests"]
        assert [item["method"] for item in asked.values()] == ["elicitation/create"] * 2
        update = {"taskId": task, "inputResponses": {"first": accept(name="Ada"), "unknown": accept(name="Eve")}}
        assert (await client.request("tasks/update", update))["result"]["resultType"] == "complete"
        assert list((await fetch_task(client, task, "input_required"))["inputRequests"]) == ["second"]
        await client.request("tasks/update", {"taskId": task, "inputResponses": {"second": accept(name="Lovelace")}})
        assert get_text((await fetch_task(client, task))["result"]) == "Ada Lovelace"


async def test_a_question_is_asked_again_under_another_key_after_an_invalid_answer() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def work(ctx: CallContext) -> str:
        return (await ctx.ask("Who?", NAME_SCHEMA, key="name")).content["name"]

    async with serve_client(make_task_bridge(registry), capabilities=TASK_CAPABILITIES) as client:
        task = await create_task(client, "work")
        await fetch_task(client, task, "input_required")
        await client.request("tasks/update", {"taskId": task, "inputResponses": {"name": accept(name="A")}})
        (key,) = (await fetch_task(client, task, "input_required"))["inputRequests"]
        assert key != "name"
        await client.request("tasks/update", {"taskId": task, "inputResponses": {key: accept(name="Ada")}})
        assert get_text((await fetch_task(client, task))["result"]) == "Ada"


async def test_an_error_of_the_tool_completes_and_an_error_of_the_protocol_fails() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def fail() -> str:
        raise ToolError("no paper")

    @tool(registry=registry)
    async def look(ctx: CallContext) -> str:
        return str(await ctx.roots())

    async with serve_client(make_task_bridge(registry), capabilities={"extensions": {TASKS: {}}}) as client:
        failure = await fetch_task(client, await create_task(client, "fail"))
        assert failure["status"] == "completed"
        assert failure["result"]["isError"]
        broken = await fetch_task(client, await create_task(client, "look"))
        assert broken["status"] == "failed"
        assert broken["error"]["code"] == -32021
        assert "result" not in broken


async def test_cancelling_a_task_cancels_its_call() -> None:
    registry, starts, ends = ToolRegistry(), anyio.Event(), anyio.Event()

    @tool(registry=registry)
    async def work() -> str:
        starts.set()
        try:
            await anyio.sleep_forever()
        finally:
            ends.set()

    async with serve_client(make_task_bridge(registry), capabilities=TASK_CAPABILITIES) as client:
        task = await create_task(client, "work")
        with anyio.fail_after(TIMEOUT):
            await starts.wait()
        # The second cancellation is of a task that has ended.
        for _ in range(2):
            answer = (await client.request("tasks/cancel", {"taskId": task}))["result"]
            assert answer["resultType"] == "complete"
        with anyio.fail_after(TIMEOUT):
            await ends.wait()
        assert (await fetch_task(client, task))["status"] == "cancelled"


async def test_cancelling_the_request_before_there_is_a_task_cancels_the_call() -> None:
    registry, starts, ends = ToolRegistry(), anyio.Event(), anyio.Event()

    @tool(registry=registry)
    async def work() -> str:
        starts.set()
        try:
            await anyio.sleep_forever()
        finally:
            ends.set()

    async with serve_client(
        make_task_bridge(registry, TaskOptions(after=TIMEOUT)), capabilities=TASK_CAPABILITIES
    ) as client:
        number = await client.send_request("tools/call", {"name": "work"})
        with anyio.fail_after(TIMEOUT):
            await starts.wait()
            await client.cancel(number)
            await ends.wait()


async def test_an_unknown_and_an_expired_task_are_the_same_error() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def work() -> str:
        return "done"

    async with serve_client(
        make_task_bridge(registry, AT_ONCE._replace(ttl=1.0)), capabilities=TASK_CAPABILITIES
    ) as client:
        task = await create_task(client, "work")
        assert len(task) >= 43
        with anyio.fail_after(TIMEOUT):
            while "result" in await client.request("tasks/get", {"taskId": task}):
                pass
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            errors = [
                (await client.request(method, {"taskId": item, "inputResponses": {}}))["error"]
                for item in (task, "x" * 43)
            ]
            assert errors[0] == errors[1]
            assert errors[0]["code"] == -32602


async def test_a_client_has_to_declare_the_extension_in_each_request() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def work() -> str:
        return "done"

    @tool(registry=registry)
    async def needs_task() -> str:
        return "done"

    options = TaskOptions(tools={"needs_task": ToolTasks(mode="required"), "*": ToolTasks(after=0)})
    async with serve_client(make_task_bridge(registry, options)) as client:
        assert get_text((await client.request("tools/call", {"name": "work"}))["result"]) == "done"
        for method, params in (
            ("tools/call", {"name": "needs_task"}),
            ("tasks/get", {"taskId": "x"}),
            ("tasks/update", {"taskId": "x", "inputResponses": {}}),
            ("tasks/cancel", {"taskId": "x"}),
        ):
            error = (await client.request(method, params))["error"]
            assert error["code"] == -32021
            assert error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


async def test_handshake_clients_get_ordinary_results() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def work() -> str:
        return "done"

    @tool(registry=registry)
    async def needs_task() -> str:
        return "done"

    options = TaskOptions(tools={"needs_task": ToolTasks(mode="required"), "*": ToolTasks(after=0)})
    async with serve_client(
        make_task_bridge(registry, options), version=HANDSHAKE, capabilities=TASK_CAPABILITIES
    ) as client:
        assert get_text((await client.request("tools/call", {"name": "work"}))["result"]) == "done"
        assert get_code((await client.request("tools/call", {"name": "needs_task"}))["result"]) == "missing_capability"
        assert (await client.request("tasks/get", {"taskId": "x"}))["error"]["code"] == -32601


async def test_a_server_without_tasks_declares_none() -> None:
    async with serve_client(ToolRegistry(), capabilities=TASK_CAPABILITIES) as client:
        assert "extensions" not in (await client.request("server/discover", {}))["result"]["capabilities"]
        assert (await client.request("tasks/get", {"taskId": "x"}))["error"]["code"] == -32601
    async with serve_client(make_task_bridge(ToolRegistry()), capabilities=TASK_CAPABILITIES) as client:
        assert (await client.request("server/discover", {}))["result"]["capabilities"]["extensions"] == {TASKS: {}}


async def test_too_many_tasks_are_rejected() -> None:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def work() -> str:
        await anyio.sleep_forever()

    async with serve_client(
        make_task_bridge(registry, AT_ONCE._replace(most=2)), capabilities=TASK_CAPABILITIES
    ) as client:
        tasks = [await create_task(client, "work") for _ in range(2)]
        assert get_code((await client.request("tools/call", {"name": "work"}))["result"]) == "overloaded"
        for task in tasks:
            await client.request("tasks/cancel", {"taskId": task})


async def test_a_task_that_is_cancelled_while_it_starts_does_not_run_on() -> None:
    registry, running = ToolRegistry(), set[int]()

    @tool(registry=registry)
    async def work(number: int) -> str:
        running.add(number)
        try:
            await anyio.sleep_forever()
        finally:
            running.remove(number)

    async with serve_client(make_task_bridge(registry), capabilities=TASK_CAPABILITIES) as client:
        for number in range(50):
            task = await create_task(client, "work", number=number)
            await anyio.sleep(number * 0.0002)
            await client.request("tasks/cancel", {"taskId": task})
        with anyio.fail_after(TIMEOUT):
            while running:  # noqa: ASYNC110 - the tasks end by themselves
                await anyio.sleep(0.01)


async def test_tasks_have_a_separate_time_limit() -> None:
    registry = make_registry(timeout=0.05)

    @tool(registry=registry)
    async def work(seconds: float) -> str:
        await anyio.sleep(seconds)
        return "done"

    options = TaskOptions(tools={"*": ToolTasks(after=0, timeout=1.5)})
    async with serve_client(make_task_bridge(registry, options), capabilities=TASK_CAPABILITIES) as client:
        assert get_text((await fetch_task(client, await create_task(client, "work", seconds=0.1)))["result"]) == "done"
        assert (
            get_code((await fetch_task(client, await create_task(client, "work", seconds=TIMEOUT)))["result"])
            == "timeout"
        )


async def test_a_client_that_listens_gets_the_state_of_its_tasks_at_once_and_after_each_change() -> None:
    registry, release = ToolRegistry(), anyio.Event()

    @tool(registry=registry)
    async def work(ctx: CallContext) -> str:
        await ctx.ask("Who?", NAME_SCHEMA, key="name")
        await release.wait()
        return "done"

    async with serve_client(make_task_bridge(registry), capabilities=TASK_CAPABILITIES) as client:
        task = await create_task(client, "work")
        await fetch_task(client, task, "input_required")
        number = await client.send_request(
            "subscriptions/listen", {"notifications": {"taskIds": [task, "unknown", task]}}
        )

        async def receive_status(status: str) -> Json:
            def fits(message: Json) -> bool:
                return message.get("method") == "notifications/tasks" and message["params"]["status"] == status

            return dict((await client.receive(fits))["params"])

        first = await receive_status("input_required")
        assert first.pop("_meta") == {"io.modelcontextprotocol/subscriptionId": number}
        fetched = await fetch_task(client, task, "input_required")
        assert first == {key: value for key, value in fetched.items() if key not in ("resultType", "_meta")}
        acknowledged = await client.receive(lambda message: "acknowledged" in message.get("method", ""))
        assert acknowledged["params"]["notifications"] == {"taskIds": [task]}
        await client.request("tasks/update", {"taskId": task, "inputResponses": {"name": accept(name="Ada")}})
        await receive_status("working")
        release.set()
        assert get_text((await receive_status("completed"))["result"]) == "done"


async def test_listening_to_tasks_needs_the_extension_and_valid_handles() -> None:
    async with serve_client(make_task_bridge(ToolRegistry()), capabilities=TASK_CAPABILITIES) as client:
        invalid = await client.request("subscriptions/listen", {"notifications": {"taskIds": [1]}})
        assert invalid["error"]["code"] == -32602
        client.capabilities = ALL_CAPABILITIES
        missing = await client.request("subscriptions/listen", {"notifications": {"taskIds": ["any"]}})
        assert missing["error"]["code"] == -32021
        assert missing["error"]["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
