"""The policy `retry`: repeats failed calls to tools that can safely be called again."""

from __future__ import annotations

import logging
import random
from typing import Any

import anyio
from pydantic import Field

from mcp_bridge._contracts.errors import CallError, ToolFailed
from mcp_bridge._contracts.policy import CallNext, Forecast, Layer, Stage
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._policies.base import IDEMPOTENT, READ_ONLY, Patterns, ToolPolicy, has_hint
from mcp_bridge._settings.values import Duration, Whole

MAX_DURATION = 45.0
"""How long after the first attempt a further one may begin, in seconds."""
MAX_WAIT = 5.0
"""The maximum wait between two attempts, in seconds, unless the settings have a longer one before the second."""
MAX_JITTER = 0.1
"""The maximum random time that is added to each wait, in seconds."""
logger = logging.getLogger("mcp_bridge.policies")


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
        return self._repeat_call

    async def _repeat_call(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Run the call, and again after each repeatable failure. Raises the error of the last attempt."""
        if not self.applies_to_call(call, ctx):
            return await call_next(call, ctx)
        was_started = ctx.started
        end = anyio.current_time() + MAX_DURATION
        wait = self.wait
        number = 1
        while True:
            delay = wait + random.uniform(0, MAX_JITTER)  # noqa: S311 - jitter is no secret
            is_last = number == self.attempts
            try:
                result = await call_next(call, ctx)
            except Exception as error:
                if is_last or not self._is_repeatable(error) or anyio.current_time() + delay >= end:
                    raise
            else:
                is_repeatable = result.is_error and result.code in self.errors
                if is_last or not is_repeatable or anyio.current_time() + delay >= end:
                    return result
            await anyio.sleep(delay)
            wait = min(2 * wait, max(MAX_WAIT, self.wait))
            number += 1
            logger.info("tool %r: attempt %d of %d", call.name, number, self.attempts)
            # The previous attempt has returned its slot. A call that counts as started would not wait for a new one.
            ctx.started = was_started

    async def predict(self, entry: Any, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict that the call passes."""
        if not self.applies_to_call(call, ctx):
            return Forecast("passes")
        return Forecast("passes", f"at most {self.attempts} attempts")

    def _is_repeatable(self, error: Exception) -> bool:
        code = error.code if isinstance(error, CallError) else ToolFailed.code
        return code in self.errors or any(base.__name__ in self.errors for base in type(error).__mro__)
