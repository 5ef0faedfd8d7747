"""Defines Source, the base class of all sources of tools, and its exchange with the bridge.

A source publishes an `Offer` with all its entries, again after each change. The bridge gives it a `SourceContext` when
it is built, and `SourceServices` before it runs. A source with a connection has a `SourceStatus`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from mcp_bridge._contracts.policy import Asker, Middleware, Policy
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.server_info import ServerInfo
from mcp_bridge._contracts.store import Store
from mcp_bridge._contracts.tool import ToolEntry

STILL_STARTING = "it is still starting"
"""The reason of a source that has not connected yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """All entries of a source. Publishing a new offer replaces the old one.

    >>> offer = Offer(tools=[ToolEntry("greet", "Greet a user", lambda data: f"Hello, {data['name']}!")])
    >>> len(offer.entries)
    1

    Attributes:
        problems: A line for each entry that could not be published.
        notes: A line for each entry that was changed to publish it.
        server: How the source wants the server to present itself. The settings take precedence.
        partial: Whether entries with names of other sources are left out. Otherwise, one such name rejects the offer.
        is_repaired: Whether the source has already checked and repaired the schemas of its tools, in a thread.
            Otherwise, the bridge does so in the event loop.
    """

    tools: Sequence[ToolEntry] = ()
    resources: Sequence[ResourceEntry] = ()
    templates: Sequence[ResourceTemplate] = ()
    prompts: Sequence[PromptEntry] = ()
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()
    server: ServerInfo | None = None
    partial: bool = False
    is_repaired: bool = False

    @property
    def entries(self) -> Sequence[ToolEntry | ResourceEntry | ResourceTemplate | PromptEntry]:
        """All entries of every kind."""
        return [*self.tools, *self.resources, *self.templates, *self.prompts]


Publish = Callable[[Offer], None]
"""Replaces the published entries of the source by those of an offer."""


class SourceState(StrEnum):
    """The state of a source with a connection.

    STARTING: It makes its first attempt to connect. READY: Everything is available. DEGRADED: Something is not
    available, or the connection was lost and is being restored. BROKEN: The last attempts to connect have failed.
    """

    STARTING = "starting"
    READY = "ready"
    DEGRADED = "degraded"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """The state of a source.

    Attributes:
        since: The beginning of the state, in seconds since 1970.
        reason: Why the source is not ready; empty if it is.
        failures: The number of successive attempts to connect that have failed or led to a short connection.
        server: The reported name of the upstream; empty before the first connection.
        version: The reported version of the upstream.
    """

    state: SourceState
    since: float
    reason: str = ""
    failures: int = 0
    server: str = ""
    version: str = ""

    def describe_absence(self, name: str) -> str:
        """Return why calls to this source fail."""
        return f"The server '{name}' is not available: {self.reason}. Retry later."


class StartTurns(Protocol):
    """Limits how many servers start at the same time. `anyio.CapacityLimiter` has these methods."""

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a turn."""

    def release_on_behalf_of(self, borrower: object) -> None:
        """End a turn."""


class DefinitionFile(Protocol):
    """The lock file of a settings file, with the accepted definitions of upstreams.

    `mcp_bridge._upstream.trust.definition_lock` implements it.
    """

    @property
    def command(self) -> str:
        """The command that accepts definitions."""

    @property
    def modified(self) -> int:
        """The time of the last change of the file, in nanoseconds; 0 if there is none."""

    def read_server(self, server: str) -> Mapping[Any, Mapping[str, Any]] | None:
        """Return the definitions of a server by kind and name, or None if the server is not known."""

    def accept_definitions(self, server: str, definitions: Mapping[Any, Mapping[str, Any]]) -> None:
        """Add definitions of a server, or replace them."""


class ToolSelection(Protocol):
    """Selects the published tools of a source, and chooses their names.

    `mcp_bridge._engine.selection.Selection` implements it.
    """

    def select_tools(self, entries: Iterable[ToolEntry], owner: str) -> Iterable[ToolEntry]:
        """Yield the selected entries with their published names, overrides and owner."""

    def choose_name(self, name: str) -> str:
        """Return the published name of a tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """The settings that all sources share.

    Attributes:
        directory: The folder of the settings file, where relative paths start.
        watch: Whether the source reads its files again when they change.
        working_dir: The folder in which tools work. Default: `directory`.
        uses_roots: Whether the first root of each client replaces `working_dir`.
        settings_file: The settings file; None if the settings are not from a file.
        store: The shared store of several instances of the server; None if there is none.
        open_lock: Returns the lock file of the settings file; None without one.
    """

    directory: Path = field(default_factory=Path)
    watch: bool = False
    working_dir: Path | None = None
    uses_roots: bool = False
    settings_file: Path | None = None
    store: Store | None = None
    open_lock: Callable[[], DefinitionFile] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceServices:
    """The services of a bridge, or of a worker process, for a source.

    Attributes:
        selection: Selects the published tools. Agents of the source call the tools as they are published.
        hide_secrets: Redacts these secrets from now on. A source calls it with each secret before using the secret.
        report_update: Reports a change of the resource with a URI, from any thread; None in a worker.
        starts: Limits how many servers start at the same time; None for no limit.
        describe_absence: Returns why a tool is missing, or an empty text.
    """

    selection: ToolSelection | None = None
    hide_secrets: Callable[[Iterable[str]], None] = lambda secrets: None
    report_update: Callable[[str], None] | None = None
    starts: StartTurns | None = None
    describe_absence: Callable[[str], str] = lambda tool: ""


