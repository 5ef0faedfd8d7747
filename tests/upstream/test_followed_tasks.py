"""Every client can call tools with tasks, through a gateway without tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import ElicitResult

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._server.tasks.run import NoStream
from mcp_bridge._upstream.followed_task import follow_task
from mcp_bridge._upstream.relayed_call import RelayedCall
from mcp_bridge.testing import connect
from tests.kits.conformance.referee import run_everything_server
from tests.kits.upstream.everything_kit import ERAS
from tests.kits.upstream.upstream_kit import build_source, wait_for_state

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a server with tasks, and return its address."""
    with run_everything_server(tmp_path_factory.mktemp("tasks")) as url:
        yield url


async def confirm(context: Any, params: Any) -> ElicitResult:
    """Confirm all questions of the server."""
    return ElicitResult(action="accept", content={"confirm": True})


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_without_tasks_calls_tools_that_create_them(address: str, mode: Any, tmp_path: Path) -> None:
    source = build_source({"url": address}, tmp_path)
    bridge = Bridge(None, [AttachedSource(source=source)])
    async with connect(bridge, cache=None, mode=mode, elicitation_callback=confirm) as client:
        await wait_for_state(source, "ready")
        result = await client.call_tool("slow_compute", {"seconds": 0.3, "label": "x"})
        confirmation = await client.call_tool("confirm_delete", {"filename": "old.txt"})
        failure = await client.call_tool("failing_job", {})
    assert not result.is_error
    assert "deleted old.txt" in str(confirmation.content)
    assert failure.is_error
    assert "task" not in str(failure.content)


class RecordingServer:
    """A server with an endless task."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.polled = anyio.Event()

    async def send_request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None = None
    ) -> Mapping[str, Any]:
        self.methods.append(method)
        self.polled.set()
        return {"taskId": params["taskId"], "status": "working", "pollIntervalMs": 1}


async def test_a_cancelled_call_cancels_its_task() -> None:
    server = RecordingServer()
    async with own_tasks() as owner, anyio.create_task_group() as tasks:
        call = RelayedCall(RunningCall(), owner, NoStream(), "server")
        tasks.start_soon(
            follow_task, server.send_request, call, {"taskId": "t", "status": "working", "pollIntervalMs": 1}
        )
        await server.polled.wait()
        tasks.cancel_scope.cancel()
    assert server.methods[-1] == "tasks/cancel"
