"""Prepared: a tool, or what else is published, ready to be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any, Protocol

from mcp_bridge.contracts.callables import is_async
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import InvalidOutput
from mcp_bridge.contracts.extension import CallNext
from mcp_bridge.contracts.hold import Hold
from mcp_bridge.contracts.tool import ToolCall, ToolEntry, ToolResult
from mcp_bridge.runtime.thread_pool import Threads
from mcp_bridge.schema.callables import context_parameter
from mcp_bridge.schema.validator import Validator
from mcp_bridge.wire.values import MAX_ITEMS, bounded, to_result


class Entry(Protocol):
    """What can be made ready: anything published that has a handler."""

    @property
    def handler(self) -> Callable[..., Any]:
        """Gets the call's arguments, and the context where it asks for it."""
        ...


def _reads(answer: Any, _: ToolCall) -> ToolResult:
    return to_result(answer)


@dataclass(frozen=True)
class Prepared:
    """An entry made ready to be called: everything about it that can be computed once.

    `entry` is a tool, or with `input_schema` and `reads` (what its handler's answer means) of another kind. `composed`
    has its way through each pipeline that has called it.
    """

    entry: Entry
    input_schema: Mapping[str, Any] | None = None
    reads: Callable[[Any, ToolCall], ToolResult] = _reads
    composed: dict[object, CallNext] = field(default_factory=dict, compare=False)

    @cached_property
    def name(self) -> str:
        """What the entry is called: its name, or the URI that it stands at."""
        return str(getattr(self.entry, "name", "") or getattr(self.entry, "uri", "") or "")

    @cached_property
    def output_schema(self) -> Any:
        """What answers must fit; empty when the entry does not say."""
        return self.entry.output_schema if isinstance(self.entry, ToolEntry) else {}

    @cached_property
    def input(self) -> Validator:
        """Judges arguments."""
        return Validator(self.entry.input_schema if isinstance(self.entry, ToolEntry) else self.input_schema or {})

    @cached_property
    def output(self) -> Validator:
        """Judges answers."""
        return Validator(self.output_schema)

    @cached_property
    def context(self) -> str | None:
        """The handler's parameter for the call context, if it has one."""
        return context_parameter(self.entry.handler)

    @cached_property
    def context_leads(self) -> bool:
        """Whether the context comes before the data."""
        first = next(iter(inspect.signature(self.entry.handler).parameters.values()))
        return first.name == self.context and first.kind is not first.KEYWORD_ONLY

    @cached_property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function, and so needs no thread."""
        return is_async(self.entry.handler)

    def bound(self, arguments: Any, ctx: CallContext) -> Callable[[], Any]:
        """The handler with its one argument, and the context where it asks for it."""
        if self.context is None:
            return partial(self.entry.handler, arguments)
        if self.context_leads:
            return partial(self.entry.handler, ctx, arguments)
        return partial(self.entry.handler, arguments, **{self.context: ctx})

    async def answer(self, handler: Callable[[], Any], threads: Threads, holds: list[Hold] | None = None) -> Any:
        """What the bound handler answers: awaited here when it is async, else run in a thread, one of the `holds`."""
        if self.is_async:
            answer = await handler()
        else:
            answer = await threads.run(self._whole, handler, name=self.name, holds=holds)
        if inspect.isawaitable(answer):  # a synchronous function that returns a coroutine
            answer = await answer
        if inspect.isasyncgen(answer):
            items = []
            async for item in answer:
                items.append(item)
                if len(items) > MAX_ITEMS:
                    break
            return self._bounded(items)
        return answer

    def _whole(self, handler: Callable[[], Any]) -> Any:
        """What a synchronous handler answers; what it yields as a list."""
        answer = handler()
        return self._bounded(list(islice(answer, MAX_ITEMS + 1))) if inspect.isgenerator(answer) else answer

    def _bounded(self, items: list[Any]) -> list[Any]:
        try:
            return bounded(items)
        except ValueError as error:
            raise InvalidOutput([f"$: {error}"], tool=self.name, output=None) from error
