"""Further connections to a server: those of single clients, and the one in the other era.

UpstreamSource has the first connection, whose offer is published. A call uses a further connection in two cases: if
`sessions` is `client` or a number and the client has a session, or if the era of the call differs from that of the
first connection. The first such call opens the connection, and others wait for it. If the tool has another definition
there, the call is rejected, because the model knows only the published one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from mcp_bridge._contracts.errors import DefinitionChanged, ToolUnavailable
from mcp_bridge._contracts.jsonrpc import RpcError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._runtime.session_limits import choose_session_to_end, end_idle_sessions, end_with_client, get_owner
from mcp_bridge._sources.upstream.entries import Forwarder
from mcp_bridge._sources.upstream.eras import EraChoice
from mcp_bridge._sources.upstream.options import SESSIONS, UpstreamOptions
from mcp_bridge._upstream.connection import ConnectionLink
from mcp_bridge._upstream.messages import NOT_RECEIVED
from mcp_bridge._upstream.session import Era, UpstreamSession

Key = tuple[str, str | None, Era]
"""The key of a further connection: the client's session, its principal, and the era. The shared connection in the other
era has the session ""."""

IDLE_TIMEOUT = 1800.0
"""Seconds without a call after which the connection of a client ends."""


class FirstConnection(Forwarder, Protocol):
    """The connection with the published offer. It also serves clients without a session."""

    choice: EraChoice

    async def require_session(self) -> UpstreamSession:
        """Return the session. Raises ToolUnavailable."""

    def check_accepted(self, method: str, params: Mapping[str, Any]) -> None:
        """Check a call, because the server may have a changed definition. Raises ToolUnavailable."""

    async def serve_further(
        self, link: ConnectionLink, era: Era, on_ready: Callable[[frozenset[str]], None], *, has_one_client: bool
    ) -> str:
        """Serve another connection until it ends. Return why it did.

        `on_ready` gets the names of the tools whose definitions differ from the published ones.
        """


class MissingEra(Exception):
    """The server does not speak the era of a further connection."""


class ClientUpstream:
    """A further connection, as a LimitedSession.

    Attributes:
        settled: Set when the connection is ready or has failed.
        is_ready: Whether the session could be used when the connection was settled.
        lacks_era: Whether the server does not speak the era of the connection.
        changed_tools: The tools whose definitions differ from the published ones.
    """

    def __init__(self, on_end: Callable[[str], None], owner: str | None) -> None:
        self.link = ConnectionLink(on_end)
        self.settled = anyio.Event()
        self.is_ready = False
        self.lacks_era = False
        self.changed_tools: frozenset[str] = frozenset()
        self.owner = owner
        self.calls = 0
        self.last_used = math.inf

    def handle_ready(self, changed_tools: frozenset[str]) -> None:
        """Release the calls that wait for the connection. Calls of changed tools will be rejected."""
        self.is_ready = True
        self.changed_tools = changed_tools
        self.settled.set()

    def release(self) -> None:
        """Note the end of a call."""
        self.calls -= 1
        self.last_used = anyio.current_time()


class ClientSessions:
    """The further connections to one server, by era and, unless `sessions` is `shared`, by session.

    A connection of a client ends when the client disconnects, when it has been idle for IDLE_TIMEOUT, or when another
    client needs its place (`choose_session_to_end`). The next call opens a new one.
    """

    def __init__(self, first: FirstConnection, options: UpstreamOptions) -> None:
        self.name = first.name
        self._first = first
        self._is_shared = options.sessions == "shared"
        self._session_limit = options.sessions if isinstance(options.sessions, int) else SESSIONS
        self._connections: dict[Key, ClientUpstream] = {}
        self._tasks: TaskGroup | None = None
        self._slots = anyio.Semaphore(self._session_limit)

    async def run(self) -> None:
        """Serve connections, and end those that are idle."""
        try:
            async with anyio.create_task_group() as self._tasks:
                await end_idle_sessions(self._connections, IDLE_TIMEOUT, lambda key: self._end(key, "it was idle"))
        finally:
            self._tasks = None

    async def forward(self, method: str, params: dict[str, Any], ctx: RunningCall) -> Mapping[str, Any]:
        """Send the request of a call to the connection for this client and era. Raises RpcError and CallError."""
        choice = self._first.choice
        session = "" if self._is_shared else ctx.session
        era = choice.choose_era(method, params, ctx)
        if era != choice.first_era:
            # Only the first connection shows which eras the server speaks, so the choice is repeated after it.
            await self._first.require_session()
            era = choice.choose_era(method, params, ctx)
        try:
            if not session and era == choice.first_era:
                result = await self._first.forward(method, params, ctx)
            else:
                key = (session, ctx.principal, era) if session else ("", None, era)
                result = await self._forward_further(key, method, params, ctx)
        except RpcError as error:
            # The next choice for this tool is the other era, so this ends after one repetition.
            if choice.check_result(era, method, params, error):
                return await self.forward(method, params, ctx)
            raise
        if choice.check_result(era, method, params, result):
            return await self.forward(method, params, ctx)
        return result

    async def _forward_further(
        self, key: Key, method: str, params: dict[str, Any], ctx: RunningCall
    ) -> Mapping[str, Any]:
        try:
            return await self._forward_once(key, method, params, ctx)
        except MissingEra:
            # From now on, the choice is the era of the first connection.
            return await self.forward(method, params, ctx)
        except RpcError as error:
            if error.code != NOT_RECEIVED:
                raise
        # The server has not begun the call, so it can be repeated.
        return await self._forward_once(key, method, params, ctx)

    async def request_completion(self, params: dict[str, Any]) -> Mapping[str, Any]:
        """Send completion/complete to the first connection. Raises RpcError and ToolUnavailable."""
        return await self._first.request_completion(params)

    async def _forward_once(self, key: Key, method: str, params: dict[str, Any], ctx: RunningCall) -> Mapping[str, Any]:
        if key not in self._connections:
            # If the first connection fails, a further one would fail as well.
            await self._first.require_session()
        # Another call may have opened the connection in the meantime.
        upstream = self._connections.get(key) or self._open_connection(key, ctx)
        upstream.calls += 1
        try:
            await upstream.settled.wait()
            session = upstream.link.session
            if upstream.lacks_era:
                raise MissingEra
            if session is None or not upstream.is_ready:
                problem = f"The server '{self.name}' is not available: {upstream.link.reason}. Retry later."
                raise ToolUnavailable(problem)
            self._first.check_accepted(method, params)
            if method == "tools/call" and params["name"] in upstream.changed_tools:
                raise DefinitionChanged(_describe_change(params["name"], self.name))
            return await session.relay(method, params, ctx)
        finally:
            upstream.release()

    def _open_connection(self, key: Key, ctx: RunningCall) -> ClientUpstream:
        if self._tasks is None:
            raise ToolUnavailable(f"The server '{self.name}' is not available: the bridge is shutting down.")
        session, _, _ = key
        owner = get_owner(ctx) if session else None
        label = f"connections to the server '{self.name}'"
        ended_key = choose_session_to_end(self._connections.items(), self._session_limit, owner, label)
        if ended_key is not None:
            self._end(ended_key, "another client needs its connection")
        upstream = self._connections[key] = ClientUpstream(lambda reason: self._forget(key, upstream), owner)
        self._tasks.start_soon(self._run_connection, key, upstream)
        if session:
            end_with_client(ctx, self._connections, key, lambda key: self._end(key, "the client has disconnected"))
        return upstream

    async def _run_connection(self, key: Key, upstream: ClientUpstream) -> None:
        session, _, era = key
        try:
            # A connection that is being closed still has its process, so its slot is not free yet.
            async with self._slots:
                if not upstream.link.ended.is_set():
                    upstream.link.reason = await self._first.serve_further(
                        upstream.link, era, upstream.handle_ready, has_one_client=bool(session)
                    )
        except MissingEra:
            upstream.lacks_era = True
            self._first.choice.note_missing_era()
        finally:
            self._forget(key, upstream)
            upstream.settled.set()

    def _forget(self, key: Key, upstream: ClientUpstream) -> None:
        """Remove a connection, unless another one has its key."""
        if self._connections.get(key) is upstream:
            del self._connections[key]

    def _end(self, key: Key, reason: str) -> None:
        self._connections[key].link.end(reason)


def _describe_change(tool: str, server: str) -> str:
    return (
        f"Tool '{tool}' of the server '{server}' is not available: in the client's own connection, its definition "
        "differs from the published one. To review it, the user has to restart the bridge."
    )
