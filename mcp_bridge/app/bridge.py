"""The bridge: a registry, the sources that fill it, and the endpoint that serves it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from mcp_bridge.contracts.errors import ConfigError, DuplicateTool, SourceError
from mcp_bridge.contracts.extension import NotifyingSource, SecretSource, ToolSource
from mcp_bridge.contracts.identity import Identity
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.state import State
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.dialects.dialect import NONE, Dialect
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.registry.selection import Selection
from mcp_bridge.runtime.redaction import Redactor
from mcp_bridge.schema.headers import header_complaints
from mcp_bridge.schema.templates import template_complaints, uri_complaints
from mcp_bridge.schema.validator import complaints
from mcp_bridge.wire.values import words

if TYPE_CHECKING:
    from mcp_bridge.server.endpoint import Endpoint

logger = logging.getLogger("mcp_bridge.bridge")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Attached:
    """A source, and which of its tools are published under which names."""

    source: ToolSource
    selection: Selection = field(default_factory=Selection)


class Bridge:
    """A registry, the sources that fill it, and the endpoint that serves it.

    `drain` is how many seconds calls in flight have once serving ends. `dialect` is how tools are told to clients.
    `problems` has, by source, a line for each thing that could not be published. `beside` is what runs beside the
    sources while the bridge serves; it never raises.
    """

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        sources: Sequence[Attached] = (),
        identity: Identity | None = None,
        state: State | None = None,
        *,
        drain: float = 10.0,
        dialect: Dialect = NONE,
        beside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        self.registry = registry if registry is not None else ToolRegistry()
        self.identity = identity or Identity()
        self.state = state or State()
        self.drain = drain
        self.dialect = dialect
        self._beside = tuple(beside)
        self.problems: dict[str, list[str]] = {}
        self._secrets: set[str] = set()
        self._redactor = Redactor()
        self._sources = tuple(sources)
        self.hide(self.state.keys)
        self._refused: ConfigError | None = None
        self._alive = {attached.source.name for attached in sources}
        self._waiting = {attached.source.name for attached in sources}
        self._started = anyio.Event()
        for attached in self._sources:
            if isinstance(attached.source, NotifyingSource):
                attached.source.set_update_listener(self.registry.resource_updated)

    @cached_property
    def endpoint(self) -> Endpoint:
        """The MCP server; made when first needed, because it imports the SDK."""
        from mcp_bridge.server.endpoint import Endpoint

        return Endpoint(
            self.registry,
            self.identity,
            started=self._started,
            state=self.state,
            secrets=self._secrets,
            dialect=self.dialect,
        )

    def hide(self, secrets: Iterable[str]) -> None:
        """Leave these values out of all that clients get, of `problems`, and of what sources write, from now on."""
        secrets = frozenset(secrets)
        self._secrets |= secrets
        self._redactor.hide(secrets)
        for attached in self._sources:
            if isinstance(attached.source, SecretSource):
                attached.source.hide(secrets)
        if "endpoint" in vars(self):
            self.endpoint.hide(secrets)

    @contextlib.asynccontextmanager
    async def running(self, *, serving: bool = True) -> AsyncIterator[None]:
        """Run the sources for the length of the block, which begins at once: requests wait for `started`.

        Where nobody is served, nothing runs beside them.
        """
        failed: list[Exception] = []
        async with anyio.create_task_group() as tasks:
            for attached in self._sources:
                tasks.start_soon(self._live, attached)
            for work in self._beside if serving else ():
                tasks.start_soon(work)
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
            self.problems[name] = [*self.problems.get(name, []), *self._redactor.text(words(str(error))).splitlines()]
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
        problems = [words(problem) for problem in problems]  # a schema's own text may be half a character
        for problem in problems:
            logger.error("source %r: %s", name, problem)
        self.problems[name] = [self._redactor.text(problem) for problem in problems]
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
