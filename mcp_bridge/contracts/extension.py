"""The extension points. Third-party classes implement them by their shape, without inheriting from them.

A source has `name` and `run`; the core looks for nothing else on it but the members of the optional protocols below:
`GoverningSource`, `ApprovalSource`, `SecretSource`, `NotifyingSource`, `WorkingDirSource`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.tool import ToolCall, ToolResult

CallNext = Callable[[ToolCall, CallContext], Awaitable[ToolResult]]
Publish = Callable[[Offer], None]


@runtime_checkable
class ToolSource(Protocol):
    """Where tools come from.

    `run` is the source's whole life, as one task: publish an Offer once, or keep publishing. Cancelling it
    closes the source; an exception unpublishes its offer alone.
    """

    name: str

    async def run(self, publish: Publish) -> None:
        """Publish offers until cancelled, or return once there is nothing more to say."""
        ...


@runtime_checkable
class WorkingDirSource(Protocol):
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


@runtime_checkable
class GoverningSource(Protocol):
    """A source with `middleware`: it runs around every call of the bridge, also those of other sources."""

    middleware: Sequence[Middleware]


class Asker(Protocol):
    """Asks users to approve calls, under the `mcp_bridge.approvals.policy.Policy` that the bridge sets."""

    policy: Any


@runtime_checkable
class ApprovalSource(Protocol):
    """A source that asks for approvals. `asking` is None where nothing of it runs in the bridge's process."""

    asking: Asker | None


@runtime_checkable
class SecretSource(Protocol):
    """A source that writes to logs or files of its own, from which the bridge's secrets have to be redacted."""

    def hide(self, secrets: Iterable[str]) -> None:
        """Redact these values from now on."""
        ...


@runtime_checkable
class NotifyingSource(Protocol):
    """A source whose resources change."""

    def set_update_listener(self, updated: Callable[[str], None]) -> None:
        """Call `updated` with the URI of each resource that changes."""
        ...
