"""Clients of both eras are notified when the tools change, from any thread."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio import to_thread
from mcp.shared.subscriptions import ToolsListChanged

from mcp_bridge import CallContext, ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._engine.authoring import tool
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._server.change_notices import SUBSCRIBED, SUBSCRIPTIONS, UPDATED, ChangeEvent, ChangeNotifier
from mcp_bridge._server.endpoint import Endpoint
from mcp_bridge._server.lifecycle import MAX_CAPABILITIES
from mcp_bridge._server.responses import Responses
from mcp_bridge.testing import connect
from tests.client.stdio_client import serve_over_pipes
from tests.kits.constants import CLIENT_INFO, HANDSHAKE, TIMEOUT

CHANGED = "notifications/tools/list_changed"


def make_entry(name: str) -> ToolEntry:
    return ToolEntry(name, "A tool.", lambda data: name, {"type": "object"})


class Ear:
    """A message handler that counts list_changed."""

    def __init__(self) -> None:
        self.count = 0
        self._received = anyio.Event()

    async def __call__(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.count += 1
            self._received.set()

    async def wait_for_notification(self) -> None:
        with anyio.fail_after(TIMEOUT):
            await self._received.wait()
        self._received = anyio.Event()


async def test_a_handshake_client_is_notified_of_added_and_removed_tools() -> None:
    registry, listener = ToolRegistry(), Ear()
    async with connect(registry, mode="legacy", message_handler=listener) as client:
        await client.list_tools()
        registry.register(make_entry("new"))
        await listener.wait_for_notification()
        assert [tool.name for tool in (await client.list_tools()).tools] == ["new"]
        registry.unregister("new")
        await listener.wait_for_notification()
        assert (await client.list_tools()).tools == []


async def test_a_listening_stateless_client_is_notified_of_added_and_removed_tools() -> None:
    registry = ToolRegistry()
    async with connect(registry) as client, client.listen(tools_list_changed=True) as stream:
        with anyio.fail_after(TIMEOUT):
            registry.register(make_entry("new"))
            assert await anext(stream) == ToolsListChanged()
            assert [tool.name for tool in (await client.list_tools()).tools] == ["new"]
            registry.unregister("new")
            assert await anext(stream) == ToolsListChanged()
            assert (await client.list_tools()).tools == []


async def test_over_stdio_a_client_is_notified_of_a_change(stateless: bool) -> None:
    registry = ToolRegistry()
    async with serve_over_pipes(registry, stateless=stateless) as client:
        if stateless:
            streams = await client.subscribe_to_tools()
        for change in (lambda: registry.register(make_entry("new")), lambda: registry.unregister("new")):
            change()
            notice = await client.receive_message(CHANGED)
            if stateless:
                assert notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == streams


async def test_a_stateless_client_that_does_not_listen_receives_no_notifications() -> None:
    registry = ToolRegistry()
    async with serve_over_pipes(registry, stateless=True) as client:
        registry.register(make_entry("new"))
        assert [tool["name"] for tool in (await client.request("tools/list"))["result"]["tools"]] == ["new"]
        await client.request("server/discover")
    assert CHANGED not in [message.get("method") for message in client.received]


async def test_a_change_from_another_thread_is_notified(stateless: bool) -> None:
    registry = ToolRegistry()
    async with serve_over_pipes(registry, stateless=stateless) as client:
        if stateless:
            await client.subscribe_to_tools()
        await to_thread.run_sync(registry.register, make_entry("by_a_worker"))
        await client.receive_message(CHANGED)
        thread = threading.Thread(target=registry.register, args=(make_entry("from_a_thread"),))
        thread.start()
        await client.receive_message(CHANGED)
        thread.join(TIMEOUT)


async def test_a_thread_that_the_event_loop_waits_for_may_change_the_tools() -> None:
    registry = ToolRegistry()
    async with serve_over_pipes(registry) as client:
        thread = threading.Thread(target=registry.register, args=(make_entry("new"),), daemon=True)
        thread.start()
        # This blocks the loop on purpose.
        thread.join(TIMEOUT)
        assert not thread.is_alive()
        await client.receive_message(CHANGED)


async def test_a_burst_of_changes_is_notified_at_least_once_and_at_most_a_few_times(stateless: bool) -> None:
    registry = ToolRegistry()
    async with serve_over_pipes(registry, stateless=stateless) as client:
        if stateless:
            await client.subscribe_to_tools()
        for number in range(200):
            registry.register(make_entry(f"t{number}"))
        await client.receive_message(CHANGED)
        for _ in range(5):
            assert len((await client.request("tools/list"))["result"]["tools"]) == 200
    assert 1 <= [message.get("method") for message in client.received].count(CHANGED) <= 3


async def test_a_change_before_or_after_serving_is_ignored() -> None:
    registry = ToolRegistry()
    registry.register(make_entry("before"))
    bridge = Bridge(registry)
    # An endpoint may be served twice.
    for name in ("one", "two"):
        async with serve_over_pipes(bridge) as client:
            registry.register(make_entry(name))
            await client.receive_message(CHANGED)
    registry.register(make_entry("after"))
    assert len(registry) == 4
    assert registry.tools._listeners == {}
    assert bridge.endpoint._notifier._call_soon is None


async def test_an_endpoint_that_is_served_again_takes_listeners_again() -> None:
    registry = ToolRegistry()
    bridge = Bridge(registry)
    for name in ("one", "two"):
        async with serve_over_pipes(bridge, stateless=True) as client:
            await client.subscribe_to_tools()
            registry.register(make_entry(name))
            await client.receive_message(CHANGED)


def test_a_change_after_the_loop_has_ended_is_ignored(anyio_backend: str) -> None:
    registry = ToolRegistry()
    notifier = ChangeNotifier(Responses(Identity(), Redactor()), registry.subscriptions)
    observations: list[Any] = []

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            await tasks.start(notifier.run, registry)
            observations.append(notifier._call_soon)
            tasks.cancel_scope.cancel()

    anyio.run(main, backend=anyio_backend)
    notifier._record_soon(ChangeEvent("notifications/tools/list_changed"))
    # A thread may have read the callback just before the loop ended.
    notifier._call_soon = observations[0]
    notifier._record_soon(ChangeEvent("notifications/tools/list_changed"))
    notifier._record_soon(ChangeEvent(UPDATED, "test://a"))


async def test_a_session_that_left_is_forgotten() -> None:
    bridge, listener = Bridge(), Ear()
    async with connect(bridge, mode="legacy", message_handler=listener) as client:
        await client.list_tools()
        assert len(bridge.endpoint._notifier._sessions) == 1
        # A repeated notification has no effect.
        await client.session.send_notification(types.InitializedNotification())
        await client.list_tools()
        assert len(bridge.endpoint._notifier._sessions) == 1
    assert bridge.endpoint._notifier._sessions == set()


class UnreadStream:
    """The message stream of a client that reads nothing until `reads` is set."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.reads = anyio.Event()

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def finish(self, response: Any) -> None: ...

    async def drain(self) -> None:
        await self.reads.wait()

    async def close(self) -> None: ...


