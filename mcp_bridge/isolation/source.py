"""IsolatedSource: a source whose tools, all or some of them, run in worker processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import anyio

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.extension import (
    ApprovalSource,
    GoverningSource,
    NotifyingSource,
    Publish,
    SecretSource,
    ToolSource,
)
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.isolation import sandbox
from mcp_bridge.isolation.conversation import Request
from mcp_bridge.isolation.offers import Kind, to_offer
from mcp_bridge.isolation.order import Isolation, Order
from mcp_bridge.isolation.pool import Pool
from mcp_bridge.isolation.words import Json

logger = logging.getLogger("mcp_bridge.isolation")

_WORDS = {"tools": "tool", "resources": "resource", "templates": "resource", "prompts": "prompt"}


class IsolatedSource:
    """A source in worker processes, as a `ToolSource`. `updated` gets the URI of each resource that has changed.

    With patterns of tools, `inner` runs in the bridge's process too and what fits no pattern is called there; without,
    nothing of the source is ever imported here.
    """

    def __init__(
        self,
        inner: ToolSource,
        order: Order,
        isolation: Isolation,
        updated: Callable[[str], None] = lambda uri: None,
    ) -> None:
        self.name = inner.name
        self.middleware = tuple(inner.middleware) if isolation.tools and isinstance(inner, GoverningSource) else ()
        self.asking = inner.asking if isolation.tools and isinstance(inner, ApprovalSource) else None
        self._inner = inner
        self._order = order
        self._isolation = isolation
        self._updated = updated
        self._pool = Pool(order, isolation, self._hear)
        self._told: Json | None = None
        self._offer = Offer()
        self._publish: Publish | None = None

    def hide(self, secrets: Iterable[str]) -> None:
        """Redact these values from what runs in the bridge's process."""
        if self._isolation.tools and isinstance(self._inner, SecretSource):
            self._inner.hide(secrets)

    def set_update_listener(self, updated: Callable[[str], None]) -> None:
        """Call `updated` with the URI of each resource that changes in the bridge's process."""
        if self._isolation.tools and isinstance(self._inner, NotifyingSource):
            self._inner.set_update_listener(updated)

    async def run(self, publish: Publish) -> None:
        """Publish what the workers offer, for as long as the source lives. Raises SourceError where none can begin."""
        if self._isolation.sandbox is not None:
            await sandbox.probe(self._isolation.sandbox, self._order.directory)
        failed: list[Exception] = []
        async with anyio.create_task_group() as tasks:
            try:
                await tasks.start(self._pool.run)
                self._publish = publish if not self._isolation.tools else None
                if self._publish is not None:
                    publish(self._offer)
                else:
                    await self._inner.run(lambda offer: publish(self._parted(offer)))
                await anyio.sleep_forever()
            except Exception as error:
                failed.append(error)
                tasks.cancel_scope.cancel()
        if failed:
            raise _alone(failed[0])

    def _parted(self, offer: Offer) -> Offer:
        """An offer of the bridge's own process, in which the tools that fit a pattern are those of the workers."""
        return Offer(
            tools=[self._apart(entry) for entry in offer.tools],
            resources=offer.resources,
            templates=offer.templates,
            prompts=offer.prompts,
            problems=[*offer.problems, *self._unknown(offer)],
        )

    def _unknown(self, offer: Offer) -> list[str]:
        """What was to be kept apart must not run here because of a slip of the pen."""
        names = [entry.name for entry in offer.tools]
        lost = [pattern for pattern in self._isolation.tools if not any(fnmatchcase(name, pattern) for name in names)]
        return [f"isolation: no tool fits '{pattern}'" for pattern in lost]

    def _apart(self, entry: ToolEntry) -> ToolEntry:
        if not any(fnmatchcase(entry.name, pattern) for pattern in self._isolation.tools):
            return entry
        return replace(entry, handler=self._remote("tools", entry.name, "", True))

    def _hear(self, message: Json) -> None:
        """What workers say beside their calls."""
        said = message.pop("say")
        if said == "log":
            level, text = message.get("level"), f"{message.get('logger')}: {message.get('text')}"
            logger.log(level if isinstance(level, int) else logging.ERROR, "source %r: %s", self.name, text)
        elif said == "updated":
            self._updated(str(message.get("uri")))
        elif self._told is None or (self._order.watch and message != self._told):
            self._renew(message)

    def _renew(self, told: Json) -> None:
        try:
            self._offer = to_offer(told, self._remote)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            logger.error("source %r offers what nobody understands: %s", self.name, error)
            return
        self._told = told
        self._pool.current = told if self._order.watch else None
        if self._publish is not None:
            self._publish(self._offer)

    def _remote(self, kind: Kind, name: str, part: str, context: bool) -> Callable[..., Any]:
        """What is published for a handler that is in the workers."""

        async def called(data: Any, ctx: CallContext) -> Any:
            return await self._pool.call(request(data), ctx)

        async def called_alone(data: Any) -> Any:
            return await self._pool.call(request(data), CallContext())

        async def completed(value: str, known: Any) -> Any:
            answer = await self._pool.call(request({"value": value, "known": known}), CallContext())
            return answer.output if isinstance(answer, ToolResult) else ()

        def request(data: Any) -> Request:
            return Request(kind=kind, name=name, part=part, arguments=data, what=_WORDS[kind])

        if part:
            return completed
        return called if context else called_alone


def _alone(error: Exception) -> Exception:
    """The error of a single task, without the group around it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error if isinstance(error, SourceError) else SourceError(f"{type(error).__name__}: {error}")