class Source:
    """A source of tools, resources and prompts. Only `run` has to be overridden.

    In the settings, `type: package.module:ClassName` names a class that derives from this one.

    >>> class Greetings(Source):
    ...     async def run(self, publish):
    ...         publish(Offer(tools=[ToolEntry("greet", "Greet the user", lambda data: "Hello!")]))

    Attributes:
        Options: The pydantic model of the options in the settings. Without one, the source has no options.
        has_prefix: Whether the names of tools begin with the name of the source, unless the settings set a prefix.
        is_derived: Whether the tools derive from tools of other sources. Such a source starts after all others have
            published or failed.
        reads_secrets: Whether the source reads secrets while it runs.
        describes_server: Whether an offer may have a `server`. Clients wait for such a source, so it has to be fast.
        name: The name of the source.
        options: The options, validated.
        context: The settings that all sources share.
        services: The services of the bridge, from `attach` on.
        middleware: Middleware around every call of the bridge, including calls to other sources.
        asking: Asks users to approve calls; None if the source asks no user, or runs entirely in worker processes.
        status: The state of the connection on which the source depends; None if it depends on none.
    """

    Options: ClassVar[type[Any] | None] = None
    has_prefix: ClassVar[bool] = False
    is_derived: ClassVar[bool] = False
    reads_secrets: ClassVar[bool] = False
    describes_server: ClassVar[bool] = False
    name: str
    options: Any = None
    context: SourceContext = SourceContext()
    services: SourceServices = SourceServices()
    middleware: Sequence[Middleware | Policy] = ()
    asking: Asker | None = None
    status: SourceStatus | None = None

    def __init__(self, name: str, options: Any = None, context: SourceContext | None = None) -> None:
        self.name = name
        self.options = options
        self.context = context or SourceContext()

    @classmethod
    def load_options(cls) -> type[Any] | None:
        """Return the model of the options. A source overrides this to import pydantic late."""
        return cls.Options

    @classmethod
    def choose_name(cls, options: Any) -> str:
        """Return the name of a source for which the settings have none."""
        return cls.__name__

    @classmethod
    def build(cls, name: str, options: Any, context: SourceContext) -> Self:
        """Build a source from the settings. A source with another constructor overrides this."""
        return cls(name, options, context)

    def attach(self, services: SourceServices) -> None:
        """Use these services. The bridge calls this before `run`."""
        self.services = services

    async def run(self, publish: Publish) -> None:
        """Publish offers until cancelled, or return when nothing will change any more.

        This is the source's whole life, in one task. Cancelling the task closes the source. If it raises, the bridge
        withdraws the offer of this source, and other sources continue.
        """
        raise NotImplementedError

    async def restore(self, publish: Publish) -> None:
        """Publish the stored list of an earlier connection, if there is one.

        All sources do this before one of them runs, because starting servers would delay it.
        """

    def list_files(self) -> Sequence[Path] | None:
        """Return the existing files and folders that the source reads, or None for the whole folder of the settings.

        A source in a sandbox can read nothing else in the folder of the settings.
        """
        return None

    def hide(self, secrets: Iterable[str]) -> None:
        """Redact these secrets of the bridge in the source's own logs and files."""

    def disable_middleware(self) -> bool:
        """Remove the middleware, so that the source can run entirely in worker processes. Called before `run`.

        Return False, and change nothing, if the source needs its middleware. The result does not matter for a source
        without middleware. If `run` finds out that the source needs middleware after all, it raises SourceError.
        """
        return False

    def disable_recording(self) -> None:
        """Write no files about upstreams. Called before `run`, for commands that only list entries."""

    def use_tools(self, tools: Sequence[ToolEntry]) -> None:
        """Use these entries when the source calls its own tools.

        If only some tools of a source run in workers, the bridge calls this after each offer, with new handlers for
        these tools, which call the workers. The entries have the original names.
        """

    def request_attempt(self) -> None:
        """Try to connect soon, if there is no connection. Called when a client requests a list."""

    async def wait_for_attempt(self) -> None:
        """Wait until the first attempt to connect has succeeded or failed."""

    def follow_resource(self, uri: str, *, is_wanted: bool) -> None:
        """Start or stop reporting changes of this resource. It may be a resource of another source.

        Called only for a source with a `status`.
        """

    async def wait_until_followed(self) -> None:
        """Wait until the source notices every change of the followed resources, if that is possible now."""
