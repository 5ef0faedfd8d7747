"""Carries messages to an MCP server over the older HTTP transport with server-sent events (2024-11-05).

The client opens one event stream (basic/transports, "HTTP with SSE"). Its first event, `endpoint`, names the address to
which the client posts its messages. All messages of the server arrive on the stream.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._protocol.peer.connection import Message
from mcp_bridge._protocol.peer.json_lines import dump_message
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._runtime.urls import split_url
from mcp_bridge._upstream.messages import Receiver
from mcp_bridge._upstream.remote import (
    TIMEOUT,
    HttpStream,
    ServerUrl,
    describe_failure_to_reach,
    describe_status,
    read_events,
)
from mcp_bridge._upstream.session import UpstreamChannel

logger = logging.getLogger("mcp_bridge.upstream")


@dataclass(frozen=True, slots=True, kw_only=True)
class SseUrl(ServerUrl):
    """The address of a server with the older transport. `headers` are sent with every request."""

    @asynccontextmanager
    async def open_channel(self, receive: Receiver, on_end: Callable[[str], None]) -> AsyncIterator[UpstreamChannel]:
        """Yield a channel. Raises SourceError if the server does not open a stream."""
        async with (
            httpx2.AsyncClient(headers=dict(self.headers), timeout=TIMEOUT, auth=self.choose_auth()) as client,
            own_tasks() as tasks,
        ):
            channel = SseChannel(self, client, tasks, receive, on_end)
            tasks.spawn(channel.run)
            await channel.wait_for_endpoint()
            yield channel


class SseChannel(HttpStream):
    """The channel of a server with the older transport: all its messages arrive on one stream."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._endpoint = ""
        self._problem = ""
        self._opened = anyio.Event()

    def adopt_version(self, version: str) -> None:
        """Do nothing: this transport does not name the version."""

    async def run(self) -> None:
        """Receive messages until the stream ends."""
        try:
            async with self._open_response("GET", self._url, headers={"accept": "text/event-stream"}) as response:
                if not response.is_success:
                    self._problem = describe_status(response)
                    return
                async for event in read_events(response):
                    if event.event == "endpoint":
                        self._adopt_endpoint(event.data)
                    elif event.event == "message":
                        message = self._reader.read_message(event.data.encode())
                        await self._reader.budget.wait_while_empty()
                        if message is not None and not self._receive(message, None):
                            self._reader.budget.charge(1)
            self._problem = "the server has closed the stream"
        except httpx2.HTTPError as error:
            self._problem = describe_failure_to_reach(error)
        finally:
            self._opened.set()
            self._on_end(self._problem or "the stream was closed")

    async def wait_for_endpoint(self) -> None:
        """Wait until the server has named the address for messages. Raises SourceError if it does not."""
        await self._opened.wait()
        if not self._endpoint:
            raise SourceError(self._problem)

    def _adopt_endpoint(self, address: str) -> None:
        """Send messages to this address. An address on another host is rejected, because it would get credentials."""
        endpoint = ""
        # The server may have named an invalid address.
        with suppress(ValueError):
            endpoint = urljoin(self._url, address)
        if split_url(endpoint)[:2] == split_url(self._url)[:2]:
            self._endpoint = endpoint
        else:
            self._problem = "the server has named no endpoint on its own host"
        self._opened.set()

    async def _post(self, message: Message) -> None:
        headers = {"content-type": "application/json"}
        try:
            async with self._open_response(
                "POST", self._endpoint, content=dump_message(message), headers=headers
            ) as response:
                problem = ""
                if not response.is_success:
                    problem = describe_status(response)
        except httpx2.HTTPError as error:
            problem = describe_failure_to_reach(error)
        if problem:
            logger.warning("a message could not be sent to %s: %s", urlsplit(self._url).hostname, problem)
            self._on_end(f"a message could not be sent: {problem}")
