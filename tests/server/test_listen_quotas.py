"""subscriptions/listen streams are bounded for each client and in total."""

from __future__ import annotations

import itertools
from typing import Any

import anyio

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR
from mcp_bridge._protocol.peer.connection import IncomingRequest, Message
from mcp_bridge._server.change_notices import SHARES
from tests.kits.constants import ENVELOPE
from tests.kits.loops import BOTH_LOOPS

pytestmark = BOTH_LOOPS
TOTAL = 3 * SHARES
SHARE = TOTAL // SHARES


class SentMessages:
    """A message stream with a record of the sent messages."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def finish(self, response: Message | None) -> None:
        """Do nothing: the test has the response."""

    async def drain(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


class Listeners:
    """Opens listen streams of several clients."""

    def __init__(self, bridge: Bridge, tasks: Any) -> None:
        self._endpoint, self._tasks = bridge.endpoint, tasks
        self._ids = itertools.count()

    async def open(self, client: str | None) -> IncomingRequest | Message:
        """Return the request of an open stream, or the error response."""
        params = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
        stream, responses = SentMessages(), []
        request = IncomingRequest(next(self._ids), "subscriptions/listen", params, stream, client=client)

        async def run() -> None:
            responses.append(await request.run(self._endpoint.handle_stateless(request)))

        self._tasks.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        if stream.sent:
            return request
        (response,) = responses
        return response["error"]


async def test_one_client_has_its_share_of_the_streams_and_others_have_theirs() -> None:
    bridge = Bridge(ToolRegistry())
    bridge.endpoint.limit_subscriptions(TOTAL)
    async with bridge.run_sources(), anyio.create_task_group() as tasks:
        await tasks.start(bridge.endpoint.run)
        listeners = Listeners(bridge, tasks)
        first = [await listeners.open("principal/eve") for _ in range(SHARE)]
        rejection = await listeners.open("principal/eve")
        assert isinstance(rejection, dict)
        assert rejection["code"] == INTERNAL_ERROR
        assert "This client" in rejection["message"]
        for number in range(SHARES - 1):
            for _ in range(SHARE):
                assert isinstance(await listeners.open(f"principal/{number}"), IncomingRequest)
        full = await listeners.open("principal/late")
        assert isinstance(full, dict)
        assert "Retry later" in full["message"]
        assert isinstance(first[0], IncomingRequest)
        first[0].cancel()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(await listeners.open("principal/eve"), IncomingRequest)
        tasks.cancel_scope.cancel()
