"""Unexpected responses and progress of the other side are harmless."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR, REQUEST_TIMEOUT, RpcError
from mcp_bridge._protocol.peer.connection import IncomingRequest
from tests.kits.loops import BOTH_LOOPS
from tests.kits.peer import PeerSide, join_peers, let_run

pytestmark = BOTH_LOOPS


async def ask_for(response: dict[str, Any], *more: dict[str, Any]) -> Any:
    """Send a request and return its result, where the other side sends the given members as its response."""
    async with join_peers() as (left, right):
        right.handlers["wait"] = lambda request: anyio.sleep_forever()

        async def respond() -> None:
            await let_run()
            for members in (response, *more):
                right.output.send({"jsonrpc": "2.0", "id": left.output.sent[0]["id"], **members})

        async with anyio.create_task_group() as group:
            group.start_soon(respond)
            return await left.connection.request("wait")


@pytest.mark.parametrize("result", [None, 0, "", [], [1], True, 1.5, {"a": {}}])
async def test_a_result_may_be_any_json_value(result: Any) -> None:
    assert await ask_for({"result": result}) == result


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"message": "broken"}, INTERNAL_ERROR, "broken"),
        ({"code": 5}, 5, ""),
        ({}, INTERNAL_ERROR, ""),
        ({"code": "5", "message": ["broken"]}, INTERNAL_ERROR, ""),
        ({"code": True, "message": None}, INTERNAL_ERROR, ""),
        ({"code": 1.5, "message": "broken"}, INTERNAL_ERROR, "broken"),
        ("broken", INTERNAL_ERROR, ""),
        (["broken"], INTERNAL_ERROR, ""),
        (0, INTERNAL_ERROR, ""),
        (False, INTERNAL_ERROR, ""),
    ],
)
async def test_a_malformed_error_is_an_error_with_a_code_and_a_message(error: Any, code: int, message: str) -> None:
    with pytest.raises(RpcError) as caught:
        await _ask_for_error({"error": error})
    assert (caught.value.code, type(caught.value.message)) == (code, str)
    assert message in caught.value.message
    assert caught.value.message


async def test_a_response_with_a_result_and_an_error_is_an_error() -> None:
    with pytest.raises(RpcError, match="broken"):
        await _ask_for_error({"result": {}, "error": {"code": 1, "message": "broken"}})


async def test_a_response_without_a_result_is_an_error() -> None:
    with pytest.raises(RpcError, match="no result"):
        await _ask_for_error({})


async def test_only_the_first_response_counts() -> None:
    assert await ask_for({"result": 1}, {"result": 2}, {"error": {"code": 1, "message": "late"}}) == 1


async def _ask_for_error(response: dict[str, Any]) -> Any:
    """Send a request, and raise its own error rather than a group."""
    try:
        return await ask_for(response)
    except BaseExceptionGroup as group:
        error: Any = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


@pytest.mark.parametrize("request_id", [7, "7", "x", None, True, 1.0, [1], {"id": 1}])
async def test_a_response_to_no_request_is_dropped(request_id: Any) -> None:
    results: list[Any] = []

    async def ask(side: PeerSide) -> None:
        results.append(await side.connection.request("wait"))

    async with join_peers() as (left, right), anyio.create_task_group() as group:
        release = anyio.Event()
        right.handlers["wait"] = _make_waiter(release)
        group.start_soon(ask, left)
        await let_run()
        right.output.send({"jsonrpc": "2.0", "id": request_id, "result": "wrong"})
        right.output.send({"jsonrpc": "2.0", "id": request_id, "error": {"code": 1, "message": "wrong"}})
        await let_run()
        release.set()
        await let_run()
        assert results == ["right"]


def _make_waiter(release: anyio.Event) -> Callable[[IncomingRequest], Awaitable[str]]:
    async def wait(request: IncomingRequest) -> str:
        await release.wait()
        return "right"

    return wait


async def test_a_response_after_the_timeout_is_dropped() -> None:
    async with join_peers() as (left, right):
        right.handlers.update(wait=lambda request: anyio.sleep_forever(), quick=lambda request: "quick")
        with pytest.raises(RpcError, match=r"wait: no response within 0\.01 seconds") as caught:
            await left.connection.request("wait", timeout=0.01)
        assert caught.value.code == REQUEST_TIMEOUT
        right.output.send({"jsonrpc": "2.0", "id": left.output.sent[0]["id"], "result": "late"})
        assert await left.connection.request("quick") == "quick"


async def test_progress_is_reported_to_the_sender_of_the_request() -> None:
    reports: list[Any] = []

    async def work(request: IncomingRequest) -> str:
        token = request.params["_meta"]["progressToken"]
        for step, returned in ((1, token), (2, str(token))):
            right.connection.notify("notifications/progress", {"progressToken": returned, "progress": step})
        return request.params["_meta"]["trace"] + request.params["name"]

    async with join_peers() as (left, right):
        right.handlers["work"] = work
        params = {"name": "n", "_meta": {"trace": "t"}}
        assert await left.connection.request("work", params, on_progress=reports.append) == "tn"
        assert [report["progress"] for report in reports] == [1, 2]
        assert params == {"name": "n", "_meta": {"trace": "t"}}


@pytest.mark.parametrize("params", [None, {}, {"_meta": None}])
async def test_a_request_with_progress_needs_no_metadata(params: Any) -> None:
    async with join_peers() as (left, right):
        right.handlers["work"] = lambda request: list(request.params["_meta"])
        assert await left.connection.request("work", params, on_progress=print) == ["progressToken"]


@pytest.mark.parametrize("token", [99, "one", None, True, [1], {}])
async def test_progress_of_no_request_is_dropped(token: Any) -> None:
    reports: list[Any] = []

    async def work(request: IncomingRequest) -> str:
        right.connection.notify("notifications/progress", {"progressToken": token, "progress": 1})
        right.connection.notify("notifications/progress")
        return "done"

    async with join_peers() as (left, right):
        right.handlers["work"] = work
        assert await left.connection.request("work", on_progress=reports.append) == "done"
        assert (reports, left.notifications) == ([], [])


async def test_progress_after_the_response_is_dropped() -> None:
    reports: list[Any] = []

    def work(request: IncomingRequest) -> str:
        token = request.params["_meta"]["progressToken"]
        request.stream.finish({"jsonrpc": "2.0", "id": request.id, "result": "first"})
        right.connection.notify("notifications/progress", {"progressToken": token, "progress": 1})
        return "second"

    async with join_peers() as (left, right):
        right.handlers["work"] = work
        assert await left.connection.request("work", on_progress=reports.append) == "first"
        await let_run()
        assert reports == []


@pytest.mark.parametrize("error", [ValueError(), SystemExit()])
async def test_a_listener_that_fails_does_not_fail_the_request(error: BaseException) -> None:
    def fail(params: Any) -> None:
        raise error

    async def work(request: IncomingRequest) -> str:
        token = request.params["_meta"]["progressToken"]
        right.connection.notify("notifications/progress", {"progressToken": token, "progress": 1})
        return "done"

    async with join_peers() as (left, right):
        right.handlers["work"] = work
        assert await left.connection.request("work", on_progress=fail) == "done"


async def test_an_id_that_is_returned_as_text_is_accepted() -> None:
    async with join_peers() as (left, right):
        right.handlers["work"] = lambda request: right.output.send(
            {"jsonrpc": "2.0", "id": str(request.id), "result": {"as": "text"}}
        )
        assert await left.connection.request("work") == {"as": "text"}
