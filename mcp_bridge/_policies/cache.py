"""The policy `cache`: keeps results of read-only tools for some time, and returns them for identical calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import orjson
from cachetools import TTLCache
from pydantic import Field, PrivateAttr

from mcp_bridge._contracts.policy import CallNext, Forecast, Layer, Stage
from mcp_bridge._contracts.running_call import PolicyDecision, RunningCall
from mcp_bridge._contracts.tool import EncodedOutput, ToolCall, ToolEntry, ToolResult
from mcp_bridge._policies.base import READ_ONLY, PolicyServices, ToolPolicy, has_hint
from mcp_bridge._protocol.wire.content import render_blocks
from mcp_bridge._runtime.exact_json import dump_json, load_json
from mcp_bridge._settings.values import Duration

MAX_SIZE = 32 * 1024 * 1024
"""The maximum size of all kept results in bytes. The least recently used ones are removed first."""
ENTRY = 500
"""Bytes of memory per result besides its data. Without it, tiny results would be unbounded."""


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


class CachePolicy(ToolPolicy):
    """Return the earlier result of an identical call to a tool that declares `readOnlyHint: true`."""

    checks_calls = True
    name = "cache"
    stage = Stage.ATTEMPT
    is_passive = True
    may_ask = False
    permits = True

    ttl: Duration = Field(default=60.0, description="How long a result is kept. All of them take at most 32 MiB.")

    _results: Results = PrivateAttr()

    def use_services(self, services: PolicyServices) -> None:
        self._results = self.make_results(time.monotonic)

    def make_results(self, clock: Callable[[], float], size: int = MAX_SIZE) -> Results:
        """Return a cache without results. `clock` returns seconds and never goes backwards."""
        return TTLCache(size, self.ttl, timer=clock, getsizeof=lambda kept: kept.size)

    def bind(self, entry: Any) -> Layer | None:
        """Return a layer for read-only tools that match. A tool whose definition changes is another entry."""
        applies = has_hint(entry, READ_ONLY) and self.applies_to_entry(entry)
        return partial(self._answer_call, entry, self._results) if applies else None

    async def _answer_call(
        self, entry: ToolEntry, results: Results, call: ToolCall, ctx: RunningCall, call_next: CallNext
    ) -> ToolResult:
        """Return a kept result, or that of the call."""
        key = _build_key(entry, call, ctx) if self.applies_to_call(call, ctx) else None
        if key is None:
            return await call_next(call, ctx)
        kept = results.get(key)
        # An earlier entry may have had the same id.
        if kept is not None and kept.entry is entry:
            ctx.record_decision(PolicyDecision(self.name, "answered"))
            return kept.restore()
        result = await call_next(call, ctx)
        is_pure = result.success and not ctx.is_interactive and not ctx.injected
        kept = _keep_result(entry, result) if is_pure else None
        if kept is not None and kept.size <= results.maxsize:
            results[key] = kept
        return result

    async def predict(self, entry: Any, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict that the call passes: the results are those of a running server."""
        applies = self.applies_to_call(call, ctx)
        return Forecast("passes", f"or returns a result of the last {self.ttl:g} seconds" if applies else "")


def _build_key(entry: ToolEntry, call: ToolCall, ctx: RunningCall) -> CacheKey | None:
    try:
        return id(entry), ctx.principal, dump_json(call.arguments, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError):  # a caller in process can pass anything
        return None


def _keep_result(entry: ToolEntry, result: ToolResult) -> CachedResult | None:
    """Return the result in the form in which it is cached, or None if it cannot be cached."""
    content = tuple(result.content) if isinstance(result.content, list) else result.content
    try:
        output = dump_json(result.output)
        blocks = render_blocks(content, "") if content is not None else []
        size = len(output) + len(dump_json([blocks, result.meta])) + ENTRY
    except (TypeError, ValueError, RecursionError):
        return None
    return CachedResult(entry, output, content, result.meta, size)
