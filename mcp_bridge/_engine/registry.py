"""ToolRegistry holds all published entries and calls them (tool_use API, "ToolRegistry").

Sources publish into it, servers list and dispatch from it, and programs use it directly.
"""

from __future__ import annotations

import builtins
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

import anyio
from anyio.lowlevel import current_token

from mcp_bridge._contracts.context import CallContext
from mcp_bridge._contracts.errors import CallError, Overloaded, ToolNotFound, ToolUnavailable
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.running_call import RunningCall, start_call
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult
from mcp_bridge._contracts.tool_use_results import Result, ResultStatus
from mcp_bridge._engine.decorators import PromptDecorator, ResourceDecorator, ToolDecorator, load_decorator
from mcp_bridge._engine.entry_table import EntryTable
from mcp_bridge._engine.pipeline import Pipeline
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._engine.resource_finder import ResourceFinder
from mcp_bridge._engine.selection import has_tags
from mcp_bridge._engine.subscriptions import Subscriptions
from mcp_bridge._protocol.wire.values import MAX_ITEMS, to_result
from mcp_bridge._runtime.limiter import Limiter, compute_share

_MAX_NAME = 256
"""The maximum number of characters of an unknown name that are compared with known names."""
MAX_WAITING = 256
"""The maximum number of calls to unknown tools that wait for their sources; each client has a share."""


