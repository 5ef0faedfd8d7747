"""Builds a bridge from settings, or from a Python file with default settings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._app.server_name import choose_server_name
from mcp_bridge._app.stores import find_redis_url, open_store
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.listing import SearchPolicy, ToolListing
from mcp_bridge._contracts.policy import Middleware, Policy
from mcp_bridge._contracts.source import (
    DefinitionFile,
    Offer,
    Publish,
    Source,
    SourceContext,
    SourceState,
    SourceStatus,
)
from mcp_bridge._contracts.state import State
from mcp_bridge._contracts.store import ClosableStore, Store
from mcp_bridge._contracts.tasks import MEMORY, TaskOptions, ToolTasks
from mcp_bridge._engine.pipeline import Pipeline, ToolLimits
from mcp_bridge._engine.plugins import load_source_type
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._engine.selection import Selection
from mcp_bridge._json_schema.size_limits import SizeLimits
from mcp_bridge._protocol.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.tasks import close_at_end
from mcp_bridge._version import __version__

if TYPE_CHECKING:
    from mcp_bridge._engine.overrides import ToolOverride
    from mcp_bridge._policies.approvals.desk import QuestionDesk
    from mcp_bridge._settings import Settings, SourceSettings
    from mcp_bridge._settings.model import ToolOverrideSettings
    from mcp_bridge._web.api import OperatorApi


def build_from_file(path: Path, *, watch: bool = False, private: bool = False) -> Bridge:
    """Build a bridge that serves a Python file or folder with default settings."""
    from mcp_bridge._sources.python import PythonSource

    registry = ToolRegistry(pipeline=Pipeline())
    # The name of the source is that of the folder or file. The path `.` has none, so it is made absolute first.
    name = Path(os.path.abspath(path)).stem
    source = PythonSource(name, path=path, watch=watch)
    identity = Identity(ttl_ms=_choose_ttl(watch), private=private, is_open=True)
    return Bridge(registry, [AttachedSource(source=source)], identity=identity, default_name=choose_server_name(path))


def build_from_settings(settings: Settings, *, watch: bool = False, private: bool = False) -> Bridge:
    """Build a bridge from settings. Raises ConfigError with file and line for invalid options of a source."""
    store = open_store(settings)
    state = State(
        keys=[key.get_secret_value() for key in settings.state.keys],
        ttl=settings.state.ttl,
        store=store,
        tasks=_build_task_options(settings),
        name=settings.state_name,
    )
    # A source can share data with other instances only through Redis.
    shared_store = store if find_redis_url(settings) is not None else None
    sources = _attach_sources(settings, shared_store, watch=watch)
    redactor = Redactor()
    middleware: list[Middleware | Policy] = []
    for attached in sources:
        middleware += attached.source.middleware
    if settings.policy:
        # Most servers have no policies, so their modules are imported late.
        from mcp_bridge._app.policies import add_policies

        middleware = add_policies(middleware, settings, redactor)
    registry = ToolRegistry(pipeline=_build_pipeline(settings, middleware, redactor))
    policies = registry.pipeline.policies
    background: list[Callable[[], Coroutine[Any, Any, None]]] = [policy.run for policy in policies]
    if isinstance(store, ClosableStore):
        background.append(partial(close_at_end, store.aclose))
    desk = None
    gates = [attached.source.asking for attached in sources] + [policy.asking for policy in policies]
    if any(gate is not None for gate in gates):
        from mcp_bridge._app.policies import build_approval_policy

        approvals = build_approval_policy(settings, redactor.substitutions)
        for gate in gates:
            if gate is not None:
                gate.policy = approvals
        desk = approvals.desk
        if desk is not None and desk.serves_terminals:
            background.append(lambda: _serve_operators(bridge, desk, settings))
        if isinstance(approvals.grants, ClosableStore):
            background.append(partial(close_at_end, approvals.grants.aclose))
    bridge = Bridge(
        registry,
        [*sources, *_attach_chains(settings, sources, registry)],
        _build_identity(settings, sources, watch=watch, private=private),
        state,
        default_name=_choose_default_name(settings),
        drain=settings.limits.drain,
        dialect=build_dialect(settings),
        background=background,
        desk=desk,
    )
    bridge.hide_secrets(settings.hidden_from_clients)
    return bridge


async def _serve_operators(bridge: Bridge, desk: QuestionDesk, settings: Settings) -> None:
    """Serve the private socket of a bridge that asks for approval, until cancelled."""
    from mcp_bridge._policies.approvals.policy import get_socket_folder
    from mcp_bridge._web.operator_socket import OperatorSocket

    def find_api() -> OperatorApi:
        from mcp_bridge._app.operator_api import find_operator_api

        return find_operator_api(bridge, settings)

    await OperatorSocket(get_socket_folder(settings.path), desk, find_api).run()


def _build_pipeline(settings: Settings, middleware: Sequence[Middleware | Policy], redactor: Redactor) -> Pipeline:
    limits = settings.limits
    pipeline = Pipeline(
        middleware,
        timeout=limits.timeout,
        threads=limits.threads,
        concurrency=limits.concurrency,
        arguments=SizeLimits(size=limits.arguments),
        tools={
            pattern: ToolLimits(timeout=tool.timeout, concurrency=tool.concurrency)
            for pattern, tool in limits.tools.items()
        },
        expose_errors=settings.expose_errors,
    )
    pipeline.redactor = redactor
    return pipeline


def _build_identity(settings: Settings, sources: Sequence[AttachedSource], *, watch: bool, private: bool) -> Identity:
    # The offers of a source that depends on a connection can change at any time.
    is_changing = watch or any(attached.source.status is not None for attached in sources)
    search = None
    if settings.tool_search is not None:
        search = SearchPolicy(above=settings.tool_search.above, keep=settings.tool_search.keep)
    return Identity(
        name=settings.name or Identity().name,
        version=settings.version or __version__,
        title=settings.title,
        instructions=settings.instructions,
        result=settings.limits.result,
        ttl_ms=_choose_ttl(is_changing),
        private=private,
        listing=ToolListing(search=search, resources=settings.entries_as_tools, prompts=settings.entries_as_tools),
        has_skills=any(source.type == "skills" for source in settings.sources),
        # The response to `initialize` has the ServerInfo of sources, so it waits for them if all can declare one.
        is_open=all(attached.source.describes_server for attached in sources),
    )


def _choose_default_name(settings: Settings) -> str:
    if settings.name is None and settings.file is not None:
        return choose_server_name(settings.file)
    return settings.state_name


def build_dialect(settings: Settings) -> SchemaDialect:
    """Combine the dialects of all clients that the settings name, and the other options of the dialect."""
    options = settings.dialect
    if options is None:
        return NO_DIALECT
    from mcp_bridge._protocol.dialects.table import PROFILES

    dialect = SchemaDialect(omit_empty=options.omit_empty)
    for client in options.clients:
        dialect |= PROFILES[client].dialect
    return dialect


def _build_task_options(settings: Settings) -> TaskOptions | None:
    if settings.tasks is None:
        return None
    tools = {pattern: ToolTasks(**tool.model_dump()) for pattern, tool in settings.tasks.tools.items()}
    options = TaskOptions(
        **settings.tasks.model_dump(exclude={"tools", "workers_only"}),
        tools=tools,
        url=find_redis_url(settings) or MEMORY,
    )
    # With this option, this server only submits tasks to Redis, and other processes run them.
    if settings.tasks.workers_only and options.url != MEMORY:
        return options._replace(concurrency=0)
    return options


def _choose_ttl(changing: bool) -> int:
    """Choose how long clients may cache lists, in milliseconds. Lists that can change at any time are not cached."""
    return 0 if changing else 60_000


def _attach_sources(settings: Settings, store: Store | None, *, watch: bool) -> list[AttachedSource]:
    attached: dict[str, AttachedSource] = {}

    @cache
    def open_lock() -> DefinitionFile:
        # Only upstreams need it.
        from mcp_bridge._upstream.trust.definition_lock import DefinitionLock

        return DefinitionLock(settings.path)

    context = SourceContext(
        directory=settings.directory,
        watch=watch,
        working_dir=settings.working_directory,
        uses_roots=settings.uses_roots,
        settings_file=settings.path if settings.path.is_file() else None,
        store=store,
        open_lock=open_lock,
    )
    for source in settings.sources:
        attachment = _attach_source(source, settings, context)
        name = attachment.source.name
        if name in attached:
            hint = "Give each source a different `name`"
            raise source.add_location(ConfigError(f"two sources are named '{name}'", hint=hint))
        attached[name] = attachment
    return list(attached.values())


def _attach_chains(
    settings: Settings, sources: Iterable[AttachedSource], registry: ToolRegistry
) -> Iterator[AttachedSource]:
    """Yield the source of the chains in the settings, if there are any."""
    if not settings.chains:
        return
    from mcp_bridge._sources.chains import NAME, ChainSource

    if any(attached.source.name == NAME for attached in sources):
        error = ConfigError(f"a source is named '{NAME}', like the chains of the settings", hint="Rename the source")
        raise settings.add_location(error, "chains")
    yield AttachedSource(source=ChainSource(settings.chains, registry, settings.add_location))


def _attach_source(source: SourceSettings, settings: Settings, context: SourceContext) -> AttachedSource:
    from mcp_bridge._settings import SettingsModel, parse_options

    try:
        source_class = load_source_type(source.type)
    except ConfigError as error:
        # The cause may contain secrets, which the text of this error does not.
        raise source.add_location(error, "type") from None
    origin = source.origin
    if origin is not None and origin.problem is not None:
        return _attach_unusable(source, origin.problem)
    try:
        options = parse_options(source_class.load_options() or SettingsModel, source)
    except ConfigError as error:
        if origin is None or not origin.is_alone:
            raise
        return _attach_unusable(source, error)
    name = source.name or source_class.choose_name(options)
    prefix = source.prefix
    if prefix is None and source_class.has_prefix:
        prefix = name
    selection = Selection(
        include=source.include,
        exclude=source.exclude,
        tags=source.tags,
        prefix=prefix or "",
        alias=source.alias,
        overrides={tool: _build_override(override) for tool, override in source.overrides.items()},
    )
    built_source = source_class.build(name, options, context)
    if source.isolation is not None:
        # Most servers isolate no source, so the modules are imported late.
        from mcp_bridge._app.isolation import isolate

        built_source = isolate(built_source, source, settings, selection, watch=context.watch)
    notes = origin.notes if origin is not None else ()
    return AttachedSource(source=built_source, selection=selection, notes=notes)


def _attach_unusable(source: SourceSettings, problem: ConfigError) -> AttachedSource:
    name = source.name or source.type
    selection = Selection(prefix=name if source.prefix is None else source.prefix)
    return AttachedSource(source=UnusableSource(name, str(problem)), selection=selection)


class UnusableSource(Source):
    """Replaces a source whose settings have a problem, so that the others are served. It publishes the problem."""

    describes_server = True

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name)
        self.status = SourceStatus(state=SourceState.BROKEN, since=time.time(), reason=problem)
        self._offer = Offer(problems=problem.splitlines())

    async def run(self, publish: Publish) -> None:
        publish(self._offer)


def _build_override(settings: ToolOverrideSettings) -> ToolOverride:
    from mcp_bridge._engine.overrides import ToolOverride

    arguments = settings.arguments
    return ToolOverride(
        title=settings.title,
        description=settings.description,
        annotations=dict(settings.annotations.items()),
        hidden=frozenset(name for name, argument in arguments.items() if argument.hidden),
        fixed={name: argument.value for name, argument in arguments.items() if "value" in argument.model_fields_set},
        descriptions={
            name: argument.description for name, argument in arguments.items() if argument.description is not None
        },
    )
