"""A Redis that accepts requests and does not respond: the client gets an error, and its task never runs."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcp_bridge import ToolRegistry, tool
from mcp_bridge._storage.engines.redis_records import TaskRecords
from tests.kits.constants import TIMEOUT
from tests.kits.questions.asking_kit import make_bridge, serve_client
from tests.kits.questions.task_kit import AT_ONCE, TASK_CAPABILITIES, create_task, fetch_task
from tests.kits.redis_server import RedisServer, redis_process  # noqa: F401

pytestmark = pytest.mark.anyio
UNAVAILABLE = {"code": -32603, "message": "The server cannot reach its tasks now. Retry later."}


@pytest.mark.parametrize("is_stored", [False, True], ids=["before it is stored", "between storing and queueing"])
async def test_a_task_that_redis_cannot_create_in_time_is_an_error_and_never_runs(
    redis_process: RedisServer,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_stored: bool,
) -> None:
    registry, runs, abandoned = ToolRegistry(), list[str](), anyio.Event()
    create_record, abandon_record = TaskRecords.create_record, TaskRecords.abandon_record

    @tool(registry=registry)
    async def work(label: str) -> None:
        runs.append(label)

    async def freeze_and_create(records: TaskRecords, *args: Any) -> bool:
        if not is_stored:
            redis_process.freeze()
        result = await create_record(records, *args)
        redis_process.freeze()
        return result

    async def abandon_and_report(records: TaskRecords, *args: Any) -> None:
        await abandon_record(records, *args)
        abandoned.set()

    monkeypatch.setattr("mcp_bridge._storage.engines.redis.SUBMIT_TIMEOUT", 1.0)
    monkeypatch.setattr(TaskRecords, "abandon_record", abandon_and_report)
    async with serve_client(
        make_bridge(registry, tasks=AT_ONCE._replace(url=redis_process.url)), capabilities=TASK_CAPABILITIES
    ) as client:
        await fetch_task(client, await create_task(client, "work", label="first"))
        with monkeypatch.context() as freezing, anyio.fail_after(TIMEOUT):
            freezing.setattr(TaskRecords, "create_record", freeze_and_create)
            try:
                response = await client.request("tools/call", {"name": "work", "arguments": {"label": "frozen"}})
            finally:
                redis_process.resume()
            await abandoned.wait()
        assert response["error"] == UNAVAILABLE
        await fetch_task(client, await create_task(client, "work", label="last"))
    assert runs == ["first", "last"]
