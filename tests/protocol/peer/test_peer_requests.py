"""Requests, responses and notifications go in both directions of a connection (JSON-RPC 2.0)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import anyio
import pytest

from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError
from mcp_bridge._protocol.peer.connection import IncomingRequest
from tests.kits.loops import BOTH_LOOPS
from tests.kits.peer import PeerSide, RecordingStream, join_peers, let_run

pytestmark = BOTH_LOOPS


async def double(request: IncomingRequest) -> int:
    await anyio.lowlevel.checkpoint()
    return int(request.params["number"]) * 2


async def test_a_request_returns_the_result_of_a_handler_that_waits() -> None:
    async with join_peers() as (left, right):
        right.handlers["double"] = double
        assert await left.connection.request("double", {"number": 21}) == 42


async def test_a_request_returns_the_result_of_a_handler_that_does_not_wait() -> None:
    async with join_peers() as (left, right):
        right.handlers["double"] = lambda request: request.params["number"] * 2
        assert await left.connection.request("double", {"number": 21}) == 42


async def test_a_request_without_parameters_arrives_with_none() -> None:
    async with join_peers() as (left, right):
        right.handlers["count"] = lambda request: len(request.params)
        assert await left.connection.request("count") == 0
        assert "params" not in left.output.sent[0]


async def test_both_sides_send_requests_with_the_same_ids_at_the_same_time() -> None:
    results: dict[str, Any] = {}

    async def ask(name: str, side: PeerSide) -> None:
        results[name] = await side.connection.request("who")

    async with join_peers() as (left, right):
        left.handlers["who"] = lambda request: "left"
        right.handlers["who"] = lambda request: "right"
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "from left", left)
            group.start_soon(ask, "from right", right)
        assert results == {"from left": "right", "from right": "left"}
        assert left.output.sent[0]["id"] == right.output.sent[0]["id"]


async def test_a_handler_sends_requests_to_the_sender() -> None:
    async with join_peers() as (left, right):

        async def count_down(side: PeerSide, number: int) -> list[int]:
            numbers = await side.connection.request("count", {"from": number - 1}) if number else []
            return [number, *numbers]

        left.handlers["count"] = lambda request: count_down(left, request.params["from"])
        right.handlers["count"] = lambda request: count_down(right, request.params["from"])
        assert await left.connection.request("count", {"from": 5}) == [5, 4, 3, 2, 1, 0]


async def test_a_slow_request_does_not_delay_the_others() -> None:
    release = anyio.Event()
    results: list[str] = []

    async def wait(request: IncomingRequest) -> str:
        await release.wait()
        return "slow"

    async def ask(side: PeerSide, method: str) -> None:
        results.append(await side.connection.request(method))

    async with join_peers() as (left, right):
        right.handlers.update(wait=wait, quick=lambda request: "quick")
        async with anyio.create_task_group() as group:
            group.start_soon(ask, left, "wait")
            await let_run()
            await ask(left, "quick")
            release.set()
        assert results == ["quick", "slow"]


async def test_ten_thousand_requests_are_in_flight_together() -> None:
    release = anyio.Event()
    results: list[int] = []

    async def wait(request: IncomingRequest) -> int:
        await release.wait()
        return int(request.params["number"])

    async def ask(side: PeerSide, number: int) -> None:
        results.append(number - await side.connection.request("wait", {"number": number}))

    async with join_peers() as (left, right):
        right.handlers["wait"] = wait
        async with anyio.create_task_group() as group:
            for number in range(10_000):
                group.start_soon(ask, left, number)
            await let_run()
            assert all(right.connection.get_request(message["id"]) for message in left.output.sent)
            release.set()
        assert results == [0] * 10_000
        assert await right.counter.wait_until_idle(0)


async def test_an_unknown_method_is_an_error() -> None:
    async with join_peers() as (left, _):
        with pytest.raises(RpcError, match="Method not found") as caught:
            await left.connection.request("unknown")
        assert caught.value.code == METHOD_NOT_FOUND


@pytest.mark.parametrize("data", [{"why": [1, 2]}, [], 0, "", False])
@pytest.mark.parametrize("waits", [True, False])
async def test_the_data_of_an_error_arrives(data: Any, waits: bool) -> None:
    def fail(request: IncomingRequest) -> Any:
        raise RpcError(INVALID_PARAMS, "Wrong", data)

    async def fail_later(request: IncomingRequest) -> Any:
        await anyio.lowlevel.checkpoint()
        fail(request)

    async with join_peers() as (left, right):
        right.handlers["fail"] = fail_later if waits else fail
        with pytest.raises(RpcError) as caught:
            await left.connection.request("fail")
        error = caught.value
        assert (error.code, error.message, error.data) == (INVALID_PARAMS, "Wrong", data)


async def test_an_error_without_data_has_no_such_member() -> None:
    async with join_peers() as (left, right):
        right.handlers["fail"] = _fail_without_data
        with pytest.raises(RpcError):
            await left.connection.request("fail")
        assert right.output.sent[0]["error"] == {"code": 7, "message": "Wrong"}


def _fail_without_data(request: IncomingRequest) -> Any:
    raise RpcError(7, "Wrong")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("secret"),
        AssertionError("secret"),
        SystemExit("secret"),
        KeyboardInterrupt("secret"),
        GeneratorExit("secret"),
        asyncio.CancelledError("secret"),
        BaseExceptionGroup("secret", [SystemExit("secret"), ValueError("secret")]),
        StopIteration("secret"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("waits", [True, False])
async def test_the_other_side_does_not_see_what_a_handler_raised(
    error: BaseException, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: IncomingRequest) -> Any:
        raise error

    async def fail_later(request: IncomingRequest) -> Any:
        await anyio.lowlevel.checkpoint()
        fail(request)

    async with join_peers() as (left, right):
        right.handlers.update(fail=fail_later if waits else fail, double=double)
        with pytest.raises(RpcError) as caught:
            await left.connection.request("fail")
        assert caught.value.code == INTERNAL_ERROR
        assert "secret" not in str(right.output.sent)
        reference = caught.value.message.partition("reference ")[2].strip(").")
        assert reference in caplog.text
        assert await left.connection.request("double", {"number": 1}) == 2


async def test_a_second_request_with_an_id_in_flight_is_rejected() -> None:
    release = anyio.Event()

    async def wait(request: IncomingRequest) -> str:
        await release.wait()
        return "first"

    async with join_peers() as (left, right):
        right.handlers.update(wait=wait, quick=lambda request: "quick")
        for method in ("wait", "wait", "quick"):
            left.output.send({"jsonrpc": "2.0", "id": "a", "method": method})
        await let_run()
        assert [message["error"]["code"] for message in right.output.sent] == [INVALID_REQUEST, INVALID_REQUEST]
        release.set()
        await let_run()
        assert right.output.sent[2:] == [{"jsonrpc": "2.0", "id": "a", "result": "first"}]
        # The id is free again.
        left.output.send({"jsonrpc": "2.0", "id": "a", "method": "quick"})
        await let_run()
        assert right.output.sent[3:] == [{"jsonrpc": "2.0", "id": "a", "result": "quick"}]


async def test_a_rejected_request_ends_the_stream_that_came_with_it() -> None:
    async with join_peers() as (_, right):
        right.handlers["wait"] = lambda request: anyio.sleep_forever()
        right.connection.receive({"jsonrpc": "2.0", "id": 1, "method": "wait"})
        stream = RecordingStream()
        right.connection.receive({"jsonrpc": "2.0", "id": 1, "method": "wait"}, stream)
        assert [message["error"]["code"] for message in stream.responses if message] == [INVALID_REQUEST]


async def test_a_number_and_a_text_are_different_ids() -> None:
    async with join_peers() as (left, right):
        right.handlers["wait"] = lambda request: anyio.sleep_forever()
        for request_id in (1, "1"):
            left.output.send({"jsonrpc": "2.0", "id": request_id, "method": "wait"})
        await let_run()
        assert right.connection.get_request(1) is not None
        assert right.connection.get_request("1") is not None
        assert right.output.sent == []


async def test_a_notification_arrives_and_has_no_response() -> None:
    async with join_peers() as (left, right):
        left.connection.notify("notifications/changed", {"what": "all"})
        left.connection.notify("notifications/ready")
        await let_run()
        assert right.notifications == [("notifications/changed", {"what": "all"}), ("notifications/ready", {})]
        assert right.output.sent == []


@pytest.mark.parametrize("error", [RpcError(INVALID_PARAMS, "Wrong"), ValueError(), SystemExit(), KeyboardInterrupt()])
async def test_a_notification_that_cannot_be_handled_is_logged(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(method: str, params: Any) -> None:
        raise error

    async with join_peers() as (left, right):
        right.on_notification = fail
        right.handlers["double"] = double
        with caplog.at_level(logging.WARNING):
            left.connection.notify("notifications/changed")
            assert await left.connection.request("double", {"number": 1}) == 2
        assert "notifications/changed" in caplog.text


async def test_messages_of_a_request_go_to_its_stream() -> None:
    async with join_peers() as (_, right):
        stream = RecordingStream()
        right.handlers["double"] = double
        right.connection.receive({"jsonrpc": "2.0", "id": 1, "method": "double", "params": {"number": 1}}, stream)
        await let_run()
        assert stream.responses == [{"jsonrpc": "2.0", "id": 1, "result": 2}]
        assert right.output.sent == []


@pytest.mark.parametrize("waits", [True, False])
async def test_a_request_is_done_once_its_result_is_known(waits: bool) -> None:
    requests: list[IncomingRequest] = []

    def keep(request: IncomingRequest) -> Any:
        requests.append(request)
        assert not request.is_done
        return double(request) if waits else 2

    async with join_peers() as (left, right):
        right.handlers["keep"] = keep
        await left.connection.request("keep", {"number": 1})
        assert requests[0].is_done
