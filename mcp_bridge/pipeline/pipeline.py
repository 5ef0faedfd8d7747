"""The order of one call, written once: `Pipeline.layers` is the whole story, from the outside in."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
from anyio import get_cancelled_exc_class

from mcp_bridge.contracts.content import Text
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import (
    CallError,
    InvalidArguments,
    InvalidOutput,
    QuestionExpired,
    ToolFailed,
    ToolTimeout,
)
from mcp_bridge.contracts.extension import CallNext, Middleware, Stage
from mcp_bridge.contracts.question import NeedsInput
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.pipeline.concurrency import Places
from mcp_bridge.pipeline.prepared import Prepared
from mcp_bridge.runtime.deadline import Deadline
from mcp_bridge.runtime.event_loop import being_cancelled, cancelled_itself, uncancel
from mcp_bridge.runtime.thread_pool import Threads
from mcp_bridge.schema.extent import Extent
from mcp_bridge.wire.outcomes import failure
from mcp_bridge.wire.values import Unreadable, text_of, to_result

logger = logging.getLogger("mcp_bridge.calls")

ROUNDS = 100
"""How often a handler may say that it needs something; a client that answers by itself would go on for ever."""

Layer = Callable[[ToolCall, CallContext, CallNext], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """What one tool may take, where that is not what all may: `timeout` in seconds, calls at once."""

    timeout: float | None = None
    concurrency: int | None = None


class Pipeline:
    """What every call goes through. One pipeline serves all tools of an endpoint.

    `timeout` is in seconds (None: no limit); `threads` bounds the synchronous handlers that run at once, `concurrency`
    all calls that do, `queue` those that wait for it; `arguments` is how much data a call may bring. `tools` has limits
    of single tools, by patterns of their names, of which the first that fits holds. `expose_errors` shows the text of
    unexpected exceptions to clients.
    """

    def __init__(
        self,
        middleware: Sequence[Middleware] = (),
        *,
        timeout: float | None = 60.0,
        threads: int = 32,
        concurrency: int = 64,
        queue: int = 1024,
        arguments: Extent | None = None,
        tools: Mapping[str, ToolLimits] | None = None,
        expose_errors: bool = False,
    ) -> None:
        self.timeout = timeout
        self.threads = Threads(threads)
        self._places = Places(concurrency, queue=queue)
        self._queue = queue
        self._arguments = arguments or Extent()
        self._tools = dict(tools or {})
        self.expose_errors = expose_errors
        self._middleware = tuple(middleware)

    @property
    def has_middleware(self) -> bool:
        """Whether anything but the tool itself may ask the client something."""
        return bool(self._middleware)

    def layers(self, tool: Prepared) -> list[Layer]:
        """The order of one call of `tool`, outermost first."""
        observers, admitters = self._at(Stage.OBSERVE), self._at(Stage.ADMIT)
        decide, attempt = self._at(Stage.DECIDE), self._at(Stage.ATTEMPT)
        deciders = [*decide, *attempt]
        validate_input = partial(_validate_input, tool, self._arguments)
        recheck_output = partial(_recheck_output, tool)
        outer: list[Layer] = [self._map_errors, recheck_output]
        limits = self._limits_of(tool.name)
        return [
            *(outer if observers else []),  # their own errors end here too
            *observers,  # see results, never exceptions
            self._map_errors,
            *([recheck_output] if admitters or deciders else []),
            *admitters,
            validate_input,
            *([partial(_lend_check, partial(_check_input, tool, self._arguments))] if decide else []),
            *decide,
            *([self._name_errors] if decide else []),
            *attempt,
            *([validate_input] if deciders else []),  # again, because a decider may have changed them
            *([partial(self._deadline, limits.timeout)] if limits.timeout is not None else []),
            *self._places_of(tool.name, limits),
            partial(_validate_output, tool),
            partial(self._run, tool),
        ]

    async def call(self, tool: Prepared, call: ToolCall, ctx: CallContext) -> ToolResult:
        """Carry out one call. Never raises, except when the call's surroundings are being cancelled."""
        composed = tool.composed.get(self)
        if composed is None:
            composed = tool.composed[self] = _compose(self.layers(tool))
        return await composed(call, ctx)

    def _limits_of(self, name: str) -> ToolLimits:
        own = next((limits for pattern, limits in self._tools.items() if fnmatchcase(name, pattern)), ToolLimits())
        return own if own.timeout is not None else replace(own, timeout=self.timeout)

    def _places_of(self, name: str, limits: ToolLimits) -> list[Layer]:
        if limits.concurrency is None:
            return [self._place]
        return [Places(limits.concurrency, queue=self._queue, of=f" of '{name}'"), self._place]

    def _place(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> Awaitable[ToolResult]:
        """A call made by a call runs in its caller's place: were it to wait for one, both might wait for ever."""
        return call_next(call, ctx) if ctx.started else self._places(call, ctx, call_next)

    def _at(self, stage: Stage) -> list[Layer]:
        return [middleware for middleware in self._middleware if middleware.stage == stage]

    async def _map_errors(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        """The call boundary: the one place that catches, so that nothing a tool does gets any further."""
        started = time.monotonic()
        try:
            return _timed(await call_next(call, ctx), started)
        except BaseException as error:
            if being_cancelled(error):
                if (alone := _cancellation(error)) is not error:
                    raise alone from None
                raise
            return _timed(self._failure(call, error), started)
        finally:
            if (task := cancelled_itself()) is not None:
                await uncancel(task)

    async def _name_errors(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        """Those who decide see a CallError, whatever a tool raises, and no more of that than the client."""
        try:
            return await call_next(call, ctx)
        except BaseException as error:
            if isinstance(error, CallError) or being_cancelled(error):
                raise
            raise self._unexpected(call, error) from error
        finally:
            if (task := cancelled_itself()) is not None:
                await uncancel(task)

    def _failure(self, call: ToolCall, error: BaseException) -> ToolResult:
        return failure(error if isinstance(error, CallError) else self._unexpected(call, error))

    def _unexpected(self, call: ToolCall, error: BaseException) -> ToolFailed:
        reference = uuid4().hex[:12]
        logger.error("%s %r failed, reference %s", call.kind, call.name, reference, exc_info=error)
        shown = f"{type(error).__name__}: {error}" if self.expose_errors else ""
        return ToolFailed(call.name, reference, shown=shown, kind=call.kind)

    async def _deadline(self, timeout: float, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        outer, end = ctx.deadline, anyio.current_time() + timeout
        deadline = Deadline(anyio.CancelScope(deadline=end if outer is None else min(end, outer)))
        ctx.holds.append(deadline)
        try:
            with deadline.scope:
                return await call_next(call, ctx)
        finally:
            ctx.holds.remove(deadline)
        raise ToolTimeout(call.name, timeout, kind=call.kind)  # only a scope that ended its own block gets here

    async def _run(self, tool: Prepared, call: ToolCall, ctx: CallContext, _: CallNext) -> ToolResult:
        answer = await self._answer(tool, call, ctx)
        try:
            return tool.reads(answer, call)
        except Unreadable as error:
            raise InvalidOutput([f"$: {error}"], tool=call.name, output=None, kind=call.kind) from error

    async def _answer(self, tool: Prepared, call: ToolCall, ctx: CallContext) -> Any:
        """The handler's answer; it is called again with what it needs until that is no `NeedsInput`.

        Between two runs of the outermost handler the call stands nowhere but in `ctx.needs`, so that another
        instance may take it up there.
        """
        outermost, needs = not ctx.started, ctx.needs
        for _ in range(ROUNDS):
            if needs is not None:
                ctx.answers, ctx.state = await ctx.put(needs.questions), needs.state
            ctx.started, ctx.needs = True, None
            answer = await tool.answer(tool.bound(call.arguments, ctx), self.threads, ctx.holds)
            if not isinstance(answer, NeedsInput):
                return answer
            needs = answer
            if outermost:
                ctx.started, ctx.needs = False, needs
        raise QuestionExpired(f"{call.kind.capitalize()} '{call.name}' has asked {ROUNDS} times and does not end.")


async def _validate_input(
    tool: Prepared, most: Extent, call: ToolCall, ctx: CallContext, call_next: CallNext
) -> ToolResult:
    _check_input(tool, most, call)
    return await call_next(call, ctx)


def _lend_check(check: Callable[[ToolCall], None], call: ToolCall, ctx: CallContext, call_next: CallNext) -> Any:
    """Whoever changes arguments may know whether they fit before a person is asked about them."""
    ctx.check = check
    return call_next(call, ctx)


def _check_input(tool: Prepared, most: Extent, call: ToolCall) -> None:
    if (excess := most.excess(call.arguments)) is not None:
        raise InvalidArguments([f"$: {excess}"], tool=call.name, kind=call.kind)
    if not tool.input.is_valid(call.arguments):
        raise InvalidArguments(tool.input.check(call.arguments).errors, tool=call.name, kind=call.kind)


async def _validate_output(tool: Prepared, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
    result = await call_next(call, ctx)
    if result.success and tool.output_schema and not tool.output.is_valid(result.output):
        problems = tool.output.check(result.output).errors
        raise InvalidOutput(problems, tool=call.name, output=result.output)
    return result


async def _recheck_output(tool: Prepared, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
    """A result that a policy changed so that it no longer fits loses its structured part and stays text."""
    result = to_result(await call_next(call, ctx))
    if result.success and tool.output_schema and not tool.output.is_valid(result.output):
        return replace(result, output=None, content=result.content or (Text(text_of(result.output)),))
    return result


def _timed(result: ToolResult, started: float) -> ToolResult:
    return replace(result, duration_ms=(time.monotonic() - started) * 1000)


def _cancellation(error: BaseException) -> BaseException:
    """The cancellation alone: what a tool raises beside it while it is being cancelled ends nothing else."""
    if isinstance(error, BaseExceptionGroup):
        cancelled, others = error.split(get_cancelled_exc_class())
        if cancelled is not None and others is not None:
            logger.error("a call that was being cancelled raised something else", exc_info=others)
            return cancelled
    return error


def _compose(layers: Sequence[Layer]) -> CallNext:
    composed: CallNext = _nothing
    for layer in reversed(layers):
        composed = partial(_step, layer, composed)
    return composed


async def _nothing(call: ToolCall, ctx: CallContext) -> ToolResult:
    raise AssertionError("the innermost layer runs the tool")  # pragma: no cover - it calls nothing further


def _step(layer: Layer, call_next: CallNext, call: ToolCall, ctx: CallContext) -> Any:
    return layer(call, ctx, call_next)
