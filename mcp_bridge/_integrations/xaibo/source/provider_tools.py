"""Lists the tools of one provider as entries, and calls them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import anyio

from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._integrations.xaibo.results import convert_known_error, to_result
from mcp_bridge._integrations.xaibo.schemas import build_schema, convert_arguments, get_field
from mcp_bridge._integrations.xaibo.source.running_call import RUNNING, ProviderCall
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.third_party import call_method, describe_error, is_own_cancellation, resolve_awaitable

LIST_TIMEOUT = 30.0
"""The timeout of listing the tools of a provider, in seconds."""
# Some providers report an unknown tool with such a text instead of ToolNotFoundError.
_NOT_FOUND = re.compile(r"not found|could not find|unknown tool|no such tool|no tool", re.IGNORECASE)


class ProviderTools:
    """The tools of one provider, from its last successful listing.

    `label` names the provider in problems. `on_missing` is called, in any thread, when the provider reports that a
    listed tool does not exist.
    """

    def __init__(
        self, label: str, provider: Any, on_missing: Callable[[], None], redactor: Redactor | None = None
    ) -> None:
        self.label = label
        self.entries: list[ToolEntry] = []
        self.problems: list[str] = []
        self._provider = provider
        self._on_missing = on_missing
        self._redactor = redactor or Redactor()
        self._last_tools: list[dict[str, Any]] | None = None

    async def refresh(self) -> None:
        """List the tools. Never raises: an error becomes a problem."""
        problem = f"did not list its tools within {LIST_TIMEOUT:g} seconds"
        with anyio.move_on_after(LIST_TIMEOUT):
            try:
                await self.list_tools()
            except BaseException as error:
                # Third-party code may raise any error. Only a cancellation passes.
                if is_own_cancellation(error):
                    raise
                problem = f"cannot list its tools: {describe_error(error)}"
            else:
                return
        if self.entries:
            problem += "; its tools stay as they were"
        self.problems = [self._format_problem(problem)]

    async def list_tools(self) -> list[Any]:
        """Return the tools of the provider, and update `entries`. Raises any error of the provider."""
        tools = list(await call_method(self._provider.list_tools))
        self._update(tools)
        return tools

    def _update(self, tools: list[Any]) -> None:
        entries: dict[str, ToolEntry] = {}
        problems: list[str] = []
        for tool in tools:
            try:
                entry = self._build_entry(tool)
            except Exception as error:
                # A property of the tool raises an error, or the tool has no name.
                problems.append(self._format_problem(f"lists a tool that cannot be read: {describe_error(error)}"))
                continue
            if entries.setdefault(entry.name, entry) is not entry:
                problems.append(self._format_problem(f"lists two tools named '{entry.name}'; the first is published"))
        if not tools:
            problems.append(self._format_problem("lists no tools"))
        last_tools = [entry.to_dict() for entry in entries.values()]
        # Without a change, keep the entries, so that no change is announced.
        if last_tools != self._last_tools:
            self.entries, self._last_tools = list(entries.values()), last_tools
        self.problems = problems

    def _build_entry(self, tool: Any) -> ToolEntry:
        name, parameters = get_field(tool, "name"), get_field(tool, "parameters")
        if not isinstance(name, str) or not name:
            raise ValueError(f"its name is {name!r}")
        schema = build_schema(parameters)
        handler = _ProviderToolCaller(self._provider, name, parameters, self._on_missing).handler
        return ToolEntry(name, str(get_field(tool, "description") or "").strip(), handler, schema)

    def _format_problem(self, problem: str) -> str:
        return self._redactor.redact_text(f"provider '{self.label}' {problem}")


class _ProviderToolCaller:
    """Calls one tool. An error of Xaibo's protocol becomes a result, because its text is for the model.

    Any other error is raised, and the pipeline handles it.
    """

    def __init__(self, provider: Any, name: str, parameters: Any, on_missing: Callable[[], None]) -> None:
        self._provider = provider
        self._name = name
        self._parameters = parameters
        self._on_missing = on_missing

    @property
    def handler(self) -> Callable[[Any, RunningCall], Any]:
        """The handler of the entry. A synchronous `execute_tool` runs in a thread."""
        return self._call if is_async(self._provider.execute_tool) else self._call_in_thread

    async def _call(self, data: Any, ctx: RunningCall) -> ToolResult:
        try:
            value = self._run_tool(data, ctx)
        except Exception as error:
            return self._convert_error(error)
        return await self._wait_for_value(value, data, ctx)

    def _call_in_thread(self, data: Any, ctx: RunningCall) -> Any:
        try:
            value = self._run_tool(data, ctx)
        except Exception as error:
            return self._convert_error(error)
        if inspect.isawaitable(value) or inspect.isawaitable(get_field(value, "result")):
            return self._wait_for_value(value, data, ctx)
        return self._convert_returned(value, ctx)

    def _run_tool(self, data: Any, ctx: RunningCall) -> Any:
        token = RUNNING.set(ProviderCall(ctx, self._name, data))
        try:
            return self._provider.execute_tool(self._name, convert_arguments(self._parameters, data or {}))
        finally:
            RUNNING.reset(token)

    async def _wait_for_value(self, value: Any, data: Any, ctx: RunningCall) -> ToolResult:
        token = RUNNING.set(ProviderCall(ctx, self._name, data))
        try:
            value = await _wait_for_result(await resolve_awaitable(value))
        except Exception as error:
            return self._convert_error(error)
        finally:
            RUNNING.reset(token)
        return self._convert_returned(value, ctx)

    def _convert_returned(self, value: Any, ctx: RunningCall) -> ToolResult:
        result = to_result(value, call_id=ctx.request_id)
        if result.is_error and self._name in result.error_text and _NOT_FOUND.search(result.error_text):
            self._on_missing()
        return result

    def _convert_error(self, error: Exception) -> ToolResult:
        if any(error_class.__name__ == "ToolNotFoundError" for error_class in type(error).__mro__):
            self._on_missing()
        result = convert_known_error(error)
        if result is None:
            raise error
        return result


async def _wait_for_result(value: Any) -> Any:
    """Return the value with its `result` awaited. There, PythonToolProvider has the coroutine of an async function."""
    result = get_field(value, "result")
    if not inspect.isawaitable(result):
        return value
    result = await result
    if isinstance(value, Mapping):
        return {**value, "result": result}
    return SimpleNamespace(success=value.success, result=result, error=getattr(value, "error", None))
