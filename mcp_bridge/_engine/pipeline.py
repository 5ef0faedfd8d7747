"""The steps of one call. `Pipeline.layers` lists them in order, from the outside in.

A layer is a function of the call, its context, and the rest of the call as `call_next`. It may change the call before
it calls `call_next`, and the result afterwards. `compose` joins the layers of an entry once, so a call costs only the
layers that its entry needs:

    map errors -> validate input -> limit concurrent calls -> limit time -> validate output -> run the handler

Policies have their places between these (docs/architecture.md, "The order of one call"). Errors travel outwards as
exceptions. `_map_errors` turns each into a result, and lets only the cancellation of the call itself pass. If policies
decide about a call, `_map_unexpected_errors` is within them, so that they see what the client will see.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from anyio import get_cancelled_exc_class

from mcp_bridge._contracts.errors import (
    CallError,
    InvalidOutput,
    Overloaded,
    QuestionExpired,
    ToolCrashed,
    ToolFailed,
    ToolTimeout,
)
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.policy import CallNext, Layer, Middleware, Policy, Stage
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.binding import BoundPolicy, bind_policies, to_policy
from mcp_bridge._engine.observation import CallObserver
from mcp_bridge._engine.prepared import PreparedEntry, compose_layer, run_nothing
from mcp_bridge._json_schema.size_limits import SizeLimits
from mcp_bridge._protocol.wire.outcomes import to_error_result
from mcp_bridge._protocol.wire.values import Unreadable, to_result
from mcp_bridge._runtime.cancellation import CancellationWatch, DeadlineClock
from mcp_bridge._runtime.limiter import Limiter, LimiterFull, Quota, Slot, compute_share
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.third_party import describe_error
from mcp_bridge._runtime.thread_pool import ThreadPool

logger = logging.getLogger("mcp_bridge.calls")

ROUNDS = 100
"""How often a handler may return `NeedsInput` in one call. Without a limit, a client that answers automatically would
never stop."""


class ToolLimits(NamedTuple):
    """The limits of one tool. `timeout` is in seconds. With None, the limit of all tools applies."""

    timeout: float | None = None
    concurrency: int | None = None


class Pipeline:
    """The policy of every call: middleware, limits and error handling. One pipeline serves all tools of an endpoint.

    Args:
        middleware: Middleware and policies, each at its `stage`; within a stage they run in the given order.
        timeout: The seconds that a call may run, and also the seconds that it may wait before; None for no limit.
        threads: The maximum number of concurrent synchronous handlers.
        concurrency: The maximum number of concurrent calls. Each tool, and each client, has at most its share of these
            calls and of the threads (`compute_share`).
        queue: The maximum number of waiting calls. Further calls fail with `overloaded`.
        arguments: The size limits of a call's arguments.
        tools: Limits of single tools, by patterns of their names. The first matching pattern applies.
        expose_errors: Show clients the text of unexpected exceptions.

    Attributes:
        policies: The policies, including those of middleware.
        redactor: Redacts arguments in the log.
        on_exception: Called with each unexpected exception of a tool and its reference, after it was logged.
        observer: Observes every call; see `observe_calls`. Without one, calls pass no such layer.
        composition: The key under which entries keep their composed layers. A new key makes them compose again.
    """

    def __init__(
        self,
        middleware: Sequence[Middleware | Policy] = (),
        *,
        timeout: float | None = 60.0,
        threads: int = 64,
        concurrency: int = 1024,
        queue: int = 1024,
        arguments: SizeLimits | None = None,
        tools: Mapping[str, ToolLimits] | None = None,
        expose_errors: bool = False,
    ) -> None:
        self.timeout = timeout
        self.threads = ThreadPool(threads)
        self._slots = Limiter(concurrency, queue=queue, lendable=concurrency)
        self._share = compute_share(concurrency)
        self._deadlines = DeadlineClock()
        self._arguments = arguments or SizeLimits()
        self._tools = dict(tools or {})
        self.expose_errors = expose_errors
        self.redactor = Redactor()
        self.on_exception: Callable[[BaseException, str], None] | None = None
        self.observer: CallObserver | None = None
        self.composition = object()
        self.policies = tuple(map(to_policy, middleware))

    def observe_calls(self, observer: CallObserver) -> None:
        """Report every call to `observer` from now on."""
        self.observer = observer
        self.composition = object()

    def with_timeout(self, timeout: float) -> Pipeline:
        """Return a copy of this pipeline with another time limit for all tools. Both share slots and threads."""
        pipeline = copy(self)
        pipeline.timeout = timeout
        pipeline.composition = object()
        pipeline._tools = {pattern: limits._replace(timeout=None) for pattern, limits in self._tools.items()}
        return pipeline

    @property
    def injects_texts(self) -> bool:
        """Whether a policy may add texts for the model to results."""
        return any(policy.injects_texts for policy in self.policies)

    def layers(self, tool: PreparedEntry) -> list[Layer]:
        """Return the layers of a call of `tool`, outermost first."""
        bindings = self.bind_policies(tool)
        changing = [binding for binding in bindings if not binding.policy.is_passive]
        decides = any(binding.policy.stage == Stage.DECIDE for binding in changing)
        validate_input = partial(_validate_input, tool, self._arguments)

        def list_policies(stage: Stage) -> list[Layer]:
            stage_bindings = [binding for binding in bindings if binding.policy.stage == stage]
            return list(_recheck_policies(tool, changing, stage_bindings))

        layers: list[Layer] = [self._map_errors]
        if observers := list_policies(Stage.OBSERVE):
            # Observers see results, never exceptions. The outermost layer maps the errors of the observers themselves.
            layers += [*observers, partial(self._map_errors, is_outermost=False)]
        layers += list_policies(Stage.ADMIT)
        layers.append(validate_input)
        if decides:
            layers.append(partial(_provide_checks, tool, self._arguments))
        layers += list_policies(Stage.DECIDE)
        if decides:
            layers.append(self._map_unexpected_errors)
        layers += list_policies(Stage.ATTEMPT)
        if any(binding.policy.stage >= Stage.DECIDE for binding in changing):
            # These policies may have changed the arguments.
            layers.append(validate_input)
        timeout, concurrency = self._find_limits(tool.name)
        key = f"entry/{tool.name}"
        # Nested calls of a tool are limited only if the settings limit the tool.
        if concurrency is None:
            quotas: tuple[Quota, ...] = ((key, self._share),)
            nested_quotas: tuple[Quota, ...] = ()
        else:
            quotas = ((key, min(concurrency, self._share)),)
            nested_quotas = ((key, concurrency),)
        layers.append(partial(self._limit_calls, quotas, nested_quotas, timeout))
        if timeout is not None:
            layers.append(partial(self._limit_time, timeout))
        if tool.output_schema:
            layers.append(partial(_validate_output, tool))
        layers.append(partial(self._run_handler, tool))
        return layers

    def bind_policies(self, tool: PreparedEntry) -> list[BoundPolicy]:
        """Return the applicable policies in their order. Each decides once per tool."""
        bound = tool.bound.get(self)
        if bound is None:
            bound = tool.bound[self] = bind_policies(self.policies, tool.entry)
        return bound

    def compose(self, tool: PreparedEntry) -> CallNext:
        """Compose the layers of a tool to one function, once per tool.

        The function never raises, except when the task that runs the call is being cancelled.
        """
        if self.composition in tool.composed:
            return tool.composed[self.composition]
        layers = self.layers(tool)
        run: CallNext = run_nothing
        for layer in reversed(layers):
            run = compose_layer(layer, run)
        if self.observer is not None:
            # Most servers do not need this module.
            from mcp_bridge._engine.observation import observe_calls

            names = {id(layer): policy.name for policy, layer in self.bind_policies(tool)}
            run = observe_calls(self.observer, layers, names, run)
        tool.composed[self.composition] = run
        return run

    def may_ask(self, tool: PreparedEntry) -> bool:
        """Whether a policy may ask the user about calls of this entry; decided once per entry."""
        may_ask = tool.may_ask.get(self)
        if may_ask is None:
            may_ask = tool.may_ask[self] = any(policy.may_ask for policy, _ in self.bind_policies(tool))
        return may_ask

    def _find_limits(self, name: str) -> ToolLimits:
        for pattern, limits in self._tools.items():
            if fnmatchcase(name, pattern):
                return limits if limits.timeout is not None else limits._replace(timeout=self.timeout)
        return ToolLimits(timeout=self.timeout)

    async def _map_errors(
        self, call: ToolCall, ctx: RunningCall, call_next: CallNext, *, is_outermost: bool = True
    ) -> ToolResult:
        """Turn every exception into a result. This is the call boundary, so no tool can take the server down.

        Only the outermost of these layers reports the end of the call to the observer and to the log.
        """
        start = time.monotonic()
        watch = CancellationWatch()
        # This stays None if the call is cancelled.
        final_result: ToolResult | None = None
        try:
            try:
                result = await watch.run(call_next(call, ctx))
            except BaseException as error:
                if watch.is_cancelled_by_others(error):
                    if (cancellation := _extract_cancellation(error)) is not error:
                        raise cancellation from None
                    raise
                visible_error = error if isinstance(error, CallError) else self._report_unexpected(call, ctx, error)
                result = to_error_result(visible_error)
            if watch.own_requests:
                await watch.reset()
            result.duration_ms = (time.monotonic() - start) * 1000
            final_result = result
            return result
        finally:
            if is_outermost:
                if ctx.observation is not None:
                    ctx.observation.end(final_result)
                if logger.isEnabledFor(logging.INFO):
                    # The default log level does not need this module.
                    from mcp_bridge._engine.call_log import log_call

                    log_call(call, ctx, time.monotonic() - start, final_result, self.redactor)

    async def _map_unexpected_errors(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Show policies of the stage DECIDE every exception as a CallError, with no more detail than clients get."""
        watch = CancellationWatch()
        try:
            return await watch.run(call_next(call, ctx))
        except BaseException as error:
            if isinstance(error, CallError) or watch.is_cancelled_by_others(error):
                raise
            raise self._report_unexpected(call, ctx, error) from error
        finally:
            if watch.own_requests:
                await watch.reset()

    def _report_unexpected(self, call: ToolCall, ctx: RunningCall, error: BaseException) -> ToolFailed:
        """Log an exception under a random reference, and return an error with the reference for the client."""
        reference = os.urandom(6).hex()
        logger.error("%s %r failed, reference %s", call.kind, call.name, reference, exc_info=error)
        if self.on_exception is not None:
            self.on_exception(error, reference)
        if ctx.observation is not None:
            ctx.observation.report_exception(error)
        text = describe_error(error) if self.expose_errors else ""
        return ToolFailed(call.name, reference, shown=text, kind=call.kind)

    async def _limit_time(self, timeout: float, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        with self._deadlines.start_deadline(timeout, ctx.deadline) as deadline:
            # The context pauses its holds while a user is asked.
            ctx.holds.append(deadline)
            try:
                return await call_next(call, ctx)
            finally:
                ctx.holds.remove(deadline)
        # Only the end of the deadline leads here.
        raise ToolTimeout(call.name, timeout, kind=call.kind, is_in_thread=ctx.is_in_thread)

    async def _limit_calls(
        self,
        quotas: tuple[Quota, ...],
        nested_quotas: tuple[Quota, ...],
        timeout: float | None,
        call: ToolCall,
        ctx: RunningCall,
        call_next: CallNext,
    ) -> ToolResult:
        """Run the call in a slot of the limiter. Other calls borrow the slot while a user is asked.

        An outermost call takes a slot of the total, of its tool (`quotas`) and of its client. A nested call takes one
        only of its tool (`nested_quotas`): if it needed one of the total, calls that hold all slots would wait forever.
        """
        # If a handler has started, this call is nested in it.
        is_outermost = not ctx.started
        if not is_outermost:
            if not nested_quotas:
                return await call_next(call, ctx)
            quotas = nested_quotas
        elif ctx.client is not None:
            quotas = (*quotas, (ctx.client, self._share))
        # Nested calls have their own queue, so they do not wait behind calls that wait for the total.
        key = (is_outermost, quotas)
        slot = self._slots.acquire_nowait(key, quotas=quotas, in_total=is_outermost)
        if slot is None:
            slot = await self._wait_for_slot(key, timeout, call, ctx)
        ctx.holds.append(slot)
        try:
            return await call_next(call, ctx)
        finally:
            ctx.holds.remove(slot)
            slot.release()

    async def _wait_for_slot(
        self, key: tuple[bool, tuple[Quota, ...]], timeout: float | None, call: ToolCall, ctx: RunningCall
    ) -> Slot:
        """Wait for a slot as long as a call may run. Raises Overloaded."""
        is_outermost, quotas = key
        seconds = math.inf if timeout is None else timeout
        try:
            with self._deadlines.start_deadline(seconds, ctx.deadline):
                return await self._slots.acquire(key, quotas=quotas, in_total=is_outermost)
        except LimiterFull:
            problem = "too many calls are waiting"
        else:
            # Only the end of the deadline leads here.
            problem = "no other call ended in time"
        raise Overloaded(f"The server is at capacity: '{call.name}' did not run, because {problem}. Retry later.")

    async def _run_handler(self, tool: PreparedEntry, call: ToolCall, ctx: RunningCall, _: CallNext) -> ToolResult:
        """Run the handler, and again with the answers for as long as it returns `NeedsInput`.

        Between two runs of the outermost handler, `ctx.needs` is all the state that the call has, so another instance
        of the server can continue the call from there.
        """
        is_outermost = not ctx.started
        needs = ctx.needs
        for _round in range(ROUNDS):
            if needs is not None:
                ctx.answers = await ctx.put(needs.questions)
                ctx.state = needs.state
            ctx.started = True
            ctx.needs = None
            try:
                value = await tool.run(call.arguments, ctx, self.threads)
            except ToolCrashed as error:
                # A worker knows only the original name of the tool, so the published name replaces it.
                raise ToolCrashed(call.name, error.how, kind=call.kind) from None
            except InvalidOutput as error:
                raise InvalidOutput(error.details, tool=call.name, output=error.output, kind=call.kind) from error
            if not isinstance(value, NeedsInput):
                try:
                    result = to_result(value) if tool.read_result is None else tool.read_result(value, call)
                except Unreadable as error:
                    raise InvalidOutput([f"$: {error}"], tool=call.name, output=None, kind=call.kind) from error
                # The pipeline writes the duration into its result, so it copies an object that belongs to the handler.
                return replace(result) if result is value else result
            needs = value
            if is_outermost:
                ctx.started = False
                ctx.needs = needs
        raise QuestionExpired(f"{call.kind.capitalize()} '{call.name}' asked {ROUNDS} times and was stopped.")


def _validate_input(
    tool: PreparedEntry, limits: SizeLimits, call: ToolCall, ctx: RunningCall, call_next: CallNext
) -> Awaitable[ToolResult]:
    tool.check_input(call, limits)
    return call_next(call, ctx)


def _provide_checks(
    tool: PreparedEntry, limits: SizeLimits, call: ToolCall, ctx: RunningCall, call_next: CallNext
) -> Awaitable[ToolResult]:
    """Let policies validate changed arguments and results, such as arguments before a user is asked."""
    ctx.check = lambda arguments: tool.check_input(arguments, limits)
    ctx.check_output = tool.check_output if tool.output_schema else None
    return call_next(call, ctx)


async def _validate_output(tool: PreparedEntry, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
    result = await call_next(call, ctx)
    # Almost all outputs are valid. Asking the validator directly saves them a call of `check_output`.
    if result.success and not tool.output.is_valid(result.output):
        tool.check_output(result.output, result=result)
    return result


def _recheck_policies(
    tool: PreparedEntry, changing: Sequence[BoundPolicy], policies: Sequence[BoundPolicy]
) -> Iterator[Layer]:
    """Yield the layers of policies. A layer around each policy in `changing` checks its results again.

    `changing` are all policies of the tool that can change results, outermost first. Without an output schema, the
    check only makes sure to have a ToolResult, and this suffices around the first observer and around the first of the
    other policies.
    """
    rechecked = changing
    if not tool.output_schema:
        observers = [binding for binding in changing if binding.policy.stage == Stage.OBSERVE]
        others = changing[len(observers) :]
        rechecked = [*observers[:1], *others[:1]]
    rechecked_ids = [id(binding) for binding in rechecked]
    for binding in policies:
        if id(binding) in rechecked_ids:
            yield partial(_recheck_output, tool, binding.policy.name)
        yield binding.layer


async def _recheck_output(
    tool: PreparedEntry, policy: str, call: ToolCall, ctx: RunningCall, call_next: CallNext
) -> ToolResult:
    """Return an error if the policy has changed the result so that it does not match the output schema."""
    result = to_result(await call_next(call, ctx))
    if result.success and tool.output_schema:
        try:
            tool.check_output(result.output, f"the policy '{policy}'", result=result)
        except InvalidOutput as error:
            return replace(to_error_result(error), content=result.content)
    return result


def _extract_cancellation(error: BaseException) -> BaseException:
    """Return the cancellation in a group without the other exceptions of the group. Log these."""
    if isinstance(error, BaseExceptionGroup):
        cancellation, other_errors = error.split(get_cancelled_exc_class())
        if cancellation is not None and other_errors is not None:
            logger.error("a call that was being cancelled raised something else", exc_info=other_errors)
            return cancellation
    return error
