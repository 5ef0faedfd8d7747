"""Runs calls of clients, until a call has a result or asks the client questions."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskStatus
from mcp.server.context import ServerMiddleware
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from mcp_bridge.contracts.errors import InvalidOutput, QuestionExpired
from mcp_bridge.contracts.jsonrpc import INVALID_PARAMS
from mcp_bridge.contracts.state import State
from mcp_bridge.contracts.store import Store
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.pipeline.prepared import PreparedEntry
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.server.context import Request, ServedContext
from mcp_bridge.server.handshake import HandshakeChannel, QuestionTimeouts
from mcp_bridge.server.suspended_calls import CallState, SuspendedCall, SuspendedCalls
from mcp_bridge.server.watchdog import Watchdog
from mcp_bridge.stores.fault_tolerant import FaultTolerantStore
from mcp_bridge.stores.memory import MemoryStore
from mcp_bridge.wire.outcomes import to_error_result
from mcp_bridge.wire.protocol_versions import STATELESS, has_feature

logger = logging.getLogger("mcp_bridge.server")

_USED = "mcp-bridge/used/"


class CallRunner:
    """Runs tools/call, resources/read and prompts/get. `run` owns the calls that wait for answers."""

    def __init__(self, registry: ToolRegistry, state: State, *, audience: str) -> None:
        self._registry = registry
        self._ttl = state.ttl
        self._timeouts = QuestionTimeouts(state.ttl)
        self.store: Store = MemoryStore() if state.store is None else FaultTolerantStore(state.store)
        self._suspended = SuspendedCalls(size=state.parked, ttl=state.ttl)
        self._scopes: set[anyio.CancelScope] = set()
        self._watchdog = Watchdog(self._scopes)
        keys = list(state.keys) or [secrets.token_hex(32)]
        security = RequestStateSecurity(keys=keys, ttl=state.ttl)
        self.boundary: ServerMiddleware[Any] = RequestStateBoundary(security, default_audience=audience)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the suspended calls and watch the event loop until cancelled."""
        self._timeouts.open()
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._watchdog.run)
            await tasks.start(self._suspended.run)
            task_status.started()

    def reject_questions(self) -> None:
        """Expire the open questions of the handshake era and reject new ones: their answers could no longer arrive."""
        self._timeouts.close()

    def cancel_calls(self) -> None:
        """Cancel the calls in flight; their clients receive an error."""
        self.reject_questions()
        for scope in list(self._scopes):
            scope.cancel()

    async def run_call(self, prepared: PreparedEntry, call: ToolCall, request: Request) -> ToolResult | dict[str, Any]:
        """Run a call. Returns its result, or an `input_required` result for the client.

        Raises MCPError for an invalid request state, and for a call that the shutdown of the server has cancelled.
        """
        context = ServedContext(request, self._registry)
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                if not has_feature(request.protocol_version, STATELESS):
                    context.ask_through(HandshakeChannel(request, self._timeouts))
                elif self._can_suspend(prepared, request):
                    return await self._run_round(prepared, call, context, request)
                return await self._registry.run_prepared(prepared, call, context)
            finally:
                self._scopes.discard(scope)
        raise MCPError(CONNECTION_CLOSED, "The server shut down before this call was complete.")

    def _can_suspend(self, prepared: PreparedEntry, request: Request) -> bool:
        """Whether the call needs its own task: it continues an earlier one, or it may ask and the client can answer."""
        if (request.params or {}).get("requestState") is not None:
            return True
        client = request.session.client_capabilities
        if client is None or (client.elicitation is None and client.sampling is None and client.roots is None):
            return False
        return prepared.context is not None or self._registry.pipeline.has_middleware

    async def _run_round(
        self, prepared: PreparedEntry, call: ToolCall, context: ServedContext, request: Request
    ) -> ToolResult | dict[str, Any]:
        params = request.params or {}
        state, responses = params.get("requestState"), params.get("inputResponses") or {}
        if state is None:
            suspended = await self._start(prepared, call, context, CallState(), responses)
        else:
            resumed = await self._resume(prepared, call, context, CallState.from_text(state), responses)
            if isinstance(resumed, ToolResult):
                return resumed
            suspended = resumed
        suspended.context.set_request(request)
        return await self._wait_for_outcome(suspended, call)

    async def _start(
        self,
        prepared: PreparedEntry,
        call: ToolCall,
        context: ServedContext,
        state: CallState,
        offered: Mapping[str, Any],
    ) -> SuspendedCall:
        suspended = SuspendedCall(self._suspended, context, state, offered)
        context.needs, context.since = state.needs, state.since
        context.ask_through(suspended)
        await self._suspended.start(suspended, partial(self._registry.run_prepared, prepared, call, context))
        return suspended

    async def _resume(
        self,
        prepared: PreparedEntry,
        call: ToolCall,
        context: ServedContext,
        state: CallState,
        responses: Mapping[str, Any],
    ) -> SuspendedCall | ToolResult:
        """Return the suspended call or, if another instance suspended it, a new call with the answers so far."""
        try:
            is_unused = await self.store.add(_USED + state.handle, b"", self._ttl)
        except anyio.get_cancelled_exc_class():
            self._suspended.cancel_suspended(state.handle)
            raise
        if not is_unused:
            logger.warning("requestState rejected on %s %r: used before, or the store failed", call.kind, call.name)
            # the error that the SDK returns for a state that was changed, has expired or belongs to another request
            raise MCPError(INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
        if (suspended := self._suspended.take(state.handle)) is not None:
            suspended.answer(responses)
            return suspended
        if state.started:
            return to_error_result(
                QuestionExpired("This question has expired, and its call was cancelled. Retry the call.")
            )
        return await self._start(prepared, call, context, state.with_answers(responses), {})

    async def _wait_for_outcome(self, suspended: SuspendedCall, call: ToolCall) -> ToolResult | dict[str, Any]:
        """Wait for the result or for questions. Cancelling the request cancels its call."""
        try:
            result = await suspended.wait()
        except anyio.get_cancelled_exc_class():
            suspended.scope.cancel()
            raise
        if result is not None:
            return result
        requests = {name: pending.to_mcp() for name, pending in suspended.pending.items()}
        try:
            state = CallState.from_call(suspended, self._suspended.suspend(suspended)).to_text()
        except ValueError as error:  # the state of a `NeedsInput` is not JSON
            self._suspended.cancel_suspended(suspended.handle)
            return to_error_result(InvalidOutput([f"$.state: {error}"], tool=call.name, output=None))
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}
