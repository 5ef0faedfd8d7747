"""The shared parts of the tests of tasks: a bridge on each engine, and a client that creates and fetches tasks."""

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
ABLE: Json = {**ALL_CAPABILITIES, "extensions": {TASKS: {}}}


_urls: list[str] = []


@pytest.fixture(autouse=True)
def url(engine: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """Where the tasks of the running test are kept."""
    _urls.append(MEMORY if engine == "memory" else request.getfixturevalue("redis_server"))
    yield
    _urls.pop()


def with_tasks(registry: ToolRegistry, options: TaskOptions = AT_ONCE) -> Bridge:
    """Return a bridge with tasks."""
    return make_bridge(registry, tasks=options._replace(url=_urls[-1]))


async def create(client: StdioClient, name: str, **arguments: Any) -> str:
    """Call a tool that creates a task, and return the task's id."""
    result = (await client.request("tools/call", {"name": name, "arguments": arguments}))["result"]
    assert result["resultType"] == "task", result
    return str(result["taskId"])


async def fetch(client: StdioClient, task: str, *statuses: str) -> Json:
    """The task, once it has one of these statuses."""
    with anyio.fail_after(TIMEOUT):
        while True:
            result: Json = (await client.request("tasks/get", {"taskId": task}))["result"]
            if result["status"] in (statuses or ("completed", "failed", "cancelled")):
                return result
            await anyio.sleep(0.01)
