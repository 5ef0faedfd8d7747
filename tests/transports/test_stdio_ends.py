"""However serving ends, calls in flight are answered; and a cancelled call really stops."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._runtime.platform.server_supervisor import COUNTS, Supervisor
from mcp_bridge._transports.shutdown import RequestCounter, ShutdownSignals, handle_signals
from tests.client.stdio_client import StdioClient, serve_over_pipes
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.waiting import wait_for_event

pytestmark = BOTH_LOOPS
NOTHING: dict[str, Any] = {"type": "object"}


class Slow:
    """A tool that reports its start, waits for its release, and reports its end."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.release = anyio.Event()
        self.stopped = anyio.Event()

    async def __call__(self, data: Any) -> str:
        self.begun.set()
        try:
            await self.release.wait()
        except anyio.get_cancelled_exc_class():
            self.stopped.set()
            raise
        return "done"


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def bridge(slow: Slow) -> Bridge:
    registry = ToolRegistry()
    registry.register(ToolEntry("slow", "Waits.", slow, NOTHING))
    registry.register(ToolEntry("quick", "Does not.", lambda data: "quick", NOTHING))
    return Bridge(registry)


def watch_end_of_input(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> anyio.Event:
    """Return an event for the end of input."""
    noticed = anyio.Event()
    end_listeners = bridge.endpoint.close_subscriptions

    def noted() -> None:
        end_listeners()
        noticed.set()

    monkeypatch.setattr(bridge.endpoint, "close_subscriptions", noted)
    return noticed


async def begin_call(client: StdioClient, slow: Slow) -> int:
    number = await client.send_call("slow")
    await wait_for_event(slow.begun)
    return number


async def test_calls_in_flight_at_the_end_of_input_are_all_answered(
    bridge: Bridge, slow: Slow, stateless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed = watch_end_of_input(bridge, monkeypatch)
    async with serve_over_pipes(bridge, stateless=stateless) as client:
        numbers = [await begin_call(client, slow) for _ in range(5)]
        quick = await client.send_call("quick")
        client.close_input()
        await wait_for_event(noticed)
        slow.release.set()
        answers = {answer["id"]: answer["result"]["content"][0]["text"] for answer in await client.receive_rest()}
        assert answers == {**dict.fromkeys(numbers, "done"), quick: "quick"}


async def test_a_call_that_takes_longer_than_the_drain_gets_an_error(
    bridge: Bridge, slow: Slow, stateless: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_over_pipes(bridge, stateless=stateless, drain=0.05) as client:
        number = await begin_call(client, slow)
        client.close_input()
        (answer,) = await client.receive_rest()
        assert (answer["id"], answer["error"]["code"]) == (number, -32000)
    assert slow.stopped.is_set()
    assert "did not end within 0.05 seconds" in caplog.text


async def test_a_listener_gets_its_final_result_at_the_end(bridge: Bridge) -> None:
    async with serve_over_pipes(bridge, stateless=True) as client:
        subscription = await client.subscribe_to_tools()
        client.close_input()
        (final,) = await client.receive_rest()
        assert (final["id"], final["result"]["resultType"]) == (subscription, "complete")


async def test_a_listener_that_opens_with_its_last_line_gets_its_final_result_too(bridge: Bridge) -> None:
    async with serve_over_pipes(bridge, stateless=True, drain=TIMEOUT / 2) as client:
        subscription = await client.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        client.close_input()
        acknowledged, final = await client.receive_rest()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert (final["id"], "result" in final) == (subscription, True)


async def test_a_cancelled_call_stops_and_is_not_answered(bridge: Bridge, slow: Slow, stateless: bool) -> None:
    async with serve_over_pipes(bridge, stateless=stateless, drain=3600) as client:
        number = await begin_call(client, slow)
        await client.notify("notifications/cancelled", {"requestId": number, "reason": "enough"})
        await wait_for_event(slow.stopped)
        assert (await client.receive_response(await client.send_call("quick")))["result"]["content"][0][
            "text"
        ] == "quick"
        client.close_input()
        # The shutdown does not wait for a response that never comes.
        assert await client.receive_rest() == []
    assert number not in [message.get("id") for message in client.received]


async def test_cancelling_an_unknown_request_changes_nothing(bridge: Bridge) -> None:
    async with serve_over_pipes(bridge) as client:
        await client.notify("notifications/cancelled", {"requestId": 4711})
        assert "result" in await client.receive_response(await client.send_call("quick"))


async def test_progress_that_does_not_grow_is_dropped(stateless: bool) -> None:
    async def work(data: Any, ctx: CallContext) -> str:
        for value in (1, 2, 2, 1.5, 3):
            await ctx.report_progress(value, 3, f"step {value}")
        return "done"

    registry = ToolRegistry()
    registry.register(ToolEntry("work", "Works.", work, NOTHING))
    async with serve_over_pipes(registry, stateless=stateless) as client:
        number = await client.send_call("work", meta={"progressToken": "p"})
        assert "result" in await client.receive_response(number)
        call_without_token = await client.send_call("work")
        assert "result" in await client.receive_response(call_without_token)
    notifications = [
        message["params"] for message in client.received if message.get("method") == "notifications/progress"
    ]
    assert [
        (params["progressToken"], params["progress"], params["total"], params["message"]) for params in notifications
    ] == [
        ("p", 1, 3, "step 1"),
        ("p", 2, 3, "step 2"),
        ("p", 3, 3, "step 3"),
    ]


async def test_a_signal_is_handled_at_any_moment_of_the_event_loop() -> None:
    arrival = anyio.Event()

    async def drain() -> None:
        arrival.set()

    with ShutdownSignals() as watch_end_of_input:
        async with anyio.create_task_group() as tasks:
            with watch_end_of_input.handle_while_serving(lambda: tasks.start_soon(drain), lambda: None, TIMEOUT):
                # as in a callback that a thread of no loop has asked for, which Python may interrupt
                Context().run(lambda: (signal.raise_signal(signal.SIGTERM), None))
                with anyio.fail_after(TIMEOUT):
                    await arrival.wait()


async def test_one_signal_that_arrives_in_both_ways_drains_although_one_handler_interrupts_the_other() -> None:
    class Relaying(Supervisor):
        """Relays the signal while the server counts it."""

        relayed = False

        def count_signals(self, number: int) -> int:
            if number == signal.SIGTERM and not self.relayed:
                self.relayed = True
                numbers[COUNTS + number] += 1
                os.kill(os.getpid(), self.relay_signal)
            return super().count_signals(number)

    called: list[str] = []
    numbers = memoryview(bytearray(4096)).cast("i")
    watch_end_of_input = ShutdownSignals(guard=Relaying(numbers))
    with (
        watch_end_of_input,
        watch_end_of_input.handle_while_serving(lambda: called.append("drain"), lambda: called.append("now"), TIMEOUT),
    ):
        signal.raise_signal(signal.SIGTERM)
        await anyio.wait_all_tasks_blocked()
    assert called == ["drain"]


async def test_the_counter_is_idle_when_all_requests_are_answered() -> None:
    counter = RequestCounter()
    assert await counter.wait_until_idle(0)
    counter.add_request()
    counter.add_request()
    counter.remove_request()
    assert not await counter.wait_until_idle(0)
    counter.remove_request()
    assert await counter.wait_until_idle(0)
    counter.add_request()
    assert not await counter.wait_until_idle(0)


def test_serving_works_without_support_for_signals(anyio_backend: str) -> None:
    """A thread other than the main one may not take signals."""
    called: list[str] = []
    starts: list[bool] = []

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            await tasks.start(handle_signals, lambda: called.append("drain"), lambda: called.append("now"))
        starts.append(True)

    thread = threading.Thread(target=_run(main, anyio_backend))
    thread.start()
    thread.join(TIMEOUT)
    assert (starts, called) == ([True], [])


def _run(main: Callable[[], Any], backend: str) -> Callable[[], None]:
    def run() -> None:
        anyio.run(main, backend=backend)

    return run
