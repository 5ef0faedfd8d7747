"""The bridge: a registry, the sources that fill it, and the endpoint that serves it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from mcp_bridge.app.entry_checks import (
    check_resource,
    check_resource_template,
    check_schemas,
    select_valid,
    warn_about_failing,
    warn_about_tasks,
)
from mcp_bridge.app.status import STATUS_URI, BridgeStatus
from mcp_bridge.contracts.errors import ConfigError, DuplicateTool, SourceError
from mcp_bridge.contracts.extension import (
    ConnectingSource,
    CredentialSource,
    DerivedSource,
    NotifyingSource,
    PinningSource,
    ReportingSource,
    SecretSource,
    SubscribingSource,
    ToolSource,
)
from mcp_bridge.contracts.identity import Identity
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.server_info import Lifespan, ServerInfo
from mcp_bridge.contracts.source_status import SourceState
from mcp_bridge.contracts.state import State
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.registry.selection import Selection
from mcp_bridge.runtime.redaction import GUESSABLE, Redactor
from mcp_bridge.runtime.third_party import unwrap_group
from mcp_bridge.wire.values import sanitize_text

if TYPE_CHECKING:
    from mcp_bridge.approvals.desk import QuestionDesk
    from mcp_bridge.server.endpoint import Endpoint

logger = logging.getLogger("mcp_bridge.bridge")

MAX_INSTRUCTIONS = 16 * 1024
"""The maximum number of characters of the instructions of several sources together."""
_STATE_INTERVAL = 0.05
MISSING_PATIENCE = 5.0
"""Seconds for which a call to an unknown tool waits for a server that is still starting."""
_INFO = ("name", "version", "title", "instructions")


class AttachedSource(NamedTuple):
    """A source, and the selection of its tools that is published, with their names.

    `timeouts` are the time limits of tools that have their own, in seconds, by their original names.
    """

    source: ToolSource
    selection: Selection = Selection()
    timeouts: Mapping[str, float] = MappingProxyType({})


class Bridge:
    """A registry, the sources that fill it, and the endpoint that serves it.

    `drain` is how many seconds calls in flight may take after serving ends, `dialect` how tools are described to
    clients. `background` are tasks that run while the bridge serves and never raise. `desk` asks users who are not at
    the client for approval; None if nothing asks. `lifespan` is entered around serving. `problems` lists what each
    source could not publish, and `status` has the state of each.
    """

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        sources: Sequence[AttachedSource] = (),
        identity: Identity | None = None,
        state: State | None = None,
        *,
        drain: float = 10.0,
        dialect: SchemaDialect = NO_DIALECT,
        background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
        desk: QuestionDesk | None = None,
        lifespan: Lifespan | None = None,
    ) -> None:
        self.registry = registry if registry is not None else ToolRegistry()
        self.identity = self._own_identity = identity or Identity()
        self.state = state or State()
        self.drain = drain
        self.dialect = dialect
        self.lifespan = lifespan
        self.desk = desk
        self._background = tuple(background)
        self.problems: dict[str, list[str]] = {}
        self._infos: dict[str, ServerInfo] = {}
        self._offers: dict[str, Offer] = {}
        self._secrets: set[str] = set()
        self._redactor = Redactor()
        self._secret_listeners: list[Callable[[Iterable[str]], object]] = []
        self._sources = tuple(sources)
        self.hide_secrets(self.state.keys)
        self._rejection: ConfigError | None = None
        names = [attached.source.name for attached in sources]
        self._running, self._pending = set(names), set(names)
        self.registry.set_order(names)
        self._is_running = False
        self._started = anyio.Event()
        self._derived = {each.source.name for each in sources if isinstance(each.source, DerivedSource)}
        self._others_started = anyio.Event()
        self.status = BridgeStatus(self.registry, self.sources, self.problems, self._pending)
        for attached in self._sources:
            if isinstance(attached.source, NotifyingSource):
                attached.source.set_update_listener(self.registry.resource_updated)
            if isinstance(attached.source, SubscribingSource):
                self.registry.subscriptions.attach(attached.source)
            if isinstance(attached.source, CredentialSource):
                attached.source.set_secret_listener(self.hide_secrets)
            if isinstance(attached.source, DerivedSource):
                attached.source.set_absence_reporter(self._describe_absence)
            if isinstance(attached.source, ConnectingSource):
                self.registry.add_list_listener(attached.source.request_attempt)

    @property
    def sources(self) -> Sequence[ToolSource]:
        """The sources that fill the registry."""
        return [attached.source for attached in self._sources]

    @property
    def secrets(self) -> frozenset[str]:
        """The values that are redacted."""
        return frozenset(self._secrets)

    @cached_property
    def endpoint(self) -> Endpoint:
        """The MCP server, created on first use, because some commands need none."""
        from mcp_bridge.server.endpoint import Endpoint

        return Endpoint(
            self.registry,
            self.identity,
            started=self._started,
            state=self.state,
            secrets=self._secrets,
            dialect=self.dialect,
        )

    def hide_secrets(self, secrets: Iterable[str]) -> None:
        """Redact these values from now on: in messages to clients, `problems`, the log, and what sources write."""
        secrets = frozenset(secrets)
        self._secrets |= secrets
        self._redactor.add_secrets(secrets)
        self.registry.pipeline.redactor.add_secrets(secrets)
        for attached in self._sources:
            if isinstance(attached.source, SecretSource):
                attached.source.hide(secrets)
        for listener in self._secret_listeners:
            listener(secrets)
        if "endpoint" in vars(self):
            self.endpoint.hide(secrets)

    def add_secret_listener(self, listener: Callable[[Iterable[str]], object]) -> None:
        """Call `listener` with secrets that become known from now on."""
        self._secret_listeners.append(listener)

    def _warn_about_short_secrets(self) -> None:
        if short := sum(len(secret) < GUESSABLE for secret in self._secrets):
            from mcp_bridge.runtime.secret_forms import MIN_LENGTH

            logger.warning(
                "secrets with fewer than %d characters: %d. Clients can guess them with a tool that returns its input, "
                "and those with fewer than %d are not redacted. Use longer ones",
                GUESSABLE,
                short,
                MIN_LENGTH,
            )

    def disable_recording(self) -> None:
        """Record nothing about other servers, for commands that only list what is published."""
        for source in self.sources:
            if isinstance(source, PinningSource):
                source.disable_recording()

    @contextlib.asynccontextmanager
    async def run_sources(self, *, serving: bool = True) -> AsyncIterator[None]:
        """Run the sources during the block, and the background tasks if `serving`.

        The block begins before the sources have published; requests wait for `started`.
        """
        if self._is_running:  # an enclosing block runs the sources
            yield
            return
        errors: list[Exception] = []
        if serving:
            self._warn_about_short_secrets()
            tools = self.registry.list()
            warn_about_failing(tools)  # those of sources are checked by the sources
            warn_about_tasks(tools, self.state.tasks)
        else:
            self.disable_recording()
        if self.status.is_needed:
            self.registry.publish(STATUS_URI, (), resources=[self.status.entry])
            self.registry.explain_missing = self._explain_missing
        async with self._open_lifespan(serving=serving), anyio.create_task_group() as tasks:
            for attached in self._sources:
                tasks.start_soon(self._run_source, attached)
            for task in self._background if serving else ():
                tasks.start_soon(task)
            self._report_started()
            self._is_running = True
            try:
                yield
            except Exception as error:  # only the block can raise: keep the task group from wrapping its error
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
        from mcp_bridge.runtime.lifespan import open_lifespan

        async with open_lifespan(self.lifespan) as self.registry.lifespan:
            yield
        self.registry.lifespan = None

    def describe_server(self, info: ServerInfo) -> None:
        """Replace how the server presents itself, and its lifespan."""
        self._own_identity = self._own_identity.with_info(info)
        self._apply_infos()
        self.lifespan = info.lifespan or self.lifespan

    def _identify(self, identity: Identity) -> None:
        self.identity = identity
        if "endpoint" in vars(self):
            self.endpoint.describe_server(identity)

    async def wait_until_started(self) -> None:
        """Wait until each source has published or failed.

        Raises ConfigError if two tools have the same name, SourceError if every source has failed.
        """
        await self._started.wait()
        if self._rejection is not None:
            raise self._rejection
        lines = [line for problems in self.problems.values() for line in problems]
        if lines and not self._running and not self._has_entries():
            raise SourceError("\n".join(lines))

    def list_states(self) -> Mapping[str, str]:
        """Return the states of the sources by name; none if no source has a state that can change."""
        return self.status.states if self.status.is_needed else {}

    async def wait_until_connected(self) -> None:
        """Wait until each source, even a slow one, has tried to connect to its server."""
        while SourceState.STARTING in self.status.states.values():  # noqa: ASYNC110 - states have no event
            await anyio.sleep(_STATE_INTERVAL)

    async def wait_for_tool(self, name: str) -> None:
        """Wait until the sources that may have a tool have published it or tried to connect. Raises ConfigError."""
        sources = self._sources
        owners = {one.name for one, selection, _ in sources if not selection.prefix or selection.may_publish(name)}
        if any(isinstance(each.source, DerivedSource) for each in sources):  # its tools need those of all sources
            owners |= self._running
        while owners & self._pending or (  # noqa: ASYNC110 - states have no event
            name not in self.registry and SourceState.STARTING in {self.status.states[one] for one in owners}
        ):
            await anyio.sleep(_STATE_INTERVAL)
        if self._rejection is not None:
            raise self._rejection

    async def _explain_missing(self, name: str) -> str:
        """Wait until the source that may have a tool has tried to connect. Return why it has no tools at all."""
        for source, selection, _ in self._sources:
            if not isinstance(source, ReportingSource) or not selection.may_publish(name):
                continue
            if isinstance(source, ConnectingSource):
                source.request_attempt()
            with anyio.move_on_after(MISSING_PATIENCE):
                await source.wait_for_attempt()
        return self._describe_absence(name)

    def _describe_absence(self, name: str) -> str:
        for source, selection, _ in self._sources:
            if not isinstance(source, ReportingSource) or not selection.may_publish(name):
                continue
            has_tools = any(entry.owner == source.name for entry in self.registry.list_with_unlisted())
            if source.status.state is not SourceState.READY and not has_tools:
                return source.status.describe_absence(source.name)
        return ""

    def _has_entries(self) -> bool:
        """Whether something besides the status is published."""
        resources = [entry for entry in self.registry.resources if entry is not self.status.entry]
        return bool(resources or len(self.registry) or self.registry.templates or self.registry.prompts)

    async def _run_source(self, attached: AttachedSource) -> None:
        # An error of a source removes its own tools and affects nothing else.
        name = attached.source.name
        if name in self._derived:
            await self._others_started.wait()
        try:
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

    def _publish(self, attached: AttachedSource, offer: Offer) -> None:
        name, selection = attached.source.name, attached.selection
        self._offers[name] = offer
        yielding: frozenset[str] = frozenset()
        problems = [*offer.problems, *selection.find_unknown_tools(offer.tools)]
        tools = select_valid(selection.select_tools(offer.tools, name, problems), self._check_tool, problems)
        resources = select_valid(offer.resources, check_resource, problems)
        templates = select_valid(offer.templates, check_resource_template, problems)
        prompts = selection.select_prompts(offer.prompts)
        left_out = problems if offer.partial else None
        try:
            yielding = self.registry.publish(
                name, tools, resources=resources, templates=templates, prompts=prompts, left_out=left_out
            )
        except DuplicateTool as error:
            problems.append(str(error))
            if not self._started.is_set():
                self._rejection = ConfigError(str(error))
        warn_about_tasks(tools, self.state.tasks)
        if offer.server != self._infos.get(name):
            self._adopt_info(name, offer.server)
        problems = [sanitize_text(problem) for problem in problems]  # the text of a schema may have lone surrogates
        # A slow server is not an error yet: if it cannot be reached, its next problem says so.
        source = attached.source
        is_starting = isinstance(source, ReportingSource) and source.status.state == SourceState.STARTING
        for problem in problems:
            logger.log(logging.INFO if is_starting else logging.ERROR, "source %r: %s", name, problem)
        self.problems[name] = [self._redactor.redact_text(problem) for problem in problems]
        self._finish_start(name)
        if self.status.is_needed:
            self.registry.resource_updated(STATUS_URI)
        for other in self._sources:
            if other.source.name in yielding:  # report what it no longer publishes
                self._publish(other, self._offers[other.source.name])

    def _check_tool(self, entry: ToolEntry) -> list[str]:
        if entry.name in self.identity.listing.built_in:
            advice = "Give the source a prefix, or the tool an alias"
            return [f"tool '{entry.name}' is not published: the settings add a tool of this name. {advice}"]
        return check_schemas(entry)

    def _adopt_info(self, source: str, info: ServerInfo | None) -> None:
        """Apply what a source declares about the server; the settings take precedence."""
        self._infos.pop(source, None)  # the last one counts
        if info is not None:
            self._infos[source] = info
        self._apply_infos()

    def _apply_infos(self) -> None:
        default, identity = Identity(), self._own_identity
        free = [name for name in _INFO if getattr(identity, name) == getattr(default, name)]
        for info in self._infos.values():
            identity = identity.with_info(ServerInfo(**{name: getattr(info, name) for name in free}))
        if "instructions" in free:
            infos = [self._infos.get(source.name) for source in self.sources]
            texts = [info.instructions for info in infos if info is not None and info.instructions]
            identity = identity._replace(instructions=_join_instructions(texts))
        self._identify(identity)

    def _finish_start(self, name: str) -> None:
        self._pending.discard(name)
        self._report_started()

    def _report_started(self) -> None:
        if self._pending <= self._derived:
            self._others_started.set()
        if not self._pending:
            self._started.set()


def _join_instructions(texts: Sequence[str]) -> str | None:
    """Join the instructions of several sources. If they are too long together, each is truncated to an equal share."""
    if len(texts) > 1 and sum(map(len, texts)) > MAX_INSTRUCTIONS:
        share = MAX_INSTRUCTIONS // len(texts)
        texts = [text if len(text) <= share else f"{text[:share]} [truncated]" for text in texts]
    return "\n\n".join(texts) or None
