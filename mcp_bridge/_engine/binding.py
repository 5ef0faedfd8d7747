"""Middleware as layers of one entry: a policy decides for each entry whether it is a layer of its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from mcp_bridge._contracts.extension import CallNext, Middleware, Stage
from mcp_bridge._contracts.policy import Policy
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult

Layer = Callable[[ToolCall, RunningCall, CallNext], Awaitable[ToolResult]]


class BoundMiddleware(NamedTuple):
    """A middleware, or a policy, as a layer of the calls of one entry. See `Policy` for the other fields."""

    name: str
    stage: Stage
    layer: Layer
    is_passive: bool = False
    may_ask: bool = True


def bind_middleware(middleware: Iterable[Middleware | Policy], entry: Any) -> list[BoundMiddleware]:
    """Bind middleware to an entry, in the order of the stages. Policies that do not apply to it are left out."""
    bound = []
    for each in middleware:
        if not isinstance(each, Policy):
            bound.append(BoundMiddleware(type(each).__name__, Stage(each.stage), each))
        elif (layer := each.bind(entry)) is not None:
            bound.append(BoundMiddleware(f"'{each.name}'", each.stage, layer, each.is_passive, each.may_ask))
    return sorted(bound, key=lambda each: each.stage)
