"""The engine retries failed tasks, if their tools allow that."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, ToolError, ToolRegistry
from mcp_bridge.tasks import TaskOptions, ToolTasks
from tests.kits.constants import TIMEOUT
from tests.kits.questions.asking_kit import NAME_SCHEMA, accept, get_code, get_text, serve_client
from tests.kits.questions.task_kit import (  # noqa: F401 - fixtures
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
AT_ONCE = TaskOptions(poll=0.01, after=0, backoff=0)
TWICE = ToolTasks(retries=2)
RUNS = "mcp-bridge/runs"


async def test_a_failed_task_is_retried_and_its_result_counts_the_attempts() -> None:
    registry, keys = ToolRegistry(), set[str | None]()

    @registry.tool(tasks=TWICE)
    async def work(ctx: CallContext) -> int:
        keys.add(ctx.idempotency_key)
        await ctx.report_progress(1)
        if ctx.attempt < 3:
            raise ConnectionError("the service is away")
        return ctx.attempt

    async with serve_client(make_task_bridge(registry, AT_ONCE), capabilities=TASK_CAPABILITIES) as client:
        task = await fetch_task(client, await create_task(client, "work"))
        assert task["result"]["structuredContent"] == 3
        assert task["result"]["_meta"][RUNS] == 3
        assert len(keys) == 1


async def test_after_the_last_retry_the_failure_is_the_result() -> None:
    registry, attempts = ToolRegistry(), list[int]()

    @registry.tool(tasks=TWICE)
    async def work(ctx: CallContext) -> None:
        attempts.append(ctx.attempt)
        raise ConnectionError("the service is away")

    async with serve_client(make_task_bridge(registry, AT_ONCE), capabilities=TASK_CAPABILITIES) as client:
        task = await fetch_task(client, await create_task(client, "work"))
        assert task["status"] == "completed"
        assert get_code(task["result"]) == "internal_error"
        assert "statusMessage" not in task, "no next attempt is announced"
        assert attempts == [1, 2, 3]


@pytest.mark.parametrize(
    "options", [{}, {"idempotent": True}, {"read_only": True}, {"idempotent": True, "tasks": ToolTasks(retries=0)}]
)
async def test_only_tools_that_declare_retries_are_retried(options: dict[str, Any]) -> None:
    registry, attempts = ToolRegistry(), list[int]()

    @registry.tool(**options)
    async def work(ctx: CallContext) -> None:
        attempts.append(ctx.attempt)
        raise ConnectionError

    async with serve_client(make_task_bridge(registry, AT_ONCE), capabilities=TASK_CAPABILITIES) as client:
        await fetch_task(client, await create_task(client, "work"))
        assert attempts == [1]


async def test_what_would_fail_again_is_not_attempted_again() -> None:
    registry, attempts = ToolRegistry(), list[int]()

    @registry.tool(tasks=TWICE)
    async def report(ctx: CallContext) -> None:
        attempts.append(ctx.attempt)
        raise ToolError("no such city")

    @registry.tool(tasks=TWICE)
    async def count(number: int, ctx: CallContext) -> None:
        attempts.append(ctx.attempt)

    async with serve_client(make_task_bridge(registry, AT_ONCE), capabilities=TASK_CAPABILITIES) as client:
        assert get_code((await fetch_task(client, await create_task(client, "report")))["result"]) == "tool_error"
        assert attempts == [1]
        assert (
            get_code((await fetch_task(client, await create_task(client, "count", number="x")))["result"])
            == "invalid_arguments"
        )
        assert attempts == [1]


async def test_the_time_limit_is_that_of_each_attempt() -> None:
    registry = ToolRegistry()

    @registry.tool(tasks=ToolTasks(retries=1, timeout=0.2))
    async def work(ctx: CallContext) -> str:
        if ctx.attempt == 1:
            await anyio.sleep_forever()
        # This raises if the time of the first attempt counts.
        await anyio.lowlevel.checkpoint()
        return "done"

    async with serve_client(make_task_bridge(registry, AT_ONCE), capabilities=TASK_CAPABILITIES) as client:
        assert get_text((await fetch_task(client, await create_task(client, "work")))["result"]) == "done"


async def test_a_task_that_waits_for_its_next_attempt_reports_it_and_can_be_cancelled() -> None:
    registry, attempts = ToolRegistry(), list[int]()

    @registry.tool(tasks=ToolTasks(retries=1, backoff=60.0))
    async def work(ctx: CallContext) -> None:
        attempts.append(ctx.attempt)
        raise ToolError("the service is away", code="tool_unavailable")

    async with serve_client(make_task_bridge(registry, AT_ONCE), capabilities=TASK_CAPABILITIES) as client:
        task = await create_task(client, "work")
        expected = "Attempt 1 of 2 failed, the next one starts in 60 s: the service is away"
        with anyio.fail_after(TIMEOUT):
            while (await fetch_task(client, task, "working")).get("statusMessage") != expected:
                pass
        await client.request("tasks/cancel", {"taskId": task})
        assert (await fetch_task(client, task))["status"] == "cancelled"
        assert attempts == [1]


async def test_an_ordinary_call_of_a_client_with_tasks_is_attempted_again_too() -> None:
    registry = ToolRegistry()

    @registry.tool(tasks=TWICE._replace(after=TIMEOUT))
    async def work(ctx: CallContext) -> int:
        await ctx.report_progress(ctx.attempt, message=f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise ConnectionError
        return ctx.attempt

    async with serve_client(make_task_bridge(registry, AT_ONCE), capabilities=TASK_CAPABILITIES) as client:
        result: Any = await client.start_call("work").get_result(meta={"progressToken": "p"})
        assert result["_meta"][RUNS] == 2
        assert get_text(result) == "2"


async def test_a_new_attempt_asks_again() -> None:
    registry = ToolRegistry()

    @registry.tool(tasks=TWICE)
    async def work(ctx: CallContext) -> str:
        name = (await ctx.ask("Who?", NAME_SCHEMA, key="name")).content["name"]
        if ctx.attempt == 1:
            raise ConnectionError
        return f"Hello, {name}"

    async with serve_client(make_task_bridge(registry, AT_ONCE), capabilities=TASK_CAPABILITIES) as client:
        task = await create_task(client, "work")
        for name in ("Ada", "Eve"):
            (key,) = (await fetch_task(client, task, "input_required"))["inputRequests"]
            await client.request("tasks/update", {"taskId": task, "inputResponses": {key: accept(name=name)}})
        assert get_text((await fetch_task(client, task))["result"]) == "Hello, Eve"


async def test_a_task_that_expires_while_it_waits_for_an_answer_frees_its_slot() -> None:
    registry = ToolRegistry()

    @registry.tool
    async def ask(ctx: CallContext) -> str:
        return str(await ctx.ask("Who?", NAME_SCHEMA))

    @registry.tool
    async def work() -> str:
        return "done"

    async with serve_client(
        make_task_bridge(registry, AT_ONCE._replace(ttl=2.0, concurrency=1)), capabilities=TASK_CAPABILITIES
    ) as client:
        task = await create_task(client, "ask")
        await fetch_task(client, task, "input_required")
        with anyio.fail_after(TIMEOUT):
            while "result" in await client.request("tasks/get", {"taskId": task}):
                pass
            while "result" not in (answer := (await create_and_look(client, "work"))):
                pass
        assert answer["status"] == "completed"


async def create_and_look(client: Any, name: str) -> Any:
    """Create a task, and return its state after a moment. It has no `result` if it does not run, or has expired."""
    task = await create_task(client, name)
    with anyio.move_on_after(0.5):
        return await fetch_task(client, task)
    return {}