class ToolRegistry:
    """The tools, resources and prompts of one endpoint.

    `invoke` (synchronous) and `ainvoke` return the tool_use API's `Result`. `dispatch` runs a call through the
    pipeline, for servers, chains and agents. All of them use the same handlers and the same validator.

    Attributes:
        tools, resources, templates, prompts: The tables of entries.
        finder: Finds resources by URI.
        subscriptions: Counts how many clients subscribe to each resource.
        pipeline: Runs the calls of `dispatch`; by default, with a time limit of 60 seconds and without middleware.
        lifespan: The value of the server's lifespan while it runs.
        explain_missing: Waits until the source that may have an unknown tool has tried to connect, and returns why the
            tool is missing, or an empty text. None without a bridge.

    >>> from mcp_bridge import ToolRegistry
    >>> registry = ToolRegistry()
    >>> @registry.tool
    ... def divide(a: float, b: float) -> float:
    ...     return a / b
    >>> registry.list_names()
    ['divide']
    >>> registry.invoke("divide", {"a": 1, "b": 2}).data
    0.5
    >>> registry.invoke("divide", {"a": 1}).errors
    ['$.b: required field missing']
    """

    def __init__(self, *, pipeline: Pipeline | None = None) -> None:
        self.resources: EntryTable[ResourceEntry] = EntryTable("Resource", "uri")
        self.templates: EntryTable[ResourceTemplate] = EntryTable("Resource template", "uri_template")
        self.prompts: EntryTable[PromptEntry] = EntryTable("Prompt")
        self.finder = ResourceFinder(self.resources, self.templates)
        self.subscriptions = Subscriptions()
        self.lifespan: Any = None
        self.explain_missing: Callable[[str], Awaitable[str]] | None = None
        self.pipeline = pipeline or Pipeline()
        self.tools: EntryTable[ToolEntry] = EntryTable()
        self._prepared: dict[str, PreparedEntry] = {}
        self._waiting = Limiter(MAX_WAITING)
        self._updates: dict[object, Callable[[str], None]] = {}
        # The method `list` hides the built-in class.
        self._list_listeners: builtins.list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self.list())

    def __contains__(self, name: object) -> bool:
        return name in self.tools

    def __repr__(self) -> str:
        return f"ToolRegistry(tools={self.list_names()})"

    @property
    def tool(self) -> ToolDecorator:
        """The decorator `mcp_bridge.tool` for this registry."""
        return partial(load_decorator("tool"), registry=self)

    @property
    def resource(self) -> ResourceDecorator:
        """The decorator `mcp_bridge.resource` for this registry."""
        return partial(load_decorator("resource"), registry=self)

    @property
    def prompt(self) -> PromptDecorator:
        """The decorator `mcp_bridge.prompt` for this registry."""
        return partial(load_decorator("prompt"), registry=self)

    @property
    def is_empty(self) -> bool:
        """Whether there are no tools, resources, templates and prompts."""
        return not (self.tools or self.resources or self.templates or self.prompts)

    def register(self, entry: ToolEntry) -> None:
        """Add a tool. Raises ValueError (DuplicateTool) if its name is already registered, TypeError for no tool."""
        if not isinstance(entry, ToolEntry):
            type_name = type(entry).__name__  # type: ignore[unreachable] # not all callers check types
            raise TypeError(f"register expects a ToolEntry, but got a {type_name}. For a function, use @registry.tool")
        self.tools.add(entry)

    def unregister(self, name: str) -> bool:
        """Remove a tool by name; return whether there was one."""
        return self.tools.remove(name)

    def publish(
        self,
        owner: str,
        entries: Iterable[ToolEntry],
        *,
        resources: Iterable[ResourceEntry] = (),
        templates: Iterable[ResourceTemplate] = (),
        prompts: Iterable[PromptEntry] = (),
        left_out: builtins.list[str] | None = None,
    ) -> frozenset[str]:
        """Replace all tools, resources and prompts of `owner` in one step.

        With the list `left_out`, the owner gives way: an entry whose name another owner has is not published, and a
        text in the list names both owners. Without the list, such an entry raises DuplicateTool, and nothing changes.

        Returns the owners with lost entries, because they give way to the published names.
        """
        if left_out is not None:
            entries = self.tools.select_free(owner, entries, left_out)
            resources = self.resources.select_free(owner, resources, left_out)
            templates = self.templates.select_free(owner, templates, left_out)
            prompts = self.prompts.select_free(owner, prompts, left_out)
        replacements = [
            self.tools.prepare(owner, entries),
            self.resources.prepare(owner, resources),
            self.templates.prepare(owner, templates),
            self.prompts.prepare(owner, prompts),
        ]
        for commit, _ in replacements:
            commit()
        return frozenset().union(*(owners for _, owners in replacements))

    def set_order(self, owners: Sequence[str]) -> None:
        """Set the order of the owners. Of two owners that both give way (see `publish`), the earlier one gets a name.

        An owner that does not give way gets the name wherever it is in the order.
        """
        ranks = {owner: rank for rank, owner in enumerate(owners)}
        for table in (self.tools, self.resources, self.templates, self.prompts):
            table.ranks = ranks

    def watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change of the tools, in the thread that made it. Returns a function to stop."""
        return self.tools.watch(listener)

    def watch_updates(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the URI of every changed resource. Returns a function to stop."""
        token = object()
        self._updates[token] = listener

        def stop() -> None:
            self._updates.pop(token, None)

        return stop

    def add_list_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever a client lists or searches entries."""
        self._list_listeners.append(listener)

    def report_listing(self) -> None:
        """Call the list listeners, because a client lists or searches entries."""
        for listener in self._list_listeners:
            listener()

    def resource_updated(self, uri: str) -> None:
        """Notify subscribed clients of a changed resource. May be called from any thread."""
        for listener in list(self._updates.values()):
            listener(uri)

    def get(self, name: str) -> ToolEntry | None:
        """Return the tool with exactly this name, or None."""
        return self.tools.get(name)

    def list(self) -> builtins.list[ToolEntry]:
        """Return all listed tools, sorted by name."""
        return [entry for entry in self.tools.list_all() if entry.is_listed]

    def list_with_unlisted(self) -> Sequence[ToolEntry]:
        """Return all tools, sorted by name, including unlisted ones."""
        return self.tools.list_all()

    def list_names(self) -> builtins.list[str]:
        """Return all names, sorted."""
        return [entry.name for entry in self.list()]

    def search(
        self,
        *,
        name_contains: str | None = None,
        tags: builtins.list[str] | None = None,
        match_all_tags: bool = False,
    ) -> builtins.list[ToolEntry]:
        """Return the tools with the text in their name (case-insensitive) and with any, or all, of the tags."""
        text = (name_contains or "").lower()
        return [
            entry
            for entry in self.list()
            if text in entry.name.lower() and has_tags(entry, tags or (), match_all=match_all_tags)
        ]

    def invoke(self, name: str, input_data: Any = None, *, validate: bool = True) -> Result:
        """Call a tool and wait for its result. Async handlers run to completion, even inside a running event loop.

        Args:
            name: The tool's name.
            input_data: The tool's input, usually a dict.
            validate: Whether to validate the input and the output against the tool's schemas.

        Returns:
            SUCCESS with the output as `data`; FAILURE for an unknown tool, invalid input or an exception of the
            handler; PARTIAL, with the data, for invalid output.
        """
        tool = self._check_call(name, input_data, validate=validate)
        if isinstance(tool, Result):
            return tool
        start = time.monotonic()
        try:
            data = tool.handler(input_data, RunningCall(caller=self))
            if inspect.isawaitable(data):
                data = _run_to_completion(data)
        except Exception as error:
            return _build_failure(name, error, start)
        return _check_result(tool, data, start, validate=validate)

    async def ainvoke(self, name: str, input_data: Any = None, *, validate: bool = True) -> Result:
        """Call a tool like `invoke`, from async code. Async handlers run in this event loop, others in a thread."""
        tool = self._check_call(name, input_data, validate=validate)
        if isinstance(tool, Result):
            return tool
        start = time.monotonic()
        try:
            data = await tool.run(input_data, RunningCall(caller=self), self.pipeline.threads)
        except Exception as error:
            return _build_failure(name, error, start)
        return _check_result(tool, data, start, validate=validate)

    async def dispatch(self, call: ToolCall, ctx: CallContext) -> ToolResult:
        """Run a tool through the pipeline, for servers, chains and agents.

        Raises ToolNotFound. The result reports every other problem.
        """
        running = start_call(ctx)
        tool = self.get_prepared(call.name)
        if tool is None:
            substitute = await self.find_absent(call.name, running.client)
            # The source may have published the tool while the call was waiting for it.
            tool = self.get_prepared(call.name)
            if tool is None and substitute is not None:
                tool = PreparedEntry(substitute)
        if tool is None:
            raise make_not_found_error(call.name, self.list_names())
        return await self.run_prepared(tool, call, running)

    async def find_absent(self, name: str, client: str | None) -> ToolEntry | None:
        """Wait until the possible source of an unknown tool has tried to connect.

        If the source cannot connect, or if too many calls wait already, return a tool whose calls fail with the reason.
        Such a call passes through the pipeline, so policies and the log see it like any other. Each client may have
        only its share of the waiting calls.
        """
        if self.explain_missing is None:
            return None
        quotas = () if client is None else ((client, compute_share(MAX_WAITING)),)
        slot = self._waiting.acquire_nowait(quotas=quotas)
        if slot is None:
            problem = f"The server is at capacity: too many calls wait for tools such as '{name}'. Retry later."
            return _build_failing_tool(name, Overloaded(problem))
        try:
            reason = await self.explain_missing(name)
        finally:
            slot.release()
        return _build_failing_tool(name, ToolUnavailable(reason)) if reason else None

    async def dispatch_entry(self, entry: ToolEntry, call: ToolCall, ctx: RunningCall) -> ToolResult:
        """Run an unpublished tool through the pipeline. The result reports every problem."""
        return await self.run_prepared(PreparedEntry(entry), call, ctx)

    async def dispatch_resource(self, uri: str, call_id: str, ctx: RunningCall) -> ToolResult:
        """Read a resource through the pipeline. The contents of the resource are the content of the result.

        Raises ResourceNotFound. The result reports every other problem.
        """
        match = self.finder.find_resource(uri)
        return await self.run_prepared(match.prepared, match.make_call(call_id), ctx)

    def run_prepared(self, prepared: PreparedEntry, call: ToolCall, ctx: RunningCall) -> Awaitable[ToolResult]:
        """Run an entry of any kind through the pipeline. The result reports every problem.

        A nested call stays under the pipeline of the outermost call, even if it goes to another registry.
        """
        is_nested = ctx.pipeline is not None
        if is_nested:
            ctx = ctx.create_nested(call.id)
        else:
            ctx.pipeline = self.pipeline
        if ctx.caller is None:
            ctx.caller = self
        pipeline: Pipeline = ctx.pipeline
        run = prepared.composed.get(pipeline.composition) or pipeline.compose(prepared)
        return run(call, ctx)

    def get_prepared(self, name: str) -> PreparedEntry | None:
        """Return the tool with this name, ready to be called, or None.

        The tool is prepared again if its entry, handler or schemas have been replaced.
        """
        entry: Any = self.tools.get(name)
        if entry is None:
            return None
        prepared = self._prepared.get(name)
        if prepared is None or not prepared.is_current(entry):
            # Sources may replace their tools often. Removed tools are released here, when they outnumber the others.
            if len(self._prepared) > 2 * len(self.tools):
                self._prepared = {key: value for key, value in self._prepared.items() if key in self.tools}
            prepared = self._prepared[name] = PreparedEntry(entry)
        return prepared

    def _check_call(self, name: str, data: Any, *, validate: bool) -> PreparedEntry | Result:
        """Return the tool for a call of `invoke`, or a FAILURE in place of the call."""
        tool = self.get_prepared(name)
        if tool is None:
            return Result.failure(f"Tool '{name}' not found in registry.", [f"Unknown tool: {name}"])
        if not tool.has_same_schemas():
            # The tool_use API reads the schemas at each call, so a program may change them in place. Copies show such a
            # change, so that validators are built again only after one.
            tool = self._prepared[name] = PreparedEntry(tool.entry, copies_schemas=True)
        if validate and not tool.input.is_valid(data):
            return Result.failure(f"Input validation failed for tool '{name}'.", tool.input.check(data).errors)
        return tool


def _build_failing_tool(name: str, error: CallError) -> ToolEntry:
    """Return a tool whose calls fail with the error."""

    async def raise_error(_: Any) -> None:
        raise error

    return ToolEntry(name, "", raise_error, {})


def _measure_ms(start: float) -> float:
    return (time.monotonic() - start) * 1000


def _build_failure(name: str, error: Exception, start: float) -> Result:
    message = f"Tool '{name}' raised an exception: {error}"
    return Result.failure(message, [str(error)], duration_ms=_measure_ms(start))


def _check_result(tool: PreparedEntry, data: Any, start: float, *, validate: bool) -> Result:
    """Turn the return value of a handler into a Result.

    The status is FAILURE if the value declares a failure, PARTIAL if the output is invalid, and SUCCESS otherwise.
    """
    name, duration_ms = tool.name, _measure_ms(start)
    if isinstance(data, Result):
        return data
    if isinstance(data, NeedsInput):
        return Result.failure(
            f"Tool '{name}' needs input from a user, and this call has no client.", duration_ms=duration_ms
        )
    if isinstance(data, ToolResult):
        if data.is_error:
            return Result.failure(data.error_text, data=data.output, duration_ms=duration_ms)
        data = data if data.output is None else data.output
    errors = []
    if validate and tool.output_schema:
        value = data
        if isinstance(data, Iterator):
            # Validation reads an iterator to its end, so the caller gets its items as a list. One item more than the
            # limit lets the check notice an iterator that is too long.
            data = list(islice(data, MAX_ITEMS + 1))
            value = iter(data)
        errors = _check_output(tool, value)
    if errors:
        message = f"Output validation failed for tool '{name}'."
        return Result(ResultStatus.PARTIAL, data=data, message=message, errors=errors, duration_ms=duration_ms)
    return Result.success(data, f"Tool '{name}' executed successfully.", duration_ms=duration_ms)


def _check_output(tool: PreparedEntry, data: Any) -> list[str]:
    """Return the problems of an output, as the tool_use API describes them."""
    try:
        # The schema describes the JSON that clients see.
        output = to_result(data).output
    except ValueError as error:
        # An output that contains itself, for example, cannot become JSON.
        return [f"$: {error}"]
    return [] if tool.output.is_valid(output) else tool.output.check(output).errors


def _run_to_completion(awaitable: Any) -> Any:
    """Run an awaitable in a new event loop, and return its value."""

    async def wait() -> Any:
        return await awaitable

    try:
        current_token()
    except RuntimeError:
        # This thread has no event loop.
        return anyio.run(wait)
    # A running event loop cannot be entered a second time, so another thread runs a new one.
    with ThreadPoolExecutor(1, "mcp-bridge invoke") as pool:
        return pool.submit(anyio.run, wait).result()


def make_not_found_error(name: str, known: Iterable[str]) -> ToolNotFound:
    """Return the error for an unknown tool, with similar names."""
    if len(name) > _MAX_NAME:
        # Clients choose the length of the name, and difflib would compare all of it with every name.
        return ToolNotFound(f"Unknown tool: {name[:_MAX_NAME]}... ({len(name)} characters).")
    import difflib

    similar_names = difflib.get_close_matches(name, list(known), n=3)
    if not similar_names:
        return ToolNotFound(f"Unknown tool: {name}.")
    return ToolNotFound(f"Unknown tool: {name}. Did you mean {' or '.join(map(repr, similar_names))}?")
