"""The bridge: a registry, the sources that fill it, and the endpoint that serves it.

`run_sources` starts each source in a task. A source publishes an offer (tools, resources, prompts and problems) when it
changes, and `_publish` selects and checks its entries and puts them into the registry. An error of a source removes its
entries and affects nothing else.

A start has several stages, so that clients see everything at once, and wait for nothing that is slow:

1. Sources with a stored catalogue publish it, before any server starts.
2. Sources publish their first offer. Those of derived tools, such as chains, wait for all others.
3. `wait_until_started` and the first requests wait until each source has published or failed, or has taken 20 seconds.
   A slower source is published when it is ready; a call that names one of its tools waits for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from mcp_bridge._app import entry_checks
from mcp_bridge._app.status import STATUS_URI, BridgeStatus
from mcp_bridge._contracts.errors import ConfigError, DuplicateTool, SourceError
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.server_info import Lifespan, ServerInfo, join_instructions
from mcp_bridge._contracts.source import Offer, Source, SourceServices, SourceState
from mcp_bridge._contracts.state import State
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._engine.selection import Selection
from mcp_bridge._json_schema.schema_checks import repair_tools
from mcp_bridge._protocol.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge._protocol.wire.values import sanitize_text
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.third_party import unwrap_group

if TYPE_CHECKING:
    from mcp_bridge._policies.approvals.desk import QuestionDesk
    from mcp_bridge._server.endpoint import Endpoint
    from mcp_bridge._web.api import OperatorApi

logger = logging.getLogger("mcp_bridge.bridge")

_STATE_INTERVAL = 0.05
"""Seconds between two checks of the states of sources."""
MISSING_TIMEOUT = 5.0
"""Seconds for which a call to an unknown tool waits for a server that is still starting."""
MIN_STARTS = 4
"""How many servers may start at the same time, at least; with more processors, it is two for each of them. If more did,
the bridge would get too little time to serve clients."""
START_LIMIT = 20.0
"""Seconds after which the other sources are served without one that has not published. It is published when it has."""
START_TIMEOUT = 30.0
"""Seconds for which a call to an unknown tool waits for sources that have published nothing yet. Together with
START_LIMIT, for which the first request may wait, this is less than the 60 seconds after which many clients cancel."""
_INFO = ("name", "version", "title", "instructions", "description", "website_url", "icons")
"""The fields of an Identity that a source can declare, unless the settings have them."""


class AttachedSource(NamedTuple):
    """A source, the selection of its tools, and notes about its settings."""

    source: Source
    selection: Selection = Selection()
    notes: Sequence[str] = ()


class Bridge:
    """A registry, the sources that fill it, and the endpoint that serves it.

    Args:
        registry: The registry to fill; a new one by default. It may already have tools of its own.
        sources: The sources, in the order of the settings.
        identity: How the server presents itself. Sources can add what it leaves out.
        state: How calls and tasks are stored.
        drain: How many seconds calls in flight may take after serving ends.
        dialect: How tools are described to clients.
        background: Tasks that run while the bridge serves, and never raise.
        default_name: The name of the server if neither `identity` nor a source names it.
        desk: Asks users who are not at the client for approval; None if nothing asks.
        lifespan: Entered while the bridge serves.

    Attributes:
        operator_api: The operator API; None until it is built.
        count_connected: Returns the number of clients of a shared server; None for other servers.
        problems: What each source could not publish, by its name.
        notes: What users may want to know about each source.
        status: The state of each source.
    """

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        sources: Sequence[AttachedSource] = (),
        identity: Identity | None = None,
        state: State | None = None,
        *,
        default_name: str = Identity().name,
        drain: float = 10.0,
        dialect: SchemaDialect = NO_DIALECT,
        background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
        desk: QuestionDesk | None = None,
        lifespan: Lifespan | None = None,
    ) -> None:
        self.registry = registry if registry is not None else ToolRegistry()
        self._own_identity = identity or Identity()
        self._default_name = default_name
        self.state = state or State()
        self.drain = drain
        self.dialect = dialect
        self.lifespan = lifespan
        self.desk = desk
        self.operator_api: OperatorApi | None = None
        self.count_connected: Callable[[], int | None] = lambda: None
        self._background = tuple(background)
        self.problems: dict[str, list[str]] = {}
        self.notes: dict[str, list[str]] = {}
        self._infos: dict[str, ServerInfo] = {}
        self._offers: dict[str, Offer] = {}
        self._secrets: set[str] = set()
        self._redactor = Redactor()
        self._secret_listeners: list[Callable[[Iterable[str]], object]] = []
        self._sources = tuple(sources)
        self._apply_infos()
        for name, notes in self.settings_notes.items():
            self.notes[name] = [*notes]
            entry_checks.warn_about_notes(name, notes)
        self.hide_secrets(self.state.keys)
        self._rejection: ConfigError | None = None
        names = [source.name for source in self.sources]
        self.registry.set_order(names)
        # The sources that have not ended, those that the start waits for, and those that have published nothing yet.
        # The start stops waiting for a source after START_LIMIT, so it may be in the last set only.
        self._running = set(names)
        self._pending = set(names)
        self._unpublished = set(names)
        self._is_running = False
        self._started = anyio.Event()
        self._starts = anyio.CapacityLimiter(max(MIN_STARTS, 2 * (os.cpu_count() or 1)))
        # This is set when any source has finished its start, and then replaced.
        self._start_finished = anyio.Event()
        self._derived = {source.name for source in self.sources if source.is_derived}
        self._others_started = anyio.Event()
        self._restoring = {source.name for source in self.sources if source.status is not None}
        self._restored = anyio.Event()
        self.status = BridgeStatus(self.registry, self.sources, self.problems, self.notes, self._unpublished)
        for source, selection, _ in self._sources:
            services = SourceServices(
                selection=selection,
                hide_secrets=self.hide_secrets,
                report_update=self.registry.resource_updated,
                starts=self._starts,
                describe_absence=self._describe_absence,
            )
            source.attach(services)
            if source.status is not None:
                self.registry.subscriptions.attach(source)
                self.registry.add_list_listener(source.request_attempt)

    @property
    def sources(self) -> Sequence[Source]:
        """The sources that fill the registry."""
        return [attached.source for attached in self._sources]

    @property
    def settings_notes(self) -> Mapping[str, Sequence[str]]:
        """The notes for users about the settings of sources, by the names of the sources."""
        return {attached.source.name: attached.notes for attached in self._sources if attached.notes}

    @property
    def secrets(self) -> frozenset[str]:
        """The values to redact."""
        return frozenset(self._secrets)

    @cached_property
    def endpoint(self) -> Endpoint:
        """The MCP server, created on first use, because some commands need none."""
        from mcp_bridge._server.endpoint import Endpoint

        return Endpoint(
            self.registry,
            self.identity,
            started=self._started,
            state=self.state,
            secrets=self._secrets,
            dialect=self.dialect,
        )

    def hide_secrets(self, secrets: Iterable[str]) -> None:
        """Redact these values from now on: in messages to clients, `problems`, the log, and the files of sources."""
        secrets = frozenset(secrets)
        self._secrets |= secrets
        self._redactor.add_secrets(secrets)
        self.registry.pipeline.redactor.add_secrets(secrets)
        for source in self.sources:
            source.hide(secrets)
        for listener in self._secret_listeners:
            listener(secrets)
        if "endpoint" in vars(self):
            self.endpoint.hide(secrets)

    def add_secret_listener(self, listener: Callable[[Iterable[str]], object]) -> None:
        """Call `listener` with all later secrets."""
        self._secret_listeners.append(listener)

    def disable_recording(self) -> None:
        """Record nothing about upstreams, for commands that only list entries."""
        for source in self.sources:
            source.disable_recording()

    @contextlib.asynccontextmanager
    async def run_sources(self, *, serving: bool = True) -> AsyncIterator[None]:
        """Run the sources during the block, and the background tasks if `serving`.

        The block begins before the sources have published; requests wait for `started`.
        """
        # An enclosing block runs the sources.
        if self._is_running:
            yield
            return
        errors: list[Exception] = []
        if serving:
            entry_checks.warn_about_short_secrets(self._secrets)
            tools = self.registry.list()
            # The tools of sources are checked when they are published.
            entry_checks.warn_about_failing(tools)
            entry_checks.warn_about_tasks(tools, self.state.tasks)
        else:
            self.disable_recording()
        if self.status.is_needed:
            self.registry.publish(STATUS_URI, (), resources=[self.status.entry])
        if self._sources:
            self.registry.explain_missing = self._explain_missing
        async with self._open_lifespan(serving=serving), anyio.create_task_group() as tasks:
            if serving:
                # This task begins before the sources, which block the event loop while they import files.
                tasks.start_soon(self._limit_start)
            for attached in self._sources:
                tasks.start_soon(self._run_source, attached)
            if serving:
                for task in self._background:
                    tasks.start_soon(task)
            self._report_started()
            self._is_running = True
            try:
                yield
            except Exception as error:
                # Only the block can raise here. The task group must not wrap its error.
                errors.append(error)
            finally:
                self._is_running = False
                tasks.cancel_scope.cancel()
        if errors:
            raise errors[0]

    @contextlib.asynccontextmanager
    async def _open_lifespan(self, *, serving: bool) -> AsyncIterator[None]:
        if self.lifespan is None or not serving:
            yield
            return
        from mcp_bridge._runtime.lifespan import open_lifespan

        async with open_lifespan(self.lifespan) as self.registry.lifespan:
            yield
        self.registry.lifespan = None

    def describe_server(self, info: ServerInfo) -> None:
        """Replace how the server presents itself, and its lifespan."""
        self._own_identity = self._own_identity.with_info(info)
        self._apply_infos()
        self.lifespan = info.lifespan or self.lifespan

    async def wait_until_started(self) -> None:
        """Wait until each source has published or failed.

        Raises ConfigError if two tools have the same name, SourceError if every source has failed.
        """
        await self._started.wait()
        if self._rejection is not None:
            raise self._rejection
        lines: list[str] = []
        for problems in self.problems.values():
            lines += problems
        if lines and not self._running:
            registry = self.registry
            resources = [entry for entry in registry.resources if entry is not self.status.entry]
            if not (resources or len(registry) or registry.templates or registry.prompts):
                raise SourceError("\n".join(lines))

    def list_states(self) -> Mapping[str, str]:
        """Return the states of the sources by name, or nothing if no source depends on a connection."""
        return self.status.states if self.status.is_needed else {}

    async def wait_until_connected(self) -> None:
        """Wait until each source, even a slow one, has tried to connect to its server."""
        while SourceState.STARTING in self.status.states.values():  # noqa: ASYNC110 - states have no event
            await anyio.sleep(_STATE_INTERVAL)

    async def wait_for_tool(self, name: str) -> None:
        """Wait until the sources that may have a tool have published it or tried to connect. Raises ConfigError."""
        owners = {source.name for source, selection, _ in self._sources if selection.may_publish(name)}
        # The tools of a derived source need those of all others.
        if self._derived:
            owners |= self._running
        while True:
            if not owners & self._pending:
                if name in self.registry:
                    break
                states = self.status.states
                if all(states[owner] is not SourceState.STARTING for owner in owners):
                    break
            await anyio.sleep(_STATE_INTERVAL)
        if self._rejection is not None:
            raise self._rejection

    async def _explain_missing(self, name: str) -> str:
        """Wait until the source that may have a tool has published it or tried to connect. Return why it is missing."""
        with anyio.move_on_after(START_TIMEOUT):
            while self._unpublished and self._is_running and name not in self.registry:
                await self._start_finished.wait()
        for source, selection, _ in self._sources:
            if source.status is None or not selection.may_publish(name):
                continue
            source.request_attempt()
            with anyio.move_on_after(MISSING_TIMEOUT):
                await source.wait_for_attempt()
        reason = self._describe_absence(name)
        if not reason and self._unpublished and name not in self.registry:
            sources = ", ".join(f"'{source}'" for source in sorted(self._unpublished))
            reason = f"The tool may be of a source that is still starting: {sources}. Retry later."
        return reason

    def _describe_absence(self, name: str) -> str:
        """Return why a tool is missing, if it may be of a source that is not connected; empty otherwise."""
        for source, selection, _ in self._sources:
            if source.status is None or not selection.may_publish(name):
                continue
            has_tools = any(entry.owner == source.name for entry in self.registry.list_with_unlisted())
            if source.status.state is not SourceState.READY and not has_tools:
                return source.status.describe_absence(source.name)
        return ""

    async def _run_source(self, attached: AttachedSource) -> None:
        name = attached.source.name
        if name in self._derived:
            await self._others_started.wait()
        try:
            if attached.source.status is not None:
                await self._restore_source(attached)
            await attached.source.run(lambda offer: self._publish(attached, offer))
        except Exception as raised:
            error = unwrap_group(raised)
            logger.error("source %r ended: %s", name, error)
            lines = self._redactor.redact_text(sanitize_text(str(error))).splitlines()
            self.problems[name] = [*self.problems.get(name, []), *lines]
            self.registry.publish(name, ())
        finally:
            self._running.discard(name)
            self._finish_start(name)

    async def _restore_source(self, attached: AttachedSource) -> None:
        """Publish the stored catalogue of a server, and wait until the other sources have done so.

        A server that starts competes with the bridge for the processor, so none starts before all catalogues are
        published.
        """
        try:
            await attached.source.restore(lambda offer: self._publish(attached, offer))
        finally:
            self._restoring.discard(attached.source.name)
            if not self._restoring:
                self._restored.set()
        await self._restored.wait()

    def _publish(self, attached: AttachedSource, offer: Offer) -> None:
        """Select and check the entries of an offer, put them into the registry, and report the problems."""
        name = attached.source.name
        selection = attached.selection
        self._offers[name] = offer
        # The sources that lose a tool because this source publishes one of the same name.
        yielding: frozenset[str] = frozenset()
        problems = [*offer.problems, *selection.find_unknown_tools(offer.tools)]
        tools = entry_checks.select_valid(
            selection.select_tools(offer.tools, name, problems), self._check_tool, problems
        )
        notes = [*offer.notes]
        if not offer.is_repaired:
            tools, lines = repair_tools(tools)
            notes += lines
        resources = entry_checks.select_valid(offer.resources, entry_checks.check_resource, problems)
        templates = entry_checks.select_valid(offer.templates, entry_checks.check_resource_template, problems)
        prompts = selection.select_prompts(offer.prompts)
        try:
            yielding = self.registry.publish(
                name,
                tools,
                resources=resources,
                templates=templates,
                prompts=prompts,
                left_out=problems if offer.partial else None,
            )
        except DuplicateTool as error:
            problems.append(str(error))
            if not self._started.is_set():
                self._rejection = ConfigError(str(error))
        entry_checks.warn_about_tasks(tools, self.state.tasks)
        if offer.server != self._infos.get(name):
            # `_apply_infos` goes by the order of this dict, so that the latest declaration about the server applies.
            self._infos.pop(name, None)
            if offer.server is not None:
                self._infos[name] = offer.server
            self._apply_infos()
        # The text of a schema may have lone surrogates.
        problems = [sanitize_text(problem) for problem in problems]
        # A slow server is not an error yet: if it cannot be reached, its next problem says so.
        status = attached.source.status
        is_starting = status is not None and status.state == SourceState.STARTING
        for problem in problems:
            logger.log(logging.INFO if is_starting else logging.ERROR, "source %r: %s", name, problem)
        self.problems[name] = [self._redactor.redact_text(problem) for problem in problems]
        offer_notes = [self._redactor.redact_text(sanitize_text(note)) for note in notes]
        self.notes[name] = [*attached.notes, *offer_notes]
        entry_checks.warn_about_notes(name, offer_notes)
        self._finish_start(name)
        if self.status.is_needed:
            self.registry.resource_updated(STATUS_URI)
        for other in self._sources:
            # The other source reports what it does not publish any more.
            if other.source.name in yielding:
                self._publish(other, self._offers[other.source.name])

    def _check_tool(self, entry: ToolEntry) -> list[str]:
        if entry.name in self.identity.listing.built_in:
            advice = "Give the source a prefix, or the tool an alias"
            return [f"tool '{entry.name}' is not published: the settings add a tool of this name. {advice}"]
        return entry_checks.check_headers_of_tool(entry)

    def _apply_infos(self) -> None:
        """Add what the sources declare about the server, where the settings leave it out."""
        default = Identity()
        identity = self._own_identity
        open_fields = [name for name in _INFO if getattr(identity, name) == getattr(default, name)]
        if "name" in open_fields:
            identity = identity._replace(name=self._default_name)
        for info in self._infos.values():
            identity = identity.with_info(ServerInfo(**{name: getattr(info, name) for name in open_fields}))
        if "instructions" in open_fields:
            # Those of all sources are joined, in the order of the settings.
            infos = [self._infos.get(source.name) for source in self.sources]
            texts = [info.instructions for info in infos if info is not None and info.instructions]
            identity = identity._replace(instructions=join_instructions(texts))
        self.identity = identity
        if "endpoint" in vars(self):
            self.endpoint.describe_server(identity)

    async def _limit_start(self) -> None:
        """Stop waiting for slow sources: first for those with their own entries, then for derived ones."""
        for names in ({source.name for source in self.sources} - self._derived, self._derived):
            await anyio.sleep(START_LIMIT)
            for name in names & self._pending:
                problem = f"it has not started within {START_LIMIT:.4g} seconds, and is published as soon as it has"
                logger.error("source %r: %s", name, problem)
                self.problems[name] = [*self.problems.get(name, []), problem]
                self._pending.discard(name)
            self._report_started()

    def _finish_start(self, name: str) -> None:
        self._pending.discard(name)
        self._unpublished.discard(name)
        event = self._start_finished
        self._start_finished = anyio.Event()
        event.set()
        self._report_started()

    def _report_started(self) -> None:
        if self._pending <= self._derived:
            self._others_started.set()
        if not self._pending:
            self._started.set()
