"""The extension points, one verb each. A stranger implements them without inheriting from us."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import IntEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.tool import ToolCall, ToolResult

CallNext = Callable[[ToolCall, CallContext], Awaitable[ToolResult]]
Publish = Callable[[Offer], None]


@runtime_checkable
class ToolSource(Protocol):
    """Where tools come from.

    `run` is the source's whole life, as one task: publish an Offer once, or keep publishing. Cancelling it
    closes the source; an exception unpublishes its offer alone. A source may have `middleware`, a sequence of it: what
    it does around every call of the bridge, also those of other sources.
    """

    name: str

    async def run(self, publish: Publish) -> None:
        """Publish offers until cancelled, or return once there is nothing more to say."""
        ...


@runtime_checkable
class HasWorkingDir(Protocol):
    """A source whose tools work in a folder, which the setting `working_dir` names."""

    def work_in(self, folder: Path, *, roots: bool = False) -> None:
        """Use this folder, before the source runs; with `roots` each client's first root where it lists one."""
        ...


class Stage(IntEnum):
    """Where in a call a middleware stands; the order is the pipeline's."""

    OBSERVE = 1
    ADMIT = 2
    DECIDE = 3
    ATTEMPT = 4


@runtime_checkable
class Middleware(Protocol):
    """What may happen around a call, at the stage it names."""

    stage: Stage

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        """Answer the call, usually by way of `call_next`."""
        ...
