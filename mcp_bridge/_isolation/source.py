"""IsolatedSource: runs all or some tools of a source in worker processes.

It takes the place of the source: it publishes an offer whose handlers send each call to a worker of its WorkerPool.
"""

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
from mcp_bridge._isolation.options import IsolationOptions
from mcp_bridge._isolation.order import WorkerOrder
from mcp_bridge._isolation.pool import WorkerPool
from mcp_bridge._runtime.third_party import unwrap_group

logger = logging.getLogger("mcp_bridge.isolation")

_KIND_NAMES = {"tools": "tool", "resources": "resource", "templates": "resource", "prompts": "prompt"}


class IsolatedSource(Source):
    """A source whose tools run in worker processes.

    If the isolation has patterns of tools, the source `inner` runs in the bridge's process, too, and tools that match
    no pattern are called there. Without patterns, only workers import the code of the source.
    """

    def __init__(self, inner: Source, order: WorkerOrder, isolation: IsolationOptions) -> None:
        super().__init__(inner.name)
        if isolation.tools:
            self.middleware, self.asking = inner.middleware, inner.asking
        self._inner = inner
        self._order = order
        self._isolation = isolation
        self._pool = WorkerPool(order, isolation, self._handle_message)
        # The message of the current offer, if workers make the offer.
        self._current: Json | None = None
        self._offer = Offer()
        self._publish: Publish | None = None
        self._selection = Selection.restore(order.selection)
        # The handlers of tools by name, and by whether they take the context. A later offer gets the same handlers, so
        # that unchanged tools are equal to the published ones. With new handlers, they would count as changed.
        self._tool_handlers: dict[tuple[str, bool], Callable[..., Any]] = {}
        self._tools: dict[str, ToolEntry] = {}
        # For each tool that an agent in a worker has called: its entry in the offer, and the published entry.
        self._nested: dict[str, tuple[ToolEntry, ToolEntry | None]] = {}

    def hide(self, secrets: Iterable[str]) -> None:
        """Pass the secrets on to the part of the source in the bridge's process."""
        if self._isolation.tools:
            self._inner.hide(secrets)

    def attach(self, services: SourceServices) -> None:
        """Pass the services on to the part of the source in the bridge's process.

        A worker makes the services of its part from its order.
        """
        super().attach(services)
        if self._isolation.tools:
            self._inner.attach(services)

    async def run(self, publish: Publish) -> None:
        """Publish the offers of workers until cancelled. Raises SourceError if the source in the first one has failed.

        If no worker can be started, the attempts go on, and the offer has a problem until one succeeds.
        """
        memory = self._isolation.limits.memory
        try:
            confinement = await self._isolation.confinement.probe_machine(self._order.directory, memory)
        except SourceError as reason:
            raise SourceError(f"{self._isolation.place}: {reason}") from reason
        self._pool.isolation = replace(self._isolation, confinement=confinement)
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
        """Return an offer of the bridge's process, with remote handlers for the tools that match a pattern."""
        self._tools = {entry.name: entry for entry in offer.tools}
        unused_patterns = set(self._isolation.tools)
        tools = []
        for entry in offer.tools:
            patterns = [pattern for pattern in self._isolation.tools if fnmatchcase(entry.name, pattern)]
            unused_patterns.difference_update(patterns)
            if patterns:
                tools.append(replace(entry, handler=self._make_remote_handler("tools", entry.name, "", True)))
            else:
                tools.append(entry)
        self._inner.use_tools(tools)
        # Because of a typing error in a pattern, a tool would run in the bridge's process unnoticed.
        problems = [f"isolation: no tool matches '{pattern}'" for pattern in sorted(unused_patterns)]
        return replace(offer, tools=tools, problems=[*offer.problems, *problems])

    def _handle_message(self, message: Json) -> None:
        """Handle an offer or a notification of a worker."""
        event = message.pop("say")
        if event == "log":
            level = message.get("level")
            text = f"{message.get('logger')}: {message.get('text')}"
            logger.log(level if isinstance(level, int) else logging.ERROR, "source %r: %s", self.name, text)
        elif event == "secrets":
            # The code of a tool could otherwise have anything redacted in the results of other sources.
            if self._inner.reads_secrets:
                self.services.hide_secrets([str(secret) for secret in message["secrets"]])
        elif event == "updated":
            if self.services.report_update is not None:
                self.services.report_update(str(message.get("uri")))
        # The first offer counts. Other workers make the same one, unless the files of the source have changed.
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
        # Workers with an older offer have old code.
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
        if kind == "tools":
            return self._tool_handlers.setdefault((name, context), handler)
        return handler

    def _publish_tool(self, ctx: RunningCall, tool: ToolEntry) -> ToolEntry:
        """Return the published entry of a tool that an agent in a worker calls, with the handler of `tool`.

        Policies decide by the definition in the offer, which the worker cannot change. Only tools of a subagent's
        modules are in no offer. Raises Denied for a tool that is not selected, and for the name of another source's
        tool, because a user could be asked to approve that one instead.
        """
        offer_entry = self._tools.get(tool.name)
        last_entry, published_entry = self._nested.get(tool.name, (None, None))
        if offer_entry is None or last_entry is not offer_entry:
            entry = tool
            if offer_entry is not None:
                entry = replace(offer_entry, handler=tool.handler)
            published_entry = next(iter(self._selection.select_tools([entry], self.name)), None)
            # The policy `cache` compares entries by identity, so the next call gets the same entry.
            if offer_entry is not None:
                self._nested[tool.name] = offer_entry, published_entry
        if published_entry is None:
            raise Denied(f"Tool '{tool.name}' cannot be called here, because the settings leave it out.")
        if any(entry.name == published_entry.name and entry.owner != self.name for entry in ctx.tools()):
            raise Denied(
                f"Tool '{published_entry.name}' cannot be called here: another source has a tool of this name."
            )
        return published_entry
