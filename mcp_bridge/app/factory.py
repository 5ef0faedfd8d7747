"""Makes a bridge from a settings file, or from one Python file with default settings."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_bridge._version import __version__
from mcp_bridge.app.bridge import Attached, Bridge
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.contracts.extension import ApprovalSource, GoverningSource, ToolSource, WorkingDirSource
from mcp_bridge.contracts.identity import Identity
from mcp_bridge.contracts.state import State
from mcp_bridge.contracts.store import Store
from mcp_bridge.dialects.dialect import NONE, Dialect
from mcp_bridge.pipeline.pipeline import Pipeline, ToolLimits
from mcp_bridge.registry.plugins import FILES, make_store, source_type
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.registry.selection import Selection
from mcp_bridge.schema.extent import Extent

if TYPE_CHECKING:
    from mcp_bridge.settings import Settings, SourceSettings

Updated = Callable[[str], None]
"""Who hears that a resource has changed."""
_SOME = "Name the tools that are to be isolated under isolation.tools, or leave isolation out"


def from_file(path: Path, *, watch: bool = False, private: bool = False) -> Bridge:
    """A bridge that serves one Python file or folder, with default settings."""
    from mcp_bridge.sources.python import PythonSource

    registry = ToolRegistry(pipeline=Pipeline())
    source = PythonSource(path.stem, path=path, watch=watch)
    return Bridge(registry, [Attached(source=source)], identity=Identity(ttl_ms=_ttl(watch), private=private))


def from_settings(settings: Settings, *, watch: bool = False, private: bool = False) -> Bridge:
    """A bridge as the settings say. Raises ConfigError with file and line for what is wrong in a source's options."""
    watch = watch or settings.reload

    def updated(uri: str) -> None:
        registry.resource_updated(uri)

    sources = _attached(settings, updated, watch=watch)
    registry = ToolRegistry(pipeline=_pipeline(settings, sources))
    identity = _identity(settings, watch=watch, private=private)
    beside, drain = _decided(settings, sources), settings.limits.drain
    dialect = dialect_of(settings)
    bridge = Bridge(registry, sources, identity, _state(settings), drain=drain, dialect=dialect, beside=beside)
    bridge.hide(settings.withheld)
    return bridge


def _pipeline(settings: Settings, sources: Iterable[Attached]) -> Pipeline:
    """The limits of the settings, and the policies that sources bring, in their order."""
    limits = settings.limits
    own = {
        name: ToolLimits(timeout=limit.timeout, concurrency=limit.concurrency) for name, limit in limits.tools.items()
    }
    return Pipeline(
        [
            policy
            for attached in sources
            if isinstance(attached.source, GoverningSource)
            for policy in attached.source.middleware
        ],
        timeout=limits.timeout,
        threads=limits.threads,
        concurrency=limits.concurrency,
        queue=limits.queue,
        arguments=Extent(size=limits.arguments, depth=limits.depth, nodes=limits.nodes),
        tools=own,
        expose_errors=settings.expose_errors,
    )


def _identity(settings: Settings, *, watch: bool, private: bool) -> Identity:
    limits = settings.limits
    return Identity(
        name=settings.name,
        version=settings.version or __version__,
        title=settings.title,
        instructions=settings.instructions,
        page=limits.page,
        result=limits.result,
        content=limits.content,
        ttl_ms=_ttl(watch),
        private=private,
    )


def dialect_of(settings: Settings) -> Dialect:
    """What the named clients need, and what the settings say themselves."""
    given = settings.dialect
    if given is None:
        return NONE
    from mcp_bridge.dialects.table import PROFILES

    needed = NONE
    for client in given.clients:
        needed |= PROFILES[client].dialect
    own = given.model_dump(exclude={"clients"}, exclude_none=True)
    return replace(needed, **own)


def _state(settings: Settings) -> State:
    given = settings.state
    keys = tuple(key.get_secret_value() for key in given.keys)
    return State(keys=keys, ttl=given.ttl, parked=given.parked, store=_store(settings))


def _store(settings: Settings) -> Store:
    if settings.state.store in FILES:
        from mcp_bridge.app.approval_policy import store_in

        return store_in(settings, "state", settings.state.store, settings.state.path)
    try:
        return make_store(settings.state.store)
    except ConfigError as error:
        raise settings.located(error, "state", "store") from None