async def test_a_handshake_client_that_reads_late_is_notified_once_of_all_that_it_missed() -> None:
    registry, stream = ToolRegistry(), UnreadStream()
    endpoint = Endpoint(registry)
    async with anyio.create_task_group() as group:
        await group.start(endpoint.run)
        async with own_tasks() as tasks:
            client = endpoint.connect(stream, tasks)
            params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO}
            client.receive({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
            client.receive({"jsonrpc": "2.0", "method": "notifications/initialized"})
            for number in range(100):
                registry.register(make_entry(f"t{number}"))
                await anyio.wait_all_tasks_blocked()
            assert len(stream.sent) == 1
            stream.reads.set()
            await anyio.wait_all_tasks_blocked()
            assert [message["method"] for message in stream.sent] == [CHANGED, CHANGED]
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    "uris", [[f"test://{number}" for number in range(SUBSCRIPTIONS + 1)], ["test://" + "a" * SUBSCRIBED]]
)
async def test_a_listen_stream_takes_no_more_resources_than_a_session(uris: list[str]) -> None:
    async with serve_over_pipes(ToolRegistry(), stateless=True) as client:
        response = await client.request("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
        assert response["error"]["code"] == -32602


async def test_capabilities_that_are_too_large_to_keep_are_rejected() -> None:
    async with serve_over_pipes(ToolRegistry(), initialize=False) as client:
        params: dict[str, Any] = {"protocolVersion": HANDSHAKE, "clientInfo": CLIENT_INFO}
        large = {"experimental": {"x": {"y": "z" * MAX_CAPABILITIES}}}
        response = await client.request("initialize", params | {"capabilities": large})
        assert response["error"]["code"] == -32602
        assert "serverInfo" in await client.initialize()


async def test_what_runs_at_the_end_of_a_session_runs_although_others_fail_or_it_has_ended() -> None:
    ran: list[str] = []
    registry, contexts = ToolRegistry(), []

    @tool(registry=registry)
    async def keep(ctx: CallContext) -> str:
        """Keeps something for the session."""
        contexts.append(ctx)
        ctx.on_session_end(lambda: ran.append("first"))
        ctx.on_session_end(lambda: [].pop())
        return "kept"

    async with serve_over_pipes(registry) as client:
        await client.receive_response(await client.send_call("keep"))
    assert ran == ["first"]
    contexts[0].on_session_end(lambda: ran.append("late"))
    assert ran == ["first", "late"]
