"""IsolatedSource: a source all or some of whose tools run in worker processes."""

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
        """Pass the secrets on to what runs in the bridge's process."""
        if self._isolation.tools:
            self._inner.hide(secrets)

    def attach(self, services: SourceServices) -> None:
        """Pass the services on to what runs in the bridge's process. Workers get theirs from the order."""
        super().attach(services)
        if self._isolation.tools:
            self._inner.attach(services)

    async def run(self, publish: Publish) -> None:
        """Publish what the workers offer until cancelled. Raises SourceError if no worker can be started."""
        if self._isolation.sandbox is not None:
            memory = self._isolation.limits.memory
            boxed = await sandbox.probe(self._isolation.sandbox, self._order.directory, memory)
            self._pool.isolation = replace(self._isolation, sandbox=boxed)
        failed: list[Exception] = []
        async with anyio.create_task_group() as tasks:
            try:
                await tasks.start(self._pool.run)
                self._publish = publish if not self._isolation.tools else None
                if self._publish is not None:
                    publish(self._offer)
                else:
                    await self._inner.run(lambda offer: publish(self._split_offer(offer)))
                await anyio.sleep_forever()
            except Exception as error:
                failed.append(error)
                tasks.cancel_scope.cancel()
        if failed:
            raise _to_source_error(failed[0])

    def _split_offer(self, offer: Offer) -> Offer:
        """Return an offer of the bridge's own process with the tools that match a pattern moved to the workers."""
        patterns = self._isolation.tools
        self._tools = {entry.name: entry for entry in offer.tools}
        tools = [
            replace(entry, handler=self._make_remote_handler("tools", entry.name, "", True))
            if any(fnmatchcase(entry.name, pattern) for pattern in patterns)
            else entry
            for entry in offer.tools
        ]
        self._inner.use_tools(tools)
        problems = [  # a typing error must not make a tool run in the bridge's process
            f"isolation: no tool matches '{pattern}'"
            for pattern in patterns
            if not any(fnmatchcase(entry.name, pattern) for entry in offer.tools)
        ]
        return replace(offer, tools=tools, problems=[*offer.problems, *problems])

    def _handle_message(self, message: Json) -> None:
        event = message.pop("say")
        if event == "log":
            level, text = message.get("level"), f"{message.get('logger')}: {message.get('text')}"
            logger.log(level if isinstance(level, int) else logging.ERROR, "source %r: %s", self.name, text)
        elif event == "secrets":
            if self._inner.reads_secrets:  # others must not choose what is redacted
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

    def _make_remote_handler(self, kind: EntryKind, name: str, part: str, context: bool) -> Callable[..., Any]:

        async def call(data: Any, ctx: RunningCall) -> Any:
            return await self._pool.call(make_request(data), ctx)

        async def call_without_context(data: Any) -> Any:
            return await self._pool.call(make_request(data), RunningCall())

        async def complete_in_worker(value: str, known: Any) -> Any:
            result = await self._pool.call(make_request({"value": value, "known": known}), RunningCall())
            return result.output if isinstance(result, ToolResult) else ()

        def make_request(data: Any) -> WorkerCall:
            what = _KIND_NAMES[kind]
            affinity = self._tools[name].affinity if kind == "tools" and name in self._tools else ""
            return WorkerCall(
                kind=kind,
                name=name,
                part=part,
                arguments=data,
                what=what,
                publish_tool=self._publish_tool,
                source=self.name,
                affinity=affinity,
            )

        if part:
            return complete_in_worker
        handler = call if context else call_without_context
        return self._tool_handlers.setdefault((name, context), handler) if kind == "tools" else handler

    def _publish_tool(self, ctx: RunningCall, tool: ToolEntry) -> ToolEntry:
        """Return a tool that an agent in a worker calls as it is published, with the handler of `described`.

        What the source has offered counts, not what the worker describes, except for the tools of a subagent's own
        modules, which are in no offer. Raises Denied for a tool that is not selected, and for the name of another
        source's tool: users could be asked to approve something else.
        """
        offered = self._tools.get(tool.name)
        known, selected = self._nested.get(tool.name, (None, None))
        if offered is None or known is not offered:
            entry = tool if offered is None else replace(offered, handler=tool.handler)
            selected = next(iter(self._selection.select_tools([entry], self.name)), None)
            if offered is not None:  # the cache of results compares entries by identity
                self._nested[tool.name] = offered, selected
        if selected is None:
            raise Denied(f"Tool '{tool.name}' cannot be called here, because the settings leave it out.")
        if any(one.name == selected.name and one.owner != self.name for one in ctx.tools()):
            raise Denied(f"Tool '{selected.name}' cannot be called here: another source has a tool of this name.")
        return selected


def _to_source_error(error: Exception) -> Exception:
    """Return the error of a single task without the group around it, as a SourceError."""
    error = unwrap_group(error)
    return error if isinstance(error, SourceError) else SourceError(f"{type(error).__name__}: {error}")
