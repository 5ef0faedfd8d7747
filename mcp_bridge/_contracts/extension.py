"""The extension points, as protocols: a class implements one by having its members, without inheriting from it.

A source needs `name` and `run`. Everything else that the core uses is declared in the optional protocols below:
`GoverningSource`, `ApprovalSource`, `SecretSource`, `CredentialSource`, `NotifyingSource`, `SubscribingSource`,
`PinningSource`, `ConnectingSource`, `ReportingSource`, `WorkingDirSource`, `AgentSource` and `FileListingSource`. A
middleware that adds texts to results is an `InjectingMiddleware`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mcp_bridge._contracts.context import CallContext
from mcp_bridge._contracts.offer import Offer
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.source_status import SourceStatus
from mcp_bridge._contracts.store import Store
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult

CallNext = Callable[[ToolCall, CallContext], Awaitable[ToolResult]]
"""Runs the rest of the pipeline. A middleware passes on the context that it received."""
Publish = Callable[[Offer], None]


@runtime_checkable
class ToolSource(Protocol):
    """A source of tools.

    `run` is the source's whole life, in one task. It publishes an Offer once, or again after each change. Cancelling it
    closes the source. If it raises, the source's own offer is withdrawn; other sources continue.
    """

    name: str

    async def run(self, publish: Publish) -> None:
        """Publish offers until cancelled, or return when nothing will change any more."""


@runtime_checkable
class PrefixingOptions(Protocol):
    """The options of a source whose tools have a prefix if the settings give none."""

    def default_prefix(self, name: str) -> str:
        """Return the prefix for a source of this name."""


@runtime_checkable
class TimedOptions(Protocol):
    """The options of a source whose tools may have time limits of their own."""

    def list_timeouts(self) -> Mapping[str, float]:
        """Return the time limits in seconds, by the original names of the tools."""


@runtime_checkable
class WorkingDirSource(Protocol):
    """A source whose tools work in the folder of the setting `working_dir`."""

    def work_in(self, folder: Path, *, roots: bool = False) -> None:
        """Use this folder; called before `run`. With `roots`, prefer the first root of each client that lists any."""


class DefinitionFile(Protocol):
    """The lock file of a settings file, which its sources share (`mcp_bridge._upstream.trust.definition_lock`)."""

    @property
    def command(self) -> str:
        """What a user runs to accept definitions."""

    @property
    def modified(self) -> int:
        """When the file was changed last, in nanoseconds; 0 if there is none."""

    def read_server(self, server: str) -> Mapping[Any, Mapping[str, Any]] | None:
        """Return the definitions of a server by kind and name, or None if the server is not known."""

    def accept_definitions(self, server: str, definitions: Mapping[Any, Mapping[str, Any]]) -> None:
        """Add definitions of a server, or replace them."""


@runtime_checkable
class PinningSource(Protocol):
    """A source that publishes definitions of a third party, and keeps those that the user has accepted in a file."""

    def pin_definitions(self, settings_file: Path, store: Store | None, lock: DefinitionFile) -> None:
        """Use the lock file of these settings, and the store if several servers share it; called before `run`."""

    def disable_recording(self) -> None:
        """Only read the files of these settings; called before `run`."""


class StartTurns(Protocol):
    """Lets a few servers start at once; an `anyio.CapacityLimiter` is one."""

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a turn."""

    def release_on_behalf_of(self, borrower: object) -> None:
        """End a turn."""


@runtime_checkable
class ConnectingSource(Protocol):
    """A source that connects to a server, again and again if that fails."""

    def limit_starts(self, turns: StartTurns) -> None:
        """Take a turn for each start of a server; called before `run`."""

    async def restore(self, publish: Publish) -> None:
        """Publish what the server has listed earlier, if that is stored. `run` follows once all sources have."""

    def request_attempt(self) -> None:
        """Try to connect soon, if there is no connection: a client wants to know what is published."""


@runtime_checkable
class CredentialSource(Protocol):
    """A source that reads secrets while it runs."""

    def set_secret_listener(self, add_secrets: Callable[[Iterable[str]], None]) -> None:
        """Call `add_secrets` with each secret before it is used."""


