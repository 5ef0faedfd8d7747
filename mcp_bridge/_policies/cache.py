"""The policy `cache`: keeps results of read-only tools for some time, and returns them for identical calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
from cachetools import TTLCache
from pydantic import Field

from mcp_bridge._contracts.extension import CallNext, Stage
from mcp_bridge._contracts.policy import Forecast, Policy, PolicyLayer
from mcp_bridge._contracts.running_call import PolicyDecision, RunningCall
from mcp_bridge._contracts.tool import EncodedOutput, ToolCall, ToolEntry, ToolResult
from mcp_bridge._policies.selection import READ_ONLY, ToolSelectionOptions, has_hint
from mcp_bridge._policies.services import PolicyServices
from mcp_bridge._protocol.wire.content import render_blocks
from mcp_bridge._runtime.exact_json import dump_json, load_json
from mcp_bridge._settings.values import Duration

MAX_SIZE = 32 * 1024 * 1024
"""The maximum size of all kept results in bytes. The least recently used ones are removed first."""
ENTRY = 500
"""Bytes of memory per result besides its data. Without it, tiny results would be unbounded."""


class CacheOptions(ToolSelectionOptions):
    """Return the earlier result of an identical call to a tool that declares `readOnlyHint: true`."""

    permits = True

    ttl: Duration = Field(default=60.0, description="How long a result is kept. All of them take at most 32 MiB.")

    def build_policy(self, services: PolicyServices) -> Policy:
        """Build the policy."""
        return CachePolicy(self)


class CachedResult(NamedTuple):
    """A result whose output is JSON, so that no receiver can change what is kept. `size` is in bytes."""

    entry: object
    output: bytes
    content: Any
    meta: Any
    size: int

    def restore(self) -> ToolResult:
        """Return the result, with an output of its own."""
        output = load_json(self.output)
        encoded = None
        if not isinstance(output, str | None):
            encoded = EncodedOutput(output, self.output.decode(), len(self.output))
        return ToolResult(success=True, output=output, content=self.content, meta=self.meta, encoded=encoded)


CacheKey = tuple[int, str | None, bytes]
Results = TTLCache[CacheKey, CachedResult]


class CachePolicy:
    """Keeps results. `clock` returns seconds and never goes backwards."""

    name = "cache"
    stage = Stage.ATTEMPT
    is_passive = True
    may_ask = False

    def __init__(self, options: CacheOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._results: Results = TTLCache(MAX_SIZE, options.ttl, timer=clock, getsizeof=lambda kept: kept.size)

    def bind(self, entry: Any) -> PolicyLayer | None:
        """Return a layer for read-only tools that match. A tool whose definition changes is another entry."""
        applies = has_hint(entry, READ_ONLY) and self._options.applies_to_tool(entry)
        return CacheLayer(entry, self._options, self._results) if applies else None


class CacheLayer:
    """Keeps the results of one tool, for each principal and by the canonical JSON of the arguments."""

    name = "cache"

    def __init__(self, entry: ToolEntry, options: CacheOptions, results: Results) -> None:
        self._entry = entry
        self._options = options
        self._results = results

    async def __call__(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Return a kept result, or that of the call."""
        key = self._build_key(call, ctx) if self._options.applies_to_principal(ctx) else None
        if key is None:
            return await call_next(call, ctx)
        kept = self._results.get(key)
        if kept is not None and kept.entry is self._entry:  # and not an earlier one with the same id
            ctx.record_decision(PolicyDecision(self.name, "answered"))
            return kept.restore()
        result = await call_next(call, ctx)
        is_pure = result.success and not ctx.is_interactive and not ctx.injected
        kept = self._keep(result) if is_pure else None
        if kept is not None and kept.size <= self._results.maxsize:
            self._results[key] = kept
        return result

    async def predict(self, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict that the call passes: the results are those of a running server."""
        applies = self._options.applies_to_principal(ctx)
        return Forecast("passes", f"or returns a result of the last {self._options.ttl:g} seconds" if applies else "")

    def _build_key(self, call: ToolCall, ctx: RunningCall) -> CacheKey | None:
        try:
            return id(self._entry), ctx.principal, dump_json(call.arguments, option=orjson.OPT_SORT_KEYS)
        except (TypeError, RecursionError):  # a caller in process can pass anything
            return None

    def _keep(self, result: ToolResult) -> CachedResult | None:
        """Return the result in the form in which it is cached, or None if it cannot be cached."""
        content = tuple(result.content) if isinstance(result.content, list) else result.content
        try:
            output = dump_json(result.output)
            blocks = render_blocks(content, "") if content is not None else []
            size = len(output) + len(dump_json([blocks, result.meta])) + ENTRY
        except (TypeError, ValueError, RecursionError):
            return None
        return CachedResult(self._entry, output, content, result.meta, size)
