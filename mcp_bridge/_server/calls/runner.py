"""CallRunner: runs each call of a client until it has a result or, in the stateless era, asks the client questions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, RpcError
from mcp_bridge._contracts.state import State
from mcp_bridge._contracts.store import Store
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._server.calls.context import ServedCall
from mcp_bridge._server.questions.handshake import QuestionTimeouts
from mcp_bridge._server.requests import Request
from mcp_bridge._server.watchdog import Watchdog

if TYPE_CHECKING:
    from mcp_bridge._policies.approvals.desk import QuestionDesk
    from mcp_bridge._server.calls.rounds import CallRounds


class CallRunner:
    """Runs the calls of tools/call, resources/read and prompts/get.

    Attributes:
        desk: Asks users on the page if the client of a call cannot ask them. None: no page asks questions.
    """

    def __init__(self, registry: ToolRegistry, state: State, *, audience: str) -> None:
        self._registry = registry
        self._state = state
        self._audience = audience
        self._timeouts = QuestionTimeouts(state.ttl)
        self.desk: QuestionDesk | None = None
        self._running: set[Request] = set()
        self._watchdog = Watchdog(self._running)
        self._tasks: TaskGroup | None = None

    @cached_property
    def store(self) -> Store:
        """The store for the rest of truncated results."""
        if self._state.store is not None:
            from mcp_bridge._storage.stores.fault_tolerant import FaultTolerantStore

            return FaultTolerantStore(self._state.store)
        # Most servers never truncate a result, and need no store.
        from mcp_bridge._storage.stores.memory import MemoryStore

        return MemoryStore()

    @cached_property
    def _session_store(self) -> Store:
        """The store for the state of sessions: the shared store, or a separate one, which large results cannot fill."""
        from mcp_bridge._storage.stores.memory import MemoryStore

        is_shared = self._state.store is not None and not isinstance(self._state.store, MemoryStore)
        return self.store if is_shared else MemoryStore()

    def get_session_store(self) -> Store:
        """Return the store of the state of sessions."""
        return self._session_store

    @cached_property
    def _rounds(self) -> CallRounds:
        # Only the first call that may ask needs this module, not the start.
        from mcp_bridge._server.calls.rounds import CallRounds

        shared_store = self.store if self._state.store is not None else None
        rounds = CallRounds(self._registry, self._state, shared_store, audience=self._audience)
        if self._tasks is not None:
            self._tasks.start_soon(rounds.run)
        return rounds

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the suspended calls and watch the event loop until cancelled."""
        self._timeouts.open()
        try:
            async with anyio.create_task_group() as self._tasks:
                await self._tasks.start(self._watchdog.run)
                if "_rounds" in vars(self):
                    await self._tasks.start(self._rounds.run)
                task_status.started()
        finally:
            self._tasks = None

    def reject_questions(self) -> None:
        """Expire the open questions of the handshake era and reject new ones, because no answer can arrive any more."""
        self._timeouts.close()

    def cancel_calls(self) -> None:
        """Cancel the calls in flight. Their clients receive an error."""
        self.reject_questions()
        for request in list(self._running):
            error = RpcError(CONNECTION_CLOSED, "The server shut down before this call was complete.")
            request.incoming.cancel(error)

    def abandon_calls(self) -> None:
        """Send the error to the clients of calls that do not end, without waiting for them."""
        for request in list(self._running):
            request.incoming.abandon()

    async def run_call(self, prepared: PreparedEntry, call: ToolCall, request: Request) -> ToolResult | dict[str, Any]:
        """Run a call. Returns its result, or an `input_required` result for the client.

        Raises RpcError for an invalid request state.
        """
        context = ServedCall(request, self._registry, self.get_session_store, self.desk, self._timeouts)
        self._running.add(request)
        try:
            if request.session is None and self._can_suspend(prepared, request):
                return await self._rounds.run_round(prepared, call, context, request)
            return await self._registry.run_prepared(prepared, call, context)
        finally:
            self._running.discard(request)
            context.has_ended = True
            if context.handshake_channel is not None:
                context.handshake_channel.close()

    def _can_suspend(self, prepared: PreparedEntry, request: Request) -> bool:
        """Return whether a call needs a SuspendedCall: it continues one, or it may ask and the client can answer."""
        if request.params.get("requestState") is not None:
            return True
        capabilities = request.capabilities
        if not capabilities or all(capabilities.get(name) is None for name in ("elicitation", "sampling", "roots")):
            return False
        return prepared.context is not None or self._registry.pipeline.may_ask(prepared)
