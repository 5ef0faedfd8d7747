"""IsolatedSource runs all or some tools of a source in worker processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import anyio

from mcp_bridge._contracts.errors import Denied, SourceError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.source import Offer, Publish, Source, SourceServices
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._engine.selection import Selection
from mcp_bridge._isolation.codec import Json
from mcp_bridge._isolation.conversation import WorkerCall
from mcp_bridge._isolation.offer_codec import EntryKind, decode_offer
from mcp_bridge._isolation.order import IsolationOptions, WorkerOrder
from mcp_bridge._isolation.pool import WorkerPool
from mcp_bridge._runtime import sandbox
from mcp_bridge._runtime.third_party import unwrap_group

logger = logging.getLogger("mcp_bridge.isolation")

_KIND_NAMES = {"tools": "tool", "resources": "resource", "templates": "resource", "prompts": "prompt"}


class IsolatedSource(Source):
    """A source in worker processes.

    With patterns of tools, `inner` runs in the bridge's process too, and tools that match no pattern are called there.
    Without patterns, nothing of the source is imported there.
    """

    def __init__(self, inner: Source, order: WorkerOrder, isolation: IsolationOptions) -> None:
        super().__init__(inner.name)
        if isolation.tools:
            self.middleware, self.asking = inner.middleware, inner.asking
        self._inner = inner
        self._order = order
        self._isolation = isolation
        self._pool = WorkerPool(order, isolation, self._handle_message)
        self._current: Json | None = None
        self._offer = Offer()
        self._publish: Publish | None = None
        self._selection = Selection.restore(order.selection)
        self._tool_handlers: dict[tuple[str, bool], Callable[..., Any]] = {}
        self._tools: dict[str, ToolEntry] = {}
        self._nested: dict[str, tuple[ToolEntry, ToolEntry | None]] = {}

    def hide(self, secrets: Iterable[str]) -> None:
        """Pass the secrets on to the part of the source in the bridge's process."""
        if self._isolation.tools:
            self._inner.hide(secrets)

    def attach(self, services: SourceServices) -> None:
        """Pass the services on to the part in the bridge's process. Workers get theirs from the order."""
        super().attach(services)
        if self._isolation.tools:
            self._inner.attach(services)

    async def run(self, publish: Publish) -> None:
        """Publish the offers of workers until cancelled. Raises SourceError if the source in them has failed.

        If the first worker cannot be started, the attempts go on, and the offer has a problem until one succeeds.
        """
        if self._isolation.sandbox is not None:
            memory = self._isolation.limits.memory
            options = await sandbox.probe(self._isolation.sandbox, self._order.directory, memory)
            self._pool.isolation = replace(self._isolation, sandbox=options)
        try:
            async with anyio.create_task_group() as tasks:
                problem = await tasks.start(self._pool.run)
                if problem is not None:
                    self._offer = Offer(problems=[str(problem)])
                if self._isolation.tools:
                    await self._inner.run(lambda offer: publish(self._split_offer(offer)))
                else:
                    self._publish = publish
                    publish(self._offer)
                await anyio.sleep_forever()
        except Exception as group:
            # Report the error of a single task without the group around it.
            error = unwrap_group(group)
            if isinstance(error, SourceError):
                raise error from None
            raise SourceError(f"{type(error).__name__}: {error}") from error

    def _split_offer(self, offer: Offer) -> Offer:
        """Return an offer of the bridge's process. Its tools are called in workers if they match a pattern."""
        self._tools = {entry.name: entry for entry in offer.tools}
        unused_patterns = set(self._isolation.tools)
        tools = []
        for tool in offer.tools:
            entry = tool
            patterns = [pattern for pattern in self._isolation.tools if fnmatchcase(entry.name, pattern)]
            unused_patterns.difference_update(patterns)
            if patterns:
                entry = replace(entry, handler=self._make_remote_handler("tools", entry.name, "", True))
            tools.append(entry)
        self._inner.use_tools(tools)
        # With a typing error in a pattern, a tool would run in the bridge's process unnoticed.
        problems = [f"isolation: no tool matches '{pattern}'" for pattern in sorted(unused_patterns)]
        return replace(offer, tools=tools, problems=[*offer.problems, *problems])

    def _handle_message(self, message: Json) -> None:
        event = message.pop("say")
        if event == "log":
            level, text = message.get("level"), f"{message.get('logger')}: {message.get('text')}"
            logger.log(level if isinstance(level, int) else logging.ERROR, "source %r: %s", self.name, text)
        elif event == "secrets":
            # Sources that read no secrets must not choose what is redacted.
            if self._inner.reads_secrets:
                self.services.hide_secrets([str(secret) for secret in message["secrets"]])
        elif event == "updated":
            if self.services.report_update is not None:
                self.services.report_update(str(message.get("uri")))
        elif self._current is None or (self._order.watch and message != self._current):
            self._update_offer(message)

    def _update_offer(self, offer: Json) -> None:
        try:
            self._offer = decode_offer(offer, self._make_remote_handler)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            logger.error("source %r has made an invalid offer: %s", self.name, error)
            return
        self._tools = {entry.name: entry for entry in self._offer.tools}
        self._current = offer
        self._pool.current = offer if self._order.watch else None
        if self._publish is not None:
            self._publish(self._offer)

    def _make_remote_handler(self, kind: EntryKind, name: str, argument: str, context: bool) -> Callable[..., Any]:
        async def call(data: Any, ctx: RunningCall) -> Any:
            return await self._pool.call(make_request(data), ctx)

        async def call_without_context(data: Any) -> Any:
            return await self._pool.call(make_request(data), RunningCall())

        async def complete_in_worker(value: str, known: Any) -> Any:
            result = await self._pool.call(make_request({"value": value, "known": known}), RunningCall())
            return result.output if isinstance(result, ToolResult) else ()

        def make_request(data: Any) -> WorkerCall:
            affinity = ""
            if kind == "tools" and name in self._tools:
                affinity = self._tools[name].affinity
            return WorkerCall(
                kind=kind,
                name=name,
                argument=argument,
                arguments=data,
                label=_KIND_NAMES[kind],
                publish_tool=self._publish_tool,
                source=self.name,
                affinity=affinity,
            )

        if argument:
            return complete_in_worker
        handler = call if context else call_without_context
        return self._tool_handlers.setdefault((name, context), handler) if kind == "tools" else handler

    def _publish_tool(self, ctx: RunningCall, tool: ToolEntry) -> ToolEntry:
        """Return the published entry of a tool for an agent in a worker, with the handler of `tool`.

        The definition is that of the offer, not that of the worker. Only tools of a subagent's modules are in no offer.
        Raises Denied for a tool that is not selected, and for the name of another source's tool, because users could be
        asked to approve something else.
        """
        offer_entry = self._tools.get(tool.name)
        last_entry, published_entry = self._nested.get(tool.name, (None, None))
        if offer_entry is None or last_entry is not offer_entry:
            entry = tool
            if offer_entry is not None:
                entry = replace(offer_entry, handler=tool.handler)
            published_entry = next(iter(self._selection.select_tools([entry], self.name)), None)
            # The cache of results compares entries by identity, so the same entry is returned next time.
            if offer_entry is not None:
                self._nested[tool.name] = offer_entry, published_entry
        if published_entry is None:
            raise Denied(f"Tool '{tool.name}' cannot be called here, because the settings leave it out.")
        if any(entry.name == published_entry.name and entry.owner != self.name for entry in ctx.tools()):
            raise Denied(
                f"Tool '{published_entry.name}' cannot be called here: another source has a tool of this name."
            )
        return published_entry
