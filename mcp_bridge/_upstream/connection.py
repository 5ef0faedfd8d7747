"""Serves one connection to a server, from its start until it ends.

`serve_connection` opens the channel of an address, makes a session on it, and lets the caller serve the session. The
end may come from either side: the channel reports it to the ConnectionLink, or the caller's function returns.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import anyio

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.jsonrpc import RpcError
from mcp_bridge._protocol.peer.connection import Message
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._upstream.messages import Receiver
from mcp_bridge._upstream.session import SessionListener, UpstreamChannel, UpstreamSession
from mcp_bridge._upstream.trust.screening import shorten_text

logger = logging.getLogger("mcp_bridge.upstream")

Serve = Callable[[UpstreamSession, "ConnectionLink", anyio.CancelScope], Awaitable[None]]
"""Serves a session until its connection ends. The scope limits the start, so a function that serves longer has to move
its deadline once the session is ready."""


class UpstreamAddress(Protocol):
    """The address of a server. It opens channels."""

    @property
    def label(self) -> str:
        """The name for messages."""

    def open_channel(
        self, receive: Receiver, on_end: Callable[[str], None]
    ) -> AbstractAsyncContextManager[UpstreamChannel]:
        """Return a context manager for a channel."""


class ConnectionLink:
    """Connects a channel with its session: passes messages on, and ends the session with the channel.

    Attributes:
        session: The session, once the channel is open.
        opening: The scope of the whole connection. It is only cancelled if the channel ends before there is a session.
        began: The time on the event loop's clock at which the session was ready.
        ended: Set at the end of the connection.
        reason: Why the connection has ended.
    """

    def __init__(self, on_end: Callable[[str], None]) -> None:
        self._on_end = on_end
        self.session: UpstreamSession | None = None
        self.opening: anyio.CancelScope | None = None
        self.began: float | None = None
        self.ended = anyio.Event()
        self.reason = ""

    def handle_message(self, message: Message, origin: Any) -> bool:
        """Pass a message to the session. Return False for an unexpected response."""
        return self.session is not None and self.session.handle_message(message, origin)

    def end(self, reason: str) -> None:
        """End the session, unless it has ended."""
        if self.ended.is_set():
            return
        self.reason = reason
        self.ended.set()
        self._on_end(reason)
        if self.session is not None:
            self.session.connection.close()
        elif self.opening is not None:
            self.opening.cancel()


class NoListener:
    """Ignores messages outside of calls, on connections for a single request, and on further connections of a source.

    A source with a connection for each client has one for these messages, too: its first one.
    """

    def handle_list_change(self) -> None:
        """Do nothing."""

    def handle_resource_update(self, uri: str) -> None:
        """Do nothing."""


async def serve_connection(
    name: str,
    address: UpstreamAddress,
    listener: SessionListener,
    link: ConnectionLink,
    serve: Serve,
    start_timeout: float,
    *,
    has_one_client: bool = False,
) -> str:
    """Connect to a server, and serve until the connection ends. Return the reason of the end.

    Args:
        name: The name of the server in the settings.
        address: Where the server is.
        listener: Receives notifications outside of calls.
        link: Receives the end of the connection.
        serve: Serves the session.
        start_timeout: The seconds after which a start is abandoned.
        has_one_client: Whether all calls on the connection are of one client.
    """
    try:
        with anyio.CancelScope(deadline=anyio.current_time() + start_timeout) as limit:
            link.opening = limit
            async with own_tasks() as tasks, address.open_channel(link.handle_message, link.end) as channel:
                link.session = UpstreamSession(
                    name, channel, tasks, listener, has_one_client=has_one_client, on_rejection=link.end
                )
                try:
                    await serve(link.session, link, limit)
                except Exception as error:
                    # No message of a server may affect other sources.
                    link.end(_describe_error(error))
                finally:
                    link.end("the server is being closed")
    except Exception as error:
        link.end(_describe_error(error))
    # `link.end` may also have cancelled the scope, before its deadline. Once the session is ready, `serve` removes the
    # deadline.
    if limit.cancelled_caught and anyio.current_time() >= limit.deadline:
        return f"the server did not start within {start_timeout:g} seconds"
    return link.reason


def _describe_error(error: Exception) -> str:
    # A task group wraps the error of a task.
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, SourceError | RpcError):
        return shorten_text(str(error))
    logger.error("the connection to a server failed", exc_info=error)
    return f"the connection failed: {type(error).__name__}: {error}"
