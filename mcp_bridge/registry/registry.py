"""ToolRegistry: names to entries, and the doors through which they are called (tool_use API, "ToolRegistry")."""

from __future__ import annotations

import builtins
import difflib
import inspect
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

import anyio
from anyio.lowlevel import current_token

from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import ToolNotFound
from mcp_bridge.contracts.prompt import PromptEntry
from mcp_bridge.contracts.question import NeedsInput
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.results import Result, ResultStatus
from mcp_bridge.contracts.tool import ToolCall, ToolEntry, ToolResult
from mcp_bridge.pipeline.pipeline import Pipeline
from mcp_bridge.pipeline.prepared import Prepared
from mcp_bridge.registry.catalog import Catalog
from mcp_bridge.registry.selection import has_tags
from mcp_bridge.wire.values import to_result

_NAME = 256
"""The most characters of an unknown name that are compared with the known ones."""


class ToolRegistry:
    """The tools of one endpoint.

    `invoke` (synchronous) and `ainvoke` answer with the tool_use API's `Result`; `dispatch` is the governed
    door of servers, chains and agents. All end in the same handlers and the same validator. `resources`,
    `templates` and `prompts` are catalogs of what else is served. `pipeline` (keyword-only) is the policy of
    `dispatch`; the default has a time limit of 60 seconds and no middleware.
    """

    def __init__(self, *, pipeline: Pipeline | None = None) -> None:
        self.resources: Catalog[ResourceEntry] = Catalog("Resource", "uri")
        self.templates: Catalog[ResourceTemplate] = Catalog("Resource template", "uri_template")
        self.prompts: Catalog[PromptEntry] = Catalog("Prompt")
        self._pipeline = pipeline
        self._catalog: Catalog[ToolEntry] = Catalog()
        self._prepared: dict[str, Prepared] = {}
        self._updates: dict[object, Callable[[str], None]] = {}

    def __len__(self) -> int:
        return len(self._catalog)

    def __contains__(self, name: object) -> bool:
        return name in self._catalog

    def __repr__(self) -> str:
        return f"ToolRegistry(tools={self.list_names()})"

    @property
    def pipeline(self) -> Pipeline:
        """What every dispatched call goes through; made when first needed."""
        if self._pipeline is None:
            self._pipeline = Pipeline()
        return self._pipeline

    @property
    def version(self) -> int:
        """Grows with every change of what is published."""
        return self._catalog.version

    @property
    def is_empty(self) -> bool:
        """Whether nothing of any kind is published."""
        return not any((self._catalog, self.resources, self.templates, self.prompts))

    def register(self, entry: ToolEntry) -> None:
        """Add a tool. Raises ValueError (DuplicateTool) when the name is taken."""
        self._catalog.add(entry)

    def unregister(self, name: str) -> bool:
        """Remove a tool by name; whether there was one."""
        return self._catalog.remove(name)

    def publish(
        self,
        owner: str,
        entries: Iterable[ToolEntry],
        *,
        resources: Iterable[ResourceEntry] = (),
        templates: Iterable[ResourceTemplate] = (),
        prompts: Iterable[PromptEntry] = (),
    ) -> None:
        """Make these the tools, resources and prompts of `owner`, in one step.

        Raises DuplicateTool, naming both owners; nothing is changed then.
        """
        commits = [
            self._catalog.prepare(owner, entries),
            self.resources.prepare(owner, resources),
            self.templates.prepare(owner, templates),
            self.prompts.prepare(owner, prompts),
        ]
        for commit in commits:
            commit()

    def watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change of the tools, in the changing thread; the answer stops that."""
        return self._catalog.watch(listener)

    def watch_updates(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the URI of every resource that has changed; the answer stops that."""
        token = object()
        self._updates[token] = listener
        return lambda: self._updates.pop(token, None) and None

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to a resource that it has changed; from any thread."""
        for listener in list(self._updates.values()):
            listener(uri)

    def get(self, name: str) -> ToolEntry | None:
        """The tool of exactly this name, or None."""
        return self._catalog.get(name)

    def list(self) -> builtins.list[ToolEntry]:
        """All tools, sorted by name."""
        return builtins.list(self._catalog.all())

    def list_names(self) -> builtins.list[str]:
        """All names, sorted."""
        return [entry.name for entry in self._catalog.all()]

    def search(
        self,
        *,
        name_contains: str | None = None,
        tags: builtins.list[str] | None = None,
        match_all_tags: bool = False,
    ) -> builtins.list[ToolEntry]:
        """Tools whose name contains the text (case-insensitive) and that carry any, or all, of the tags."""
        part = (name_contains or "").lower()
        return [
            entry
            for entry in self._catalog.all()
            if part in entry.name.lower() and has_tags(entry, tags or (), match_all=match_all_tags)
        ]

    def invoke(self, name: str, input_data: Any = None, *, validate: bool = True) -> Result:
        """Call a tool and wait for its answer; async handlers run to completion, inside or outside a running loop.

        Answers FAILURE for an unknown tool, bad input or an exception, PARTIAL (data kept) for bad output.
        """
        admitted = self._admit(name, input_data, validate=validate)
        if isinstance(admitted, Result):
            return admitted
        tool, handler = admitted
        started = time.monotonic()
        try:
            data = handler()
            if inspect.isawaitable(data):
                data = _to_completion(data)
        except Exception as error:
            return _raised(name, error, _since(started))
        return _judged(name, tool, data, _since(started), validate=validate)

    async def ainvoke(self, name: str, input_data: Any = None, *, validate: bool = True) -> Result:
        """`invoke` for async code: async handlers are awaited here, synchronous ones run in a thread."""
        admitted = self._admit(name, input_data, validate=validate)
        if isinstance(admitted, Result):
            return admitted
        tool, handler = admitted
        started = time.monotonic()
        try:
            data = await tool.answer(handler, self.pipeline.threads)
        except Exception as error:
            return _raised(name, error, _since(started))
        return _judged(name, tool, data, _since(started), validate=validate)

    async def dispatch(self, call: ToolCall, ctx: CallContext) -> ToolResult:
        """Carry out a call through the pipeline: the door of servers, chains and agents.

        Raises ToolNotFound; everything else that goes wrong is in the result. A call made by a call stays
        under the policy of the first, whichever registry it is made to.
        """
        tool = self.prepared(call.name)
        if tool is None:
            raise unknown(call.name, self.list_names())
        return await self.carry_out(tool, call, ctx)

    async def carry_out(self, prepared: Prepared, call: ToolCall, ctx: CallContext) -> ToolResult:
        """`dispatch` for what is found already, of whichever kind: everything that goes wrong is in the result."""
        if ctx.pipeline is not None:  # a call made by a call
            ctx = ctx.nested()
        else:
            ctx.pipeline = self.pipeline
        if ctx.caller is None:
            ctx.caller = self
        return await cast("Pipeline", ctx.pipeline).call(prepared, call, ctx)

    def prepared(self, name: str) -> Prepared | None:
        """The tool of this name, ready to be called, or None."""
        entry = self._catalog.get(name)
        if entry is None:
            return None
        prepared = self._prepared.get(name)
        if prepared is None or prepared.entry is not cast("Any", entry):
            prepared = self._prepared[name] = Prepared(entry)
        return prepared

    def _admit(self, name: str, data: Any, *, validate: bool) -> Result | tuple[Prepared, Callable[[], Any]]:
        """The tool and its handler ready to run, or the refusal."""
        tool = self.prepared(name)
        if tool is None:
            return Result.failure(f"Tool '{name}' not found in registry.", [f"Unknown tool: {name}"])
        if validate and not tool.input.is_valid(data):
            return Result.failure(f"Input validation failed for tool '{name}'.", tool.input.check(data).errors)
        return tool, tool.bound(data, CallContext(caller=self))


def _since(started: float) -> float:
    return (time.monotonic() - started) * 1000


def _raised(name: str, error: Exception, duration_ms: float) -> Result:
    return Result.failure(f"Tool '{name}' raised an exception: {error}", [str(error)], duration_ms=duration_ms)


def _judged(name: str, tool: Prepared, data: Any, duration_ms: float, *, validate: bool) -> Result:
    """The handler's answer as a Result: its own failure, PARTIAL when it does not fit its schema, or SUCCESS."""
    if isinstance(data, Result):
        return data
    if isinstance(data, NeedsInput):
        return Result.failure(f"Tool '{name}' asks something, and there is no client to ask.", duration_ms=duration_ms)
    if isinstance(data, ToolResult) and data.is_error:
        return Result.failure(data.error_text, data=data.output, duration_ms=duration_ms)
    errors = _misfits(tool, data) if validate and tool.output_schema else []
    if errors:
        message = f"Output validation failed for tool '{name}'."
        return Result(ResultStatus.PARTIAL, data=data, message=message, errors=errors, duration_ms=duration_ms)
    return Result.success(data, f"Tool '{name}' executed successfully.", duration_ms=duration_ms)