def _decided(settings: Settings, sources: Iterable[Attached]) -> list[Callable[[], Coroutine[Any, Any, None]]]:
    """Have people decide as the settings say, wherever sources ask them; what has to run for that.

    Raises ConfigError for a store that cannot be had.
    """
    found = [attached.source.asking for attached in sources if isinstance(attached.source, ApprovalSource)]
    asking = [one for one in found if one is not None]
    if not asking:
        return []
    from mcp_bridge.app.approval_policy import policy_of

    policy = policy_of(settings)
    for one in asking:
        one.policy = policy
    return [policy.desk.run] if policy.desk is not None else []


def _ttl(watch: bool) -> int:
    """How long clients may keep a list: not at all while somebody is editing."""
    return 0 if watch else 60_000


def _attached(settings: Settings, updated: Updated, *, watch: bool) -> list[Attached]:
    attached: list[Attached] = []
    names: set[str] = set()
    for source in settings.sources:
        made = _attach(source, settings, updated, watch=watch)
        if made.source.name in names:
            hint = "Give each source a name of its own"
            raise _at(source, ConfigError(f"two sources are named '{made.source.name}'", hint=hint))
        names.add(made.source.name)
        attached.append(made)
    return attached


def _attach(source: SourceSettings, settings: Settings, updated: Updated, *, watch: bool) -> Attached:
    from mcp_bridge.settings import options

    try:
        model = source_type(source.type)
    except ConfigError as error:
        raise _at(source, error, "type") from None  # the cause may tell what is left out of the text
    chosen = options(model, source)
    selection = Selection(
        include=source.include,
        exclude=source.exclude,
        tags=source.tags,
        match_all_tags=source.match_all_tags,
        prefix=source.prefix or "",
        alias=source.alias,
    )
    built: ToolSource = chosen.build(source.name or chosen.default_name(), settings.directory, watch=watch)
    if isinstance(built, WorkingDirSource):
        built.work_in(settings.working_directory, roots=settings.uses_roots)
    if source.isolation is not None and source.isolation.mode == "process":
        built = _isolated(built, source, settings, updated, watch=watch)
    return Attached(source=built, selection=selection)


def _isolated(
    built: ToolSource, source: SourceSettings, settings: Settings, updated: Updated, *, watch: bool
) -> ToolSource:
    """The source in worker processes; refused, rather than run without, where there is no sandbox to be had."""
    from mcp_bridge.isolation import sandbox
    from mcp_bridge.isolation.order import Isolation, Limits, Order, Sandbox
    from mcp_bridge.isolation.source import IsolatedSource

    given, directory = source.isolation, settings.directory
    assert given is not None
    if isinstance(built, GoverningSource) and built.middleware and not given.tools:
        away = ConfigError("its hooks govern calls, and cannot do so from another process", hint=_SOME)
        raise _at(source, away, "isolation")
    if given.sandbox is not None and not sandbox.is_installed():
        missing = ConfigError(f"there is no {given.sandbox} on this machine", hint=sandbox.HINT)
        raise _at(source, missing, "isolation", "sandbox")
    boxed = Sandbox(network=given.network, read=_below(directory, given.read), write=_below(directory, given.write))
    isolation = Isolation(
        tools=given.tools,
        workers=given.workers,
        limits=Limits(memory=given.memory, cpu=given.cpu, files=given.files, file_size=given.file_size),
        env=given.env,
        sandbox=boxed if given.sandbox is not None else None,
    )
    order = Order(
        type=source.type,
        name=built.name,
        options=source.options,
        directory=str(directory.resolve()),
        working_dir=str(settings.working_directory),
        roots=settings.uses_roots,
        watch=watch,
    )
    return IsolatedSource(built, order, isolation, updated)


def _below(directory: Path, paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(str((directory / path).resolve()) for path in paths)


def _at(source: SourceSettings, error: ConfigError, *key: str) -> ConfigError:
    """The error with the place in the file where the source, or a key of it, stands."""
    if source.origin is None:
        return error
    return source.origin.document.error((*source.origin.where, *key), error.problem, error.hint)
