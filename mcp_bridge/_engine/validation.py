"""The layers that validate arguments and results, also those that middleware has changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mcp_bridge._contracts.errors import InvalidArguments, InvalidOutput
from mcp_bridge._contracts.extension import CallNext, Stage
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.binding import BoundMiddleware, Layer
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._json_schema.size_limits import SizeLimits
from mcp_bridge._protocol.wire.outcomes import to_error_result
from mcp_bridge._protocol.wire.values import to_result

_NULL_FOR_NUMBER = ": expected type number, got null"
"""The end of a problem with an output that may have been NaN, for which JSON has no value."""

RecheckPolicies = Callable[[Sequence[BoundMiddleware]], Iterator[Layer]]


def validate_input(
    check: Callable[[ToolCall], None], call: ToolCall, ctx: RunningCall, call_next: CallNext
) -> Awaitable[ToolResult]:
    check(call)
    return call_next(call, ctx)


def provide_checks(
    check: Callable[[ToolCall], None],
    check_output: Callable[[Any, str], None] | None,
    call: ToolCall,
    ctx: RunningCall,
    call_next: CallNext,
) -> Any:
    """Allow policies to validate arguments that they change before a user is asked, and results that they change."""
    ctx.check, ctx.check_output = check, check_output
    return call_next(call, ctx)


def check_input(tool: PreparedEntry, limits: SizeLimits, call: ToolCall) -> None:
    if (excess := limits.describe_excess(call.arguments)) is not None:
        raise InvalidArguments([f"$: {excess}"], tool=call.name, kind=call.kind)
    if not tool.input.is_valid(call.arguments):
        raise InvalidArguments(tool.input.describe_problems(call.arguments, call.root), tool=call.name, kind=call.kind)


async def validate_output(tool: PreparedEntry, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
    result = await call_next(call, ctx)
    if result.success and not tool.output.is_valid(result.output):
        check_output(tool, result.output, result=result)
    return result


def recheck_policies(tool: PreparedEntry, changing: Sequence[BoundMiddleware]) -> RecheckPolicies:
    """Return a function that adds a layer around each policy that rechecks its results.

    `changing` are the policies that can change results, outermost first; the others need no check. Without an output
    schema, only the outermost ones have such a layer: the first observer, and the first of the others.
    """
    observers = [each for each in changing if each.stage == Stage.OBSERVE]
    checked = changing if tool.output_schema else [*observers[:1], *changing[len(observers) :][:1]]

    def add_checks(policies: Sequence[BoundMiddleware]) -> Iterator[Layer]:
        for policy in policies:
            if policy in checked:
                yield partial(_recheck_output, tool, policy.name)
            yield policy.layer

    return add_checks


async def _recheck_output(
    tool: PreparedEntry, policy: str, call: ToolCall, ctx: RunningCall, call_next: CallNext
) -> ToolResult:
    """Return an error for a result that no longer matches the output schema, because the policy has changed it."""
    result = to_result(await call_next(call, ctx))
    if result.success and tool.output_schema:
        try:
            check_output(tool, result.output, f"the policy {policy}", result=result)
        except InvalidOutput as error:
            return replace(to_error_result(error), content=result.content)
    return result


def check_output(tool: PreparedEntry, output: Any, changed_by: str = "", *, result: ToolResult | None = None) -> None:
    """Raise InvalidOutput for an output that does not match the schema; the error keeps the content of `result`."""
    if not tool.output.is_valid(output):
        problems = [
            f"{line} (NaN and infinities become null)" if line.endswith(_NULL_FOR_NUMBER) else line
            for line in tool.output.describe_problems(output)
        ]
        content, meta = (None, None) if result is None else (result.content, result.meta)
        raise InvalidOutput(problems, tool=tool.name, output=output, content=content, meta=meta, changed_by=changed_by)
