"""Calls: from a client's request to its result, or in the stateless era to the questions that it has for the client."""

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
from mcp_bridge.contracts.state import State
from mcp_bridge.contracts.store import Store
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.pipeline.prepared import Prepared
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.server.context import Request, ServedContext
from mcp_bridge.server.handshake import Handshake, Waits
from mcp_bridge.server.parking import Park, Parked
from mcp_bridge.server.rounds import Round
from mcp_bridge.server.watchdog import Watchdog
from mcp_bridge.stores.memory import MemoryStore
from mcp_bridge.stores.patient import PatientStore
from mcp_bridge.wire.outcomes import INVALID_PARAMS, failure
from mcp_bridge.wire.versions import STATELESS, carries

logger = logging.getLogger("mcp_bridge.server")

_USED = "mcp-bridge/used/"


class Calls:
    """The way in for tools/call, resources/read and prompts/get. `run` owns the calls that wait for answers."""

    def __init__(self, registry: ToolRegistry, state: State, *, audience: str) -> None:
        self._registry = registry
        self._watchdog = Watchdog()
        self._ttl = state.ttl
        self._waits = Waits(state.ttl)
        self.store: Store = MemoryStore() if state.store is None else PatientStore(state.store)
        self._park = Park(size=state.parked, ttl=state.ttl)
        self._open: set[anyio.CancelScope] = set()
        keys = list(state.keys) or [secrets.token_hex(32)]
        security = RequestStateSecurity(keys=keys, ttl=state.ttl)
        self.boundary: ServerMiddleware[Any] = RequestStateBoundary(security, default_audience=audience)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the calls until cancelled, and watch them."""
        self._waits.begin()
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._watchdog.run)
            await tasks.start(self._park.run)
            task_status.started()

    def end_questions(self) -> None:
        """Have open questions of the handshake era end, and no new ones begin: their answers would not be heard."""
        self._waits.end()

    def end(self) -> None:
        """End the calls in flight: their clients get an error that says so."""
        self.end_questions()
        for scope in list(self._open):
            scope.cancel()

    async def answer(self, prepared: Prepared, call: ToolCall, request: Request) -> ToolResult | dict[str, Any]:
        """The call's result, or an `input_required` result for the client.

        Raises MCPError for a state not to take, and for a call that the end of the bridge has cancelled.
        """
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                return await self._answer(prepared, call, request)
            finally:
                self._open.discard(scope)
        raise MCPError(CONNECTION_CLOSED, "The bridge has ended before this call was done.")

    async def _answer(self, prepared: Prepared, call: ToolCall, request: Request) -> ToolResult | dict[str, Any]:
        context = ServedContext(request, self._registry)
        self._watchdog.enter()
        try:
            if not carries(request.protocol_version, STATELESS):
                context.ask_through(Handshake(request, self._waits))
            elif self._has_rounds(prepared, request):
                return await self._round(prepared, call, context, request)
            return await self._registry.carry_out(prepared, call, context)
        finally:
            self._watchdog.leave()

    def _has_rounds(self, prepared: Prepared, request: Request) -> bool:
        """Whether the call needs a task of its own: it goes on, or its client can be asked and somebody could ask."""
        if (request.params or {}).get("requestState") is not None:
            return True
        can = request.session.client_capabilities
        if can is None or (can.elicitation is None and can.sampling is None and can.roots is None):
            return False
        return prepared.context is not None or self._registry.pipeline.has_middleware

    async def _round(
        self, prepared: Prepared, call: ToolCall, context: ServedContext, request: Request
    ) -> ToolResult | dict[str, Any]:
        given = request.params or {}
        state, responses = given.get("requestState"), given.get("inputResponses") or {}
        if state is None:
            parked = await self._begin(prepared, call, context, Round(), responses)
        else:
            taken = await self._take_up(prepared, call, context, Round.from_state(state), responses)
            if isinstance(taken, ToolResult):
                return taken
            parked = taken
        parked.context.serve(request)
        return await self._outcome(parked, call)

    async def _begin(
        self, prepared: Prepared, call: ToolCall, context: ServedContext, start: Round, offered: Mapping[str, Any]
    ) -> Parked:
        parked = Parked(self._park, context, start.answered, offered, new=start.new, seconds=start.seconds)
        context.needs, context.since = start.needs, start.since
        context.ask_through(parked)
        await self._park.begin(parked, partial(self._registry.carry_out, prepared, call, context))
        return parked

    async def _take_up(
        self, prepared: Prepared, call: ToolCall, context: ServedContext, last: Round, responses: Mapping[str, Any]
    ) -> Parked | ToolResult:
        """The call that waits here; or where it waited on another instance, a new one with what was answered."""
        try:
            unused = await self.store.add(_USED + last.handle, b"", self._ttl)
        except anyio.get_cancelled_exc_class():
            self._park.drop(last.handle)
            raise
        if not unused:
            logger.warning("requestState rejected on %s %r: used before, or the store failed", call.kind, call.name)
            # as the SDK answers for states that were changed, are expired, or belong to another request
            raise MCPError(INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
        if (parked := self._park.take(last.handle)) is not None:
            parked.answer(responses)
            return parked
        if last.started:
            return failure(QuestionExpired("This question has expired, and the call with it. Call again."))
        return await self._begin(prepared, call, context, last.with_answers(responses), {})

    async def _outcome(self, parked: Parked, call: ToolCall) -> ToolResult | dict[str, Any]:
        """Wait for the result or the questions; a request that is given up takes its call with it."""
        try:
            result = await parked.next()
        except anyio.get_cancelled_exc_class():
            parked.scope.cancel()
            raise
        if result is not None:
            return result
        requests = {name: pending.to_mcp() for name, pending in parked.pending.items()}
        try:
            state = Round.of(parked, self._park.keep(parked)).to_state()
        except ValueError as error:  # what a `NeedsInput` wants to keep is no JSON
            self._park.drop(parked.handle)
            return failure(InvalidOutput([f"$.state: {error}"], tool=call.name, output=None))
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}
