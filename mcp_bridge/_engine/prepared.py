"""Prepares entries (tools, resources, prompts and completions) for their calls.

A `PreparedEntry` keeps everything common to all calls of an entry, such as its validators and its composed layers. Each
value is computed when the first call needs it. The registry, `ResourceFinder` and the methods of the server keep a
`PreparedEntry` for each entry, and the pipeline runs it.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, cast

from mcp_bridge._contracts.context import CallContext
from mcp_bridge._contracts.errors import InvalidArguments, InvalidOutput
from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._contracts.policy import CallNext, Layer
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult
from mcp_bridge._engine.binding import BoundPolicy
from mcp_bridge._json_schema.callables import find_context_parameter
from mcp_bridge._json_schema.size_limits import SizeLimits
from mcp_bridge._json_schema.walking import MAX_DEPTH, MAX_SCHEMAS
from mcp_bridge._protocol.wire.values import MAX_ITEMS, check_item_count
from mcp_bridge._runtime.signatures import get_signature
from mcp_bridge._runtime.thread_pool import ThreadPool

if TYPE_CHECKING:
    from mcp_bridge._json_schema.validator import Validator

_NULL_FOR_NUMBER = ": expected type number, got null"
"""The end of a problem whose value may have been NaN: JSON cannot express NaN, so the output has null instead."""
_PLAIN = frozenset({str, int, float, bool, type(None), dict, list, tuple, bytes, ToolResult})
"""Types whose values are results as they are: nothing has to be awaited or collected."""


class Entry(Protocol):
    """A published entry with a handler."""

    @property
    def handler(self) -> Callable[..., Any]:
        """The function that takes the call's arguments and, if it has a parameter for it, the call context."""


