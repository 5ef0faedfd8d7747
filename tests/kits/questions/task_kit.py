"""For tests of tasks: bridges with each task engine, and a client that creates and fetches tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.tasks import MEMORY, TASKS
from mcp_bridge.tasks import TaskOptions, ToolTasks
from tests.client.raw_client import Json
from tests.client.stdio_client import StdioClient
from tests.kits.constants import TIMEOUT
from tests.kits.questions.asking_kit import ALL_CAPABILITIES, make_bridge
from tests.kits.redis_server import redis_process, redis_server  # noqa: F401

EVERY_ENGINE = pytest.mark.parametrize(
    ("anyio_backend", "engine"), [("asyncio", "memory"), ("trio", "memory"), ("asyncio", "redis")]
)
AT_ONCE = TaskOptions(poll=0.01, tools={"*": ToolTasks(after=0)})
TASK_CAPABILITIES: Json = {**ALL_CAPABILITIES, "extensions": {TASKS: {}}}


_urls: list[str] = []


@pytest.fixture(autouse=True)
def set_engine_url(engine: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """Set the URL of the task engine for the bridges of the test."""
    _urls.append(MEMORY if engine == "memory" else request.getfixturevalue("redis_server"))
    yield
    _urls.pop()


def make_task_bridge(registry: ToolRegistry, options: TaskOptions = AT_ONCE) -> Bridge:
    """Return a bridge with tasks."""
    return make_bridge(registry, tasks=options._replace(url=_urls[-1]))


async def create_task(client: StdioClient, name: str, **arguments: Any) -> str:
    """Call a tool that creates a task, and return the task's id."""
    result = (await client.request("tools/call", {"name": name, "arguments": arguments}))["result"]
    assert result["resultType"] == "task", result
    return str(result["taskId"])


async def fetch_task(client: StdioClient, task: str, *statuses: str) -> Json:
    """Wait until the task has one of these statuses, by default a final one, and return the task."""
    with anyio.fail_after(TIMEOUT):
        while True:
            result: Json = (await client.request("tasks/get", {"taskId": task}))["result"]
            if result["status"] in (statuses or ("completed", "failed", "cancelled")):
                return result
            await anyio.sleep(0.01)
