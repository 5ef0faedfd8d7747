"""Either side cancels its requests; a cancelled request has no response."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

import anyio
import pytest

from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR, REQUEST_TIMEOUT, RpcError
from mcp_bridge._protocol.peer.connection import IncomingRequest
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.peer import RecordingStream, join_peers, let_run

pytestmark = BOTH_LOOPS


class WaitingHandler:
    """Waits for its cancellation."""

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.cancelled = anyio.Event()

    async def __call__(self, request: IncomingRequest) -> None:
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled.set()


async def test_cancelling_the_caller_cancels_the_request() -> None:
    handler = WaitingHandler()
    async with join_peers() as (left, right):
        right.handlers["wait"] = lambda request: handler(request)
        async with anyio.create_task_group() as group:
            group.start_soon(left.connection.request, "wait")
            await handler.started.wait()
            group.cancel_scope.cancel()
        await handler.cancelled.wait()
        await let_run()
        request, notification = left.output.sent
        assert notification["method"] == "notifications/cancelled"
        assert notification["params"]["requestId"] == request["id"]
        assert right.output.sent == []
        assert right.connection.get_request(request["id"]) is None


async def test_a_timeout_cancels_the_request() -> None:
    handler = WaitingHandler()
    async with join_peers() as (left, right):
        right.handlers["wait"] = lambda request: handler(request)
        with pytest.raises(RpcError) as caught:
            await left.connection.request("wait", timeout=0.01)
        assert caught.value.code == REQUEST_TIMEOUT
        await handler.cancelled.wait()
        await let_run()
        assert left.output.list_methods() == ["wait", "notifications/cancelled"]
        assert right.output.sent == []


async def test_a_request_that_is_answered_in_time_is_not_cancelled() -> None:
    async with join_peers() as (left, right):
        right.handlers["quick"] = lambda request: 1
        assert await left.connection.request("quick", timeout=60) == 1
        assert left.output.list_methods() == ["quick"]


async def test_cancelling_a_request_cancels_its_requests_to_the_sender() -> None:
    handler = WaitingHandler()
    async with join_peers() as (left, right):
        left.handlers["wait"] = lambda request: handler(request)
        right.handlers["ask"] = lambda request: right.connection.request("wait")
        with anyio.CancelScope() as scope, anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as group:
                group.start_soon(left.connection.request, "ask")
                await handler.started.wait()
                scope.cancel()
        await handler.cancelled.wait()
        await let_run()
        assert right.output.list_methods() == ["wait", "notifications/cancelled"]
        assert left.output.list_methods() == ["ask", "notifications/cancelled"]
        assert [*left.output.list_responses(), *right.output.list_responses()] == []


@pytest.mark.parametrize("params", [{}, None, {"requestId": None}, {"requestId": [1]}, {"requestId": 99}])
async def test_a_cancellation_of_no_request_is_ignored(params: Any) -> None:
    release = anyio.Event()

    async def wait(request: IncomingRequest) -> str:
        await release.wait()
        return "done"

    async with join_peers() as (left, right):
        right.handlers["wait"] = wait
        left.output.send({"jsonrpc": "2.0", "id": 1, "method": "wait"})
        left.connection.notify("notifications/cancelled", params)
        await let_run()
        release.set()
        await let_run()
        assert [message["result"] for message in right.output.sent] == ["done"]


async def test_a_request_that_is_cancelled_before_its_first_step_has_no_response() -> None:
    steps: list[str] = []

    async def work(request: IncomingRequest) -> str:
        await anyio.lowlevel.checkpoint()
        steps.append("after the first wait")
        return "done"

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with join_peers() as (_, right):
            right.handlers["work"] = work
            right.connection.receive({"jsonrpc": "2.0", "id": 1, "method": "work"})
            right.connection.receive(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            )
            await let_run()
            assert (right.output.sent, steps) == ([], [])
            assert await right.counter.wait_until_idle(0)
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


async def test_a_request_that_ignores_its_cancellation_has_no_response() -> None:
    release = anyio.Event()

    async def work(request: IncomingRequest) -> str:
        with anyio.CancelScope(shield=True):
            try:
                await release.wait()
            except anyio.get_cancelled_exc_class():
                # asyncio's own cancellation passes the shield.
                await release.wait()
        return "done"

    async with join_peers() as (left, right):
        right.handlers.update(work=work, quick=lambda request: "quick")
        left.output.send({"jsonrpc": "2.0", "id": "a", "method": "work"})
        await let_run()
        left.connection.notify("notifications/cancelled", {"requestId": "a"})
        assert await left.connection.request("quick") == "quick"
        assert right.connection.get_request("a") is not None
        release.set()
        await let_run()
        assert right.connection.get_request("a") is None
        assert [message["result"] for message in right.output.list_responses()] == ["quick"]


@pytest.mark.parametrize("error", [None, RpcError(1, "no"), ValueError("no")])
async def test_a_handler_that_catches_its_cancellation_has_no_response(error: Exception | None) -> None:
    async def work(request: IncomingRequest) -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            if error is not None:
                raise error from None
        return "done"

    async with join_peers() as (left, right):
        right.handlers["work"] = work
        left.output.send({"jsonrpc": "2.0", "id": "a", "method": "work"})
        await let_run()
        left.connection.notify("notifications/cancelled", {"requestId": "a"})
        await let_run()
        assert right.output.sent == []
        assert await right.counter.wait_until_idle(0)


async def test_a_task_that_asyncio_cancels_while_it_runs_a_request_is_cancelled(anyio_backend: str) -> None:
    if anyio_backend == "trio":
        pytest.skip("trio cancels scopes, not tasks")
    handler = WaitingHandler()
    request = IncomingRequest(1, "wait", None, RecordingStream())
    task = asyncio.create_task(request.run(handler(request)))
    await handler.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_receiver_cancels_a_request_with_an_error() -> None:
    requests: list[IncomingRequest] = []

    async def work(request: IncomingRequest) -> None:
        requests.append(request)
        await anyio.sleep_forever()

    async def cancel() -> None:
        await let_run()
        requests[0].cancel(RpcError(5, "shut down"))
        # The first cancellation decides.
        requests[0].cancel()

    async with join_peers() as (left, right), anyio.create_task_group() as group:
        right.handlers["work"] = work
        group.start_soon(cancel)
        with pytest.raises(RpcError, match="shut down"):
            await left.connection.request("work")


async def test_cancelling_a_request_after_its_end_does_nothing() -> None:
    requests: list[IncomingRequest] = []

    async def work(request: IncomingRequest) -> str:
        requests.append(request)
        return "done"

    async with join_peers() as (left, right):
        right.handlers["work"] = work
        assert await left.connection.request("work") == "done"
        requests[0].cancel(RpcError(5, "shut down"))
        await let_run()
        assert len(right.output.sent) == 1


async def test_a_request_of_a_cancelled_caller_leaves_no_state() -> None:
    async with join_peers() as (left, right):
        right.handlers["quick"] = lambda request: 1
        with anyio.CancelScope() as scope:
            scope.cancel()
            await left.connection.request("quick")
        assert scope.cancelled_caught
        await let_run()
        assert await left.connection.request("quick") == 1


async def test_a_handler_that_cancels_its_own_task_responds_with_an_error(anyio_backend: str) -> None:
    if anyio_backend == "trio":
        pytest.skip("trio cancels scopes, not tasks")

    async def work(request: IncomingRequest) -> str:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        await anyio.sleep_forever()
        return "done"

    async with join_peers() as (left, right):
        right.handlers.update(work=work, quick=lambda request: "quick")
        with pytest.raises(RpcError) as caught:
            await left.connection.request("work")
        assert caught.value.code == INTERNAL_ERROR
        assert await left.connection.request("quick") == "quick"
        assert right.connection.get_request(1) is None