@runtime_checkable
class FileListingSource(Protocol):
    """A source that lists its files. In a sandbox, it cannot read anything else in the folder of the settings."""

    def list_files(self) -> Sequence[Path]:
        """Return the existing files and folders that it reads."""


@runtime_checkable
class DerivedSource(Protocol):
    """A source whose tools are made of those of the other sources. It runs once these have published or failed."""

    def set_absence_reporter(self, describe_absence: Callable[[str], str]) -> None:
        """Use this function, which returns why a tool is missing, or an empty text; called before `run`."""


class Stage(IntEnum):
    """The stage of a call at which a middleware runs, in the order of the pipeline."""

    OBSERVE = 1
    ADMIT = 2
    DECIDE = 3
    ATTEMPT = 4


@runtime_checkable
class Middleware(Protocol):
    """A policy that runs around calls, at its stage.

    A middleware that needs no more than a handler annotates `ctx` as a `CallContext`.
    """

    stage: Stage

    async def __call__(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Return the result of the call, usually that of `call_next`."""


@runtime_checkable
class InjectingMiddleware(Protocol):
    """A policy that can add text for the model to the results of tools, as an `InjectedText`."""

    injects_texts: bool


@runtime_checkable
class GoverningSource(Protocol):
    """A source with `middleware`, which runs around every call of the bridge, including those of other sources."""

    middleware: Sequence[Middleware]


class ToolSelection(Protocol):
    """Which tools of a source are published, and how: a `mcp_bridge._engine.selection.Selection`."""

    def select_tools(self, entries: Iterable[ToolEntry], owner: str) -> Iterable[ToolEntry]:
        """Yield the selected entries as they are published, with their names, overrides and owner."""

    def choose_name(self, name: str) -> str:
        """Return the published name of a tool."""


@runtime_checkable
class AgentSource(Protocol):
    """A source whose agents call its tools."""

    def set_selection(self, selection: ToolSelection) -> None:
        """Give agents only the tools that this selects, and call these as published; called before `run`."""


@runtime_checkable
class SplitAgentSource(AgentSource, Protocol):
    """A source whose agents run in the bridge's process while some of its tools run in workers."""

    def use_tools(self, tools: Sequence[ToolEntry]) -> None:
        """Call these tools of the source from now on, under their original names."""


@runtime_checkable
class OptionalMiddlewareSource(Protocol):
    """A source that can run without its `middleware`, and then entirely in worker processes."""

    def disable_middleware(self) -> bool:
        """Remove the middleware; called before `run`. Return False, and change nothing, if the settings require it.

        `run` then raises SourceError if the source turns out to require middleware.
        """


class Asker(Protocol):
    """Asks users to approve calls. The bridge sets `policy`, a `mcp_bridge._policies.approvals.policy.Policy`."""

    policy: Any


@runtime_checkable
class ApprovalSource(Protocol):
    """A source that asks users for approvals. `asking` is None if the source runs entirely in worker processes."""

    asking: Asker | None


@runtime_checkable
class SecretSource(Protocol):
    """A source that writes logs or files of its own, in which the bridge's secrets must be redacted."""

    def hide(self, secrets: Iterable[str]) -> None:
        """Redact these values from now on."""


@runtime_checkable
class NotifyingSource(Protocol):
    """A source that reports changes of its resources."""

    def set_update_listener(self, updated: Callable[[str], None]) -> None:
        """Call `updated` with the URI of each resource that changes, from any thread."""


@runtime_checkable
class ReportingSource(Protocol):
    """A source that depends on a connection, and reports its state."""

    @property
    def status(self) -> SourceStatus:
        """The state at this moment."""

    async def wait_for_attempt(self) -> None:
        """Wait until the first attempt to connect has succeeded or failed."""


@runtime_checkable
class SubscribingSource(Protocol):
    """A source that has to know which resources clients are subscribed to, in order to receive their changes."""

    def follow_resource(self, uri: str, *, is_wanted: bool) -> None:
        """Report the changes of this resource from now on, or no longer. It may be a resource of another source."""

    async def wait_until_followed(self) -> None:
        """Wait until no change of these resources can be missed, if that is possible now."""
