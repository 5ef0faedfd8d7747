"""The policy `retry`: repeats failed calls to tools that can safely be called again."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from pydantic import Field

from mcp_bridge._contracts.errors import CallError, ToolFailed
from mcp_bridge._contracts.policy import CallNext, Forecast, Layer, Stage
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._policies.base import IDEMPOTENT, READ_ONLY, Patterns, ToolPolicy, has_hint
from mcp_bridge._settings.values import Duration, Whole

if TYPE_CHECKING:
    from tenacity import AsyncRetrying

MAX_DURATION = 45.0
"""How long after the first attempt a further one may begin, in seconds."""
MAX_WAIT = 5.0
MAX_JITTER = 0.1
logger = logging.getLogger("mcp_bridge.policies")


class _FailedAttempt(Exception):
    """An attempt whose result is an error that can be repeated."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result.error_text)
        self.result = result


class RetryPolicy(ToolPolicy):
    """Repeat failed calls to tools that declare `idempotentHint: true` or `readOnlyHint: true`, with growing waits."""

    checks_calls = True
    name = "retry"
    stage = Stage.ATTEMPT
    is_passive = True
    may_ask = False
    permits = True

    attempts: Whole = Field(default=3, ge=2, le=100, description="The maximum number of attempts.")
    errors: Patterns = Field(
        default=("timeout", "tool_unavailable", "tool_crashed", "ConnectionError", "TimeoutError"),
        min_length=1,
        description="Which failed calls are repeated: [error codes](errors.md), and names of exception classes or of "
        "their base classes.",
    )
    wait: Duration = Field(
        default=0.1,
        description="The wait before the second attempt, which doubles with each further one, up to 5 seconds. No "
        "attempt begins later than 45 seconds after the first.",
    )

    def bind(self, entry: Any) -> Layer | None:
        """Return a layer for matching tools that can safely be called again."""
        if not (has_hint(entry, IDEMPOTENT, READ_ONLY) and self.applies_to_entry(entry)):
            return None
        from tenacity import (
            AsyncRetrying,
            retry_if_exception,
            stop_after_attempt,
            stop_before_delay,
            wait_exponential,
            wait_random,
        )

        attempts = AsyncRetrying(
            retry=retry_if_exception(self._is_repeatable),
            stop=stop_after_attempt(self.attempts) | stop_before_delay(MAX_DURATION),
            wait=wait_exponential(multiplier=self.wait, max=max(MAX_WAIT, self.wait)) + wait_random(0, MAX_JITTER),
            sleep=anyio.sleep,
            reraise=True,
        )
        return partial(self._repeat_call, attempts)

    async def _repeat_call(
        self, attempts: AsyncRetrying, call: ToolCall, ctx: RunningCall, call_next: CallNext
    ) -> ToolResult:
        """Raises what the last attempt raises."""
        if not self.applies_to_call(call, ctx):
            return await call_next(call, ctx)
        try:
            return await self._repeat(attempts, call, ctx, call_next)
        except _FailedAttempt as failed:
            return failed.result

    async def _repeat(
        self, attempts: AsyncRetrying, call: ToolCall, ctx: RunningCall, call_next: CallNext
    ) -> ToolResult:
        was_started = ctx.started
        async for attempt in attempts.copy():
            with attempt:
                number = attempt.retry_state.attempt_number
                if number > 1:
                    logger.info("tool %r: attempt %d of %d", call.name, number, self.attempts)
                    ctx.started = was_started  # so that this attempt waits for a slot too
                result = await call_next(call, ctx)
                if result.is_error and result.code in self.errors:
                    raise _FailedAttempt(result)
                return result
        raise AssertionError("the last attempt returns or raises")  # pragma: no cover

    async def predict(self, entry: Any, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict that the call passes."""
        applies = self.applies_to_call(call, ctx)
        return Forecast("passes", f"at most {self.attempts} attempts" if applies else "")

    def _is_repeatable(self, error: BaseException) -> bool:
        if isinstance(error, _FailedAttempt):
            return True
        if not isinstance(error, Exception):  # a cancellation
            return False
        code = error.code if isinstance(error, CallError) else ToolFailed.code
        names = {code, *(kind.__name__ for kind in type(error).__mro__)}
        return not names.isdisjoint(self.errors)