class PreparedEntry:
    """An entry, ready to be called.

    Args:
        entry: The entry.
        input_schema: The schema of the arguments of a resource, prompt or completion.
        read_result: Turns the return value of the handler into a result; None for `to_result`.
        copies_schemas: Whether to copy the schemas of a tool, so that `has_same_schemas` notices changes within them.

    `bound`, `composed` and `may_ask` hold results of each pipeline for the entry: its policies, its composed layers,
    and whether a policy may ask the user.
    """

    def __init__(
        self,
        entry: Entry,
        *,
        input_schema: Mapping[str, Any] | None = None,
        read_result: Callable[[Any, ToolCall], ToolResult] | None = None,
        copies_schemas: bool = False,
    ) -> None:
        self.entry = entry
        self._handler = entry.handler
        self._schemas = (entry.input_schema, entry.output_schema) if isinstance(entry, ToolEntry) else ({}, {})
        self._copies: tuple[Any, ...] | None = None
        if copies_schemas:
            # Each copied object or list takes an item of the budget, which both schemas share.
            budget = iter(range(MAX_SCHEMAS))
            self._copies = tuple(_copy_json(schema, budget) for schema in self._schemas)
        self.input_schema = input_schema
        self.read_result = read_result
        self.bound: dict[object, list[BoundPolicy]] = {}
        self.composed: dict[object, CallNext] = {}
        self.may_ask: dict[object, bool] = {}

    def is_current(self, entry: ToolEntry) -> bool:
        """Whether this was prepared from the entry, and the entry still has the same handler and schemas.

        The schemas are compared by identity, because every call makes this check.
        """
        return (
            self.entry is entry
            and self._handler is entry.handler
            and self._schemas[0] is entry.input_schema
            and self._schemas[1] is entry.output_schema
        )

    def has_same_schemas(self) -> bool:
        """Whether the schemas are equal to their copies; False without copies."""
        return self._copies == self._schemas

    @cached_property
    def name(self) -> str:
        """The entry's name or URI."""
        return str(getattr(self.entry, "name", "") or getattr(self.entry, "uri", "") or "")

    @cached_property
    def output_schema(self) -> Any:
        """The schema of results; empty when the entry declares none."""
        return self._schemas[1]

    @cached_property
    def input(self) -> Validator:
        schema = self._schemas[0] if isinstance(self.entry, ToolEntry) else self.input_schema or {}
        return _build_validator(schema)

    @cached_property
    def output(self) -> Validator:
        return _build_validator(self.output_schema)

    @cached_property
    def context(self) -> str | None:
        """The name of the handler's parameter for the call context, if it has one."""
        return find_context_parameter(self._handler)

    @cached_property
    def handler(self) -> Callable[[Any, RunningCall], Any]:
        """The entry's handler, called with the arguments and the context, whichever of these it takes."""
        handler, context = self._handler, self.context
        if context is None:
            return lambda arguments, ctx: handler(arguments)
        first = next(iter(get_signature(handler).parameters.values()))
        # The positional arguments would otherwise fill the parameter for the context.
        if first.name == context and first.kind is not first.KEYWORD_ONLY:
            return lambda arguments, ctx: handler(ctx, arguments)
        return lambda arguments, ctx: handler(arguments, **{context: ctx})

    @cached_property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function, and so needs no thread."""
        return is_async(self._handler)

    def check_input(self, call: ToolCall, limits: SizeLimits) -> None:
        """Raise InvalidArguments if the arguments exceed the limits or do not match the schema."""
        if (excess := limits.describe_excess(call.arguments)) is not None:
            raise InvalidArguments([f"$: {excess}"], tool=call.name, kind=call.kind)
        if not self.input.is_valid(call.arguments):
            problems = self.input.describe_problems(call.arguments, call.root)
            raise InvalidArguments(problems, tool=call.name, kind=call.kind)

    def check_output(self, output: Any, changed_by: str = "", *, result: ToolResult | None = None) -> None:
        """Raise InvalidOutput if the output does not match the schema.

        The error names `changed_by`, the policy that has changed the output, and keeps the content of `result`.
        """
        if self.output.is_valid(output):
            return
        problems = []
        for problem in self.output.describe_problems(output):
            hint = " (NaN and infinities become null)" if problem.endswith(_NULL_FOR_NUMBER) else ""
            problems.append(problem + hint)
        content, meta = (None, None) if result is None else (result.content, result.meta)
        raise InvalidOutput(problems, tool=self.name, output=output, content=content, meta=meta, changed_by=changed_by)

    async def run(self, arguments: Any, ctx: RunningCall, threads: ThreadPool) -> Any:
        """Run the handler and return its value. The items of an iterator become a list.

        An async handler runs in this event loop, any other in one of `threads`. Raises InvalidOutput for an iterator of
        too many items.
        """
        if self.is_async and self.context is None:
            # This saves the call of the wrapper that `handler` returns.
            value = await self._handler(arguments)
        elif self.is_async:
            value = await self.handler(arguments, ctx)
        else:
            ctx.is_in_thread = True
            value = await threads.run(
                self._run_sync, arguments, ctx, name=self.name, client=ctx.client, holds=ctx.holds
            )
        if type(value) in _PLAIN:
            return value
        # A synchronous function can return a coroutine.
        if inspect.isawaitable(value):
            value = await value
        if isinstance(value, AsyncIterator):
            items = []
            async for item in value:
                items.append(item)
                if len(items) > MAX_ITEMS:
                    break
            return self._check_length(items)
        return value

    def _run_sync(self, arguments: Any, ctx: RunningCall) -> Any:
        value = self.handler(arguments, ctx)
        if type(value) not in _PLAIN and isinstance(value, Iterator):
            # The items are computed in this thread too.
            return self._check_length(list(islice(value, MAX_ITEMS + 1)))
        return value

    def _check_length(self, items: list[Any]) -> list[Any]:
        try:
            return check_item_count(items)
        except ValueError as error:
            raise InvalidOutput([f"$: {error}"], tool=self.name, output=None) from error


def compose_layer(layer: Layer, call_next: CallNext) -> CallNext:
    """Return a function to run a layer around `call_next`."""

    def run_layer(call: ToolCall, ctx: RunningCall) -> Awaitable[ToolResult]:
        return layer(call, ctx, call_next)

    # Third-party middleware knows its context as a CallContext, and passes on the one that it received.
    return cast("CallNext", run_layer)


def get_step_name(layer: Any) -> str:
    """Return the name of the function of a layer, such as `_limit_time`, or an empty text if it has none."""
    return getattr(layer.func if isinstance(layer, partial) else layer, "__name__", "")


async def run_nothing(call: ToolCall, ctx: CallContext) -> ToolResult:
    """Serve as the `call_next` of the innermost layer, which runs the handler and never calls it."""
    raise AssertionError("the innermost layer runs the tool")  # pragma: no cover - it calls nothing further


def _copy_json(value: Any, budget: Iterator[int], depth: int = 0) -> Any:
    """Copy the objects and lists in a value, up to a depth and as many as the budget allows.

    Without these limits, a recursive value would never end.
    """
    if isinstance(value, dict | list) and depth < MAX_DEPTH and next(budget, None) is not None:
        if isinstance(value, list):
            return [_copy_json(item, budget, depth + 1) for item in value]
        return {key: _copy_json(item, budget, depth + 1) for key, item in value.items()}
    return value


def _build_validator(schema: Any) -> Validator:
    # Only calls need this module, so a start does not import it.
    from mcp_bridge._json_schema.validator import Validator

    return Validator(schema)
