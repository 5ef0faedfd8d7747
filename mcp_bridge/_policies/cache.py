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
from mcp_bridge._protocol.wire.protocol_versions import IN_PROCESS
from mcp_bridge._runtime.exact_json import dump_json, load_json
from mcp_bridge._settings.values import Duration

MAX_SIZE = 32 * 1024 * 1024
"""The maximum size of all cached results in bytes. The least recently used ones are removed first."""
RESULT_OVERHEAD = 500
"""Bytes that are counted for each result in addition to its data. Otherwise, any number of empty results would fit."""


class CachedResult(NamedTuple):
    """A result, with its output as JSON, so that no receiver can change it. `size` is in bytes.

    `entry` is the tool that has returned it.
    """

    entry: object
    output: bytes
    content: Any
    meta: Any
    size: int

    def restore(self) -> ToolResult:
        """Return the result, with a new copy of the output."""
        result = ToolResult(success=True, output=load_json(self.output), content=self.content, meta=self.meta)
        if not isinstance(result.output, str | None):
            result.encoded = EncodedOutput(result.output, self.output.decode(), len(self.output))
        return result


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
        return TTLCache(size, self.ttl, timer=clock, getsizeof=lambda result: result.size)

    def bind(self, entry: Any) -> Layer | None:
        """Return a layer for read-only tools that match.

        If the definition of a tool changes, there is a new entry, so the earlier results do not apply any more.
        """
        if not has_hint(entry, READ_ONLY) or not self.applies_to_entry(entry):
            return None
        return partial(self._answer_call, entry, self._results)

    async def _answer_call(
        self, entry: ToolEntry, results: Results, call: ToolCall, ctx: RunningCall, call_next: CallNext
    ) -> ToolResult:
        """Return a cached result, or the result of the call."""
        if not self.applies_to_call(call, ctx):
            return await call_next(call, ctx)
        try:
            key = id(entry), ctx.principal, dump_json(call.arguments, option=orjson.OPT_SORT_KEYS)
        except (TypeError, RecursionError):
            # A caller in process can pass arguments that are not JSON.
            return await call_next(call, ctx)
        match = results.get(key)
        # Python may give the id of an earlier entry that has been deleted to a new one.
        if match is not None and match.entry is entry:
            ctx.record_decision(PolicyDecision(self.name, "answered"))
            return match.restore()
        result = await call_next(call, ctx)
        # A result may depend on the answers of the user, and texts that were injected belong to this call alone.
        if result.success and not ctx.is_interactive and not ctx.injected:
            cached_result = _to_cached(entry, result)
            if cached_result is not None and cached_result.size <= results.maxsize:
                results[key] = cached_result
        return result

    async def predict(self, entry: Any, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict that the call passes. Whether a running server has a result for it is not known here."""
        if not self.applies_to_call(call, ctx):
            return Forecast("passes")
        return Forecast("passes", f"or returns a result of the last {self.ttl:g} seconds")


def _to_cached(entry: ToolEntry, result: ToolResult) -> CachedResult | None:
    """Return the result for the cache, or None if it cannot be cached."""
    content = tuple(result.content) if isinstance(result.content, list) else result.content
    try:
        output = dump_json(result.output)
        blocks = render_blocks(content, IN_PROCESS) if content is not None else []
        size = len(output) + len(dump_json([blocks, result.meta])) + RESULT_OVERHEAD
    except (TypeError, ValueError, RecursionError):
        return None
    return CachedResult(entry, output, content, result.meta, size)