def _misfits(tool: Prepared, data: Any) -> list[str]:
    """Why the answer does not fit its schema, as clients would see it; empty when it does."""
    try:
        seen = to_result(data).output
    except ValueError as error:  # it contains itself
        return [f"$: {error}"]
    return [] if tool.output.is_valid(seen) else tool.output.check(seen).errors


def _to_completion(awaitable: Any) -> Any:
    async def wait() -> Any:
        return await awaitable

    try:
        current_token()
    except RuntimeError:  # no event loop in this thread
        return anyio.run(wait)
    return _in_own_thread(partial(anyio.run, wait))


def _in_own_thread(function: Callable[[], Any]) -> Any:
    """Run in a new thread and wait: a running loop cannot be entered a second time."""
    outcome: builtins.list[Any] = []

    def work() -> None:
        try:
            outcome.extend((function(), None))
        except BaseException as error:
            outcome.extend((None, error))

    thread = threading.Thread(target=work, name="mcp-bridge invoke")
    thread.start()
    thread.join()
    answer, error = outcome
    if error is not None:
        raise error
    return answer


def unknown(name: str, known: Iterable[str]) -> ToolNotFound:
    """The error for a tool that is not there, with the names that are near."""
    if len(name) > _NAME:  # a model's text: difflib compares it with every name
        return ToolNotFound(f"Unknown tool: {name[:_NAME]}... ({len(name)} characters).")
    near = difflib.get_close_matches(name, list(known), n=3)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return ToolNotFound(f"Unknown tool: {name}.{hint}")
