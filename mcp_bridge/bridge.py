"""The composition root: sources, registry and pipeline put together; settings in, a running bridge out."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio

from mcp_bridge._version import __version__
from mcp_bridge.contracts.errors import ConfigError, DuplicateTool, SourceError
from mcp_bridge.contracts.extension import ToolSource
from mcp_bridge.contracts.identity import Identity
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.state import State
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.pipeline import Pipeline, ToolLimits
from mcp_bridge.plugins import make_store, source_type
from mcp_bridge.registry import ToolRegistry
from mcp_bridge.schema.extent import Extent
from mcp_bridge.schema.headers import header_complaints
from mcp_bridge.schema.templates import template_complaints, uri_complaints
from mcp_bridge.schema.validator import complaints
from mcp_bridge.selection import Selection

if TYPE_CHECKING:
    from mcp_bridge.server.endpoint import Endpoint
    from mcp_bridge.settings import Settings, SourceSettings

logger = logging.getLogger("mcp_bridge.bridge")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Attached:
    """A source, and which of its tools are published under which names."""

    source: ToolSource
    selection: Selection = field(default_factory=Selection)


class Bridge:
    """A registry, the sources that fill it, and the endpoint that serves it.

    `problems` has, by source, a line for each thing that could not be published.
    """

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        sources: Sequence[Attached] = (),
        identity: Identity | None = None,
        state: State | None = None,
    ) -> None:
        self.registry = registry if registry is not None else ToolRegistry()
        self.identity = identity or Identity()
        self.state = state or State()
        self.problems: dict[str, list[str]] = {}
        self._sources = tuple(sources)
        self._refused: ConfigError | None = None
        self._alive = {attached.source.name for attached in sources}
        self._waiting = {attached.source.name for attached in sources}
        self._started = anyio.Event()

    @cached_property
    def endpoint(self) -> Endpoint:
        """The MCP server; made when first needed, because it imports the SDK."""
        from mcp_bridge.server.endpoint import Endpoint

        return Endpoint(self.registry, self.identity, started=self._started, state=self.state)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the sources for the length of the block, which begins at once: requests wait for `started`."""
        failed: list[Exception] = []
        async with anyio.create_task_group() as tasks:
            for attached in self._sources:
                tasks.start_soon(self._live, attached)
            if not self._waiting:
                self._started.set()
            try:
                yield
            except Exception as error:  # sources never raise: the group would only wrap the block's own error
                failed.append(error)
            finally:
                tasks.cancel_scope.cancel()
        if failed:
            raise failed[0]

    async def started(self) -> None:
        """Wait until each source has published or given up.

        Raises ConfigError when two tools have one name, SourceError when every source has ended with nothing.
        """
        await self._started.wait()
        if self._refused is not None:
            raise self._refused
        lines = [line for problems in self.problems.values() for line in problems]
        if lines and self.registry.is_empty and not self._alive:
            raise SourceError("\n".join(lines))

    async def _live(self, attached: Attached) -> None:
        """One source's life: what it raises takes away its own tools and nothing else."""
        name = attached.source.name
        try:
            await attached.source.run(lambda offer: self._publish(attached, offer))
        except Exception as error:
            logger.error("source %r ended: %s", name, error)
            self.problems[name] = [*self.problems.get(name, []), *str(error).splitlines()]
            self.registry.publish(name, ())
        finally:
            self._alive.discard(name)
            self._has_spoken(name)

    def _publish(self, attached: Attached, offer: Offer) -> None:
        name, selection = attached.source.name, attached.selection
        problems = [*offer.problems, *selection.unknown(offer.tools)]
        tools = _sound(selection.of(offer.tools, name), _wrong_schemas, problems)
        resources = _sound(offer.resources, _wrong_uri, problems)
        templates = _sound(offer.templates, _wrong_template, problems)
        prompts = selection.of_prompts(offer.prompts)
        try:
            self.registry.publish(name, tools, resources=resources, templates=templates, prompts=prompts)
        except DuplicateTool as error:
            problems.append(str(error))
            if not self._started.is_set():
                self._refused = ConfigError(str(error))
        for problem in problems:
            logger.error("source %r: %s", name, problem)
        self.problems[name] = problems
        self._has_spoken(name)

    def _has_spoken(self, name: str) -> None:
        self._waiting.discard(name)
        if not self._waiting:
            self._started.set()


