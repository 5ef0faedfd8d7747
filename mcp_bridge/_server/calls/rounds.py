"""CallRounds: runs calls of the stateless era in rounds. A round ends with a result, or with questions for the client.

`suspended_calls` describes such a call. This module connects its parts: it opens the sealed state of a
request, resumes or starts the call, waits for the outcome, and seals the next state.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskStatus

from mcp_bridge._contracts.errors import InvalidOutput, MissingCapability, Overloaded, QuestionExpired
from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, RpcError
from mcp_bridge._contracts.state import State
from mcp_bridge._contracts.store import Store
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._protocol.wire.outcomes import to_error_result
from mcp_bridge._server.calls.context import ServedCall
from mcp_bridge._server.calls.suspended_calls import CallState, SuspendedCall, SuspendedCalls
from mcp_bridge._server.questions.request_state import MARKS, StateSealer, StateUse, UsedStates
from mcp_bridge._server.questions.requests import is_capability_missing, merge_capabilities
from mcp_bridge._server.requests import Request

logger = logging.getLogger("mcp_bridge.server")


class CallRounds:
    """Runs the rounds of calls. All instances with the same `store` together accept each request state once."""

    def __init__(self, registry: ToolRegistry, state: State, store: Store | None, *, audience: str) -> None:
        self._registry = registry
        self._used = UsedStates(store, state.ttl, limit=max(MARKS, 2 * state.suspended))
        self._suspended = SuspendedCalls(size=state.suspended, ttl=state.ttl, is_shared=store is not None)
        self._sealer = StateSealer(state.keys, ttl=state.ttl, audience=audience, prefix=state.prefix)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the suspended calls until cancelled."""
        await self._suspended.run(task_status=task_status)

    async def run_round(
        self, prepared: PreparedEntry, call: ToolCall, context: ServedCall, request: Request
    ) -> ToolResult | dict[str, Any]:
        """Run a call until it has a result or asks. Raises RpcError for an invalid request state."""
        sealed_state = request.params.get("requestState")
        responses = request.params.get("inputResponses") or {}
        if sealed_state is None:
            call_task = await self._start(prepared, call, context, CallState(), responses)
        else:
            state = CallState.from_text(self._sealer.open(sealed_state, **_bind(request, context)))
            resumed = await self._resume(prepared, call, context, state, responses)
            if isinstance(resumed, ToolResult):
                return resumed
            call_task = resumed
        call_task.context.set_request(request)
        return await self._wait_for_outcome(call_task, call, request)

    async def _start(
        self,
        prepared: PreparedEntry,
        call: ToolCall,
        context: ServedCall,
        state: CallState,
        responses: Mapping[str, Any],
    ) -> SuspendedCall:
        suspended = SuspendedCall(self._suspended, context, state, responses)
        context.needs, context.since = state.needs, state.since
        context.ask_through(suspended)
        await self._suspended.start(suspended, partial(self._registry.run_prepared, prepared, call, context))
        return suspended

    async def _resume(
        self,
        prepared: PreparedEntry,
        call: ToolCall,
        context: ServedCall,
        state: CallState,
        responses: Mapping[str, Any],
    ) -> SuspendedCall | ToolResult:
        """Return the suspended call or, if another instance suspended it, a new call with the answers so far."""
        try:
            use = await self._used.use(state.handle, context.client)
        except anyio.get_cancelled_exc_class():
            # The state counts as used now, so no request could resume the call.
            self._suspended.cancel_suspended(state.handle)
            raise
        if use is StateUse.NO_ROOM:
            return to_error_result(_make_overload())
        if use is StateUse.REPEATED:
            logger.warning("requestState rejected on %s %r: used before, or the store failed", call.kind, call.name)
            # The error is the same as for a state that was changed, has expired, or belongs to another request.
            raise RpcError(INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
        suspended = self._suspended.take(state.handle)
        if suspended is not None:
            suspended.answer(responses)
            return suspended
        if state.started:
            return to_error_result(
                QuestionExpired("This question has expired, and its call was cancelled. Retry the call.")
            )
        return await self._start(prepared, call, context, state.with_answers(responses), {})

    async def _wait_for_outcome(
        self, suspended: SuspendedCall, call: ToolCall, request: Request
    ) -> ToolResult | dict[str, Any]:
        """Wait for the result or for questions. Cancelling the request cancels its call."""
        try:
            result = await suspended.wait()
        except anyio.get_cancelled_exc_class():
            suspended.scope.cancel()
            raise
        if result is not None:
            return result
        # The code has checked the capabilities of an earlier request, but each request declares them again.
        missing_capabilities = []
        for pending in suspended.pending.values():
            if is_capability_missing(request.capabilities, pending.request.required):
                missing_capabilities.append(pending.request.required)
        if missing_capabilities:
            suspended.scope.cancel()
            return to_error_result(MissingCapability(merge_capabilities(missing_capabilities)))
        if not self._used.has_room(suspended.context.client, self._suspended.count):
            suspended.scope.cancel()
            return to_error_result(_make_overload())
        requests = {name: pending.to_mcp() for name, pending in suspended.pending.items()}
        try:
            state = CallState.from_call(suspended, self._suspended.suspend(suspended)).to_text()
        except ValueError as error:
            # The state of a `NeedsInput` is not JSON.
            self._suspended.cancel_suspended(suspended.handle)
            return to_error_result(InvalidOutput([f"$.state: {error}"], tool=call.name, output=None))
        sealed_state = self._sealer.seal(state, **_bind(request, suspended.context))
        return {"resultType": "input_required", "inputRequests": requests, "requestState": sealed_state}


def _make_overload() -> Overloaded:
    return Overloaded("The server is at capacity: too many questions were answered recently. Retry later.")


def _bind(request: Request, context: ServedCall) -> dict[str, Any]:
    """Return the values that bind a request state to its request."""
    return {"method": request.incoming.method, "params": request.params, "principal": context.principal}