def _sound(things: Iterable[T], wrong: Callable[[T], list[str]], problems: list[str]) -> list[T]:
    """The things that can be published; what is wrong with the others is added to `problems`."""
    sound = []
    for thing in things:
        found = wrong(thing)
        problems += found
        if not found:
            sound.append(thing)
    return sound


def _wrong_schemas(entry: ToolEntry) -> list[str]:
    """An author's own schema is refused where it cannot be checked, rather than quietly not checked."""
    sides = (("input", entry.input_schema), ("output", entry.output_schema))
    wrong = [f"{side} schema {complaint}" for side, schema in sides for complaint in complaints(schema)]
    wrong = wrong or [f"input schema {complaint}" for complaint in header_complaints(entry.input_schema)]
    return [f"tool '{entry.name}' is not published: {complaint}" for complaint in wrong]


def _wrong_uri(entry: ResourceEntry) -> list[str]:
    return [f"resource '{entry.uri}' is not published: {complaint}" for complaint in uri_complaints(entry.uri)]


def _wrong_template(entry: ResourceTemplate) -> list[str]:
    where = f"resource template '{entry.uri_template}' is not published"
    return [f"{where}: {complaint}" for complaint in template_complaints(entry.uri_template)]


def from_file(path: Path, *, watch: bool = False, private: bool = False) -> Bridge:
    """A bridge that serves one Python file or folder, with default settings."""
    from mcp_bridge.sources.python import PythonSource

    source = PythonSource(path.stem, path=path, watch=watch)
    return Bridge(sources=[Attached(source=source)], identity=Identity(ttl_ms=_ttl(watch), private=private))


def from_settings(settings: Settings, *, watch: bool = False, private: bool = False) -> Bridge:
    """A bridge as the settings say. Raises ConfigError with file and line for what is wrong in a source's options."""
    watch = watch or settings.reload
    limits = settings.limits
    pipeline = Pipeline(
        timeout=limits.timeout,
        threads=limits.threads,
        concurrency=limits.concurrency,
        queue=limits.queue,
        arguments=Extent(size=limits.arguments),
        tools={
            name: ToolLimits(timeout=own.timeout, concurrency=own.concurrency) for name, own in limits.tools.items()
        },
        expose_errors=settings.expose_errors,
    )
    identity = Identity(
        name=settings.name,
        version=settings.version or __version__,
        title=settings.title,
        instructions=settings.instructions,
        page=limits.page,
        result=limits.result,
        ttl_ms=_ttl(watch),
        private=private,
    )
    registry = ToolRegistry(pipeline=pipeline)
    return Bridge(registry, _attached(settings, watch=watch), identity, _state(settings))


def _state(settings: Settings) -> State:
    given = settings.state
    keys = tuple(key.get_secret_value() for key in given.keys)
    return State(keys=keys, ttl=given.ttl, parked=given.parked, store=make_store(given.store))


def _ttl(watch: bool) -> int:
    """How long clients may keep a list: not at all while somebody is editing."""
    return 0 if watch else 60_000


def _attached(settings: Settings, *, watch: bool) -> list[Attached]:
    attached: list[Attached] = []
    names: set[str] = set()
    for source in settings.sources:
        made = _attach(source, settings.directory, watch=watch)
        if made.source.name in names:
            hint = "Give each source a name of its own"
            raise _at(source, ConfigError(f"two sources are named '{made.source.name}'", hint=hint))
        names.add(made.source.name)
        attached.append(made)
    return attached


def _attach(source: SourceSettings, directory: Path, *, watch: bool) -> Attached:
    from mcp_bridge.settings import options

    try:
        model = source_type(source.type)
    except ConfigError as error:
        raise _at(source, error, "type") from error
    chosen = options(model, source)
    selection = Selection(
        include=source.include,
        exclude=source.exclude,
        tags=source.tags,
        match_all_tags=source.match_all_tags,
        prefix=source.prefix or "",
        alias=source.alias,
    )
    built: ToolSource = chosen.build(source.name or chosen.default_name(), directory, watch=watch)
    return Attached(source=built, selection=selection)


def _at(source: SourceSettings, error: ConfigError, *key: str) -> ConfigError:
    """The error with the place in the file where the source, or a key of it, stands."""
    if source.origin is None:
        return error
    return source.origin.document.error((*source.origin.where, *key), error.problem, error.hint)
