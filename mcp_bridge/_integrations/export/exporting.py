"""Exports a registry's tools in a vendor's format, and runs the calls of the vendor's models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import anyio

from mcp_bridge._contracts.context import CallContext
from mcp_bridge._contracts.errors import CallError, ConfigError
from mcp_bridge._contracts.running_call import Caller, RegistryOwner, get_caller
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._engine.registry import ToolRegistry, make_not_found_error
from mcp_bridge._integrations.export.calls import ModelCall, RawCall, parse_arguments
from mcp_bridge._integrations.export.formats import FORMATS
from mcp_bridge._integrations.export.results import to_model_result
from mcp_bridge._integrations.export.tools import ExportedTool, Problem, choose_names, export_tool
from mcp_bridge._protocol.wire.outcomes import to_error_result

Contexts = CallContext | Callable[[ModelCall], CallContext]
"""The context for the calls of a model, or a function that returns a context for each of them."""


class Export:
    """A snapshot of tools in one vendor's format.

    Args:
        tools: A registry, a running bridge, or entries.
        format: A key of FORMATS.
        strict: Whether schemas are converted for OpenAI's strict mode.
        only: The names of the tools to export; by default all.

    Attributes:
        tools: The tools for the request, as JSON.
        names: The registered names of the tools, by their exported names.
        problems: The changes of tools and, with `strict`, the reasons why tools are not strict.

    Raises ConfigError for an unknown format or one without strict mode, and ToolNotFound for a name in `only`.

    >>> import asyncio
    >>> from mcp_bridge import ToolRegistry
    >>> def double(number: int) -> int:
    ...     return 2 * number
    >>> registry = ToolRegistry()
    >>> _ = registry.tool(double)
    >>> export = Export(registry, "anthropic")
    >>> export.tools[0]["name"]
    'double'
    >>> response = {"content": [{"type": "tool_use", "id": "1", "name": "double", "input": {"number": 21}}]}
    >>> (message,) = asyncio.run(export.run(response))
    >>> message["content"]
    [{'type': 'tool_result', 'tool_use_id': '1', 'content': '42'}]
    """

    def __init__(
        self,
        tools: Caller | RegistryOwner | Iterable[ToolEntry],
        format: str,
        *,
        strict: bool = False,
        only: Sequence[str] = (),
    ) -> None:
        if format not in FORMATS:
            raise ConfigError(f"unknown format '{format}'", hint=f"Name one of: {', '.join(FORMATS)}")
        self._format = FORMATS[format]
        if strict and not self._format.strict:
            strict_formats = ", ".join(item.name for item in FORMATS.values() if item.strict)
            raise ConfigError(f"format '{format}' has no strict mode", hint=f"These have: {strict_formats}")
        if isinstance(tools, Iterable):
            registry = ToolRegistry()
            for entry in tools:
                registry.register(entry)
            self._caller: Caller = registry
        else:
            self._caller = get_caller(tools)
        entries = list(self._caller.list())
        if only:
            all_names = [entry.name for entry in entries]
            for name in only:
                if name not in all_names:
                    raise make_not_found_error(name, all_names)
            entries = [entry for entry in entries if entry.name in only]
        names = choose_names((entry.name for entry in entries), needs_initial_letter=self._format.needs_initial_letter)
        self._tools: dict[str, ExportedTool] = {}
        problems: list[Problem] = []
        for entry in entries:
            tool, changes = export_tool(entry, names[entry.name], strict=strict)
            self._tools[tool.name] = tool
            problems += changes
        self.problems: Sequence[Problem] = tuple(problems)
        self.names: Mapping[str, str] = MappingProxyType({names[entry.name]: entry.name for entry in entries})
        self.tools: list[dict[str, Any]] = self._format.format_tools(list(self._tools.values()))

    def calls(self, response: Any) -> list[ModelCall]:
        """Return the calls in a model's response: an object of the vendor's SDK or plain data, whole or a part of it.

        Never raises: an impossible call has a `refusal`.
        """
        return [self._build_call(call) for call in self._format.find_calls(response)]

    async def answer(self, call: ModelCall, ctx: Contexts | None = None) -> ToolResult:
        """Run one call through the registry's pipeline. Errors are in the result."""
        try:
            if call.refusal is not None:
                raise call.refusal
            if ctx is None:
                ctx = CallContext(request_id=call.id)
            elif not isinstance(ctx, CallContext):
                ctx = ctx(call)
            return await self._caller.dispatch(call, ctx)
        # The call is impossible, or the tool is no longer registered.
        except CallError as error:
            return to_error_result(error)

    def result(self, call: ModelCall, result: ToolResult) -> dict[str, Any]:
        """Return a result in the format: a message, or a block or item of a message. Text is verbatim."""
        return self._format.format_result(call, to_model_result(result))

    async def run(self, response: Any, ctx: Contexts | None = None) -> list[dict[str, Any]]:
        """Run all calls of a model's response concurrently. Returns the messages to append after the response.

        Args:
            response: The response; without calls there are no messages.
            ctx: The context of the call in which the response was requested, or a function that returns one for each
                call of the response.
        """
        calls = self.calls(response)
        results: dict[int, ToolResult] = {}

        async def run_call(index: int, call: ModelCall) -> None:
            results[index] = await self.answer(call, ctx)

        async with anyio.create_task_group() as tasks:
            for index, call in enumerate(calls):
                tasks.start_soon(run_call, index, call)
        formatted_results = [self.result(call, results[index]) for index, call in enumerate(calls)]
        return self._format.build_messages(formatted_results)

    def _build_call(self, raw: RawCall) -> ModelCall:
        """Return the call of a registered tool for a call in a response. An error becomes its `refusal`."""
        tool = self._tools.get(raw.name)
        arguments: Any = None
        refusal: CallError | None = None
        try:
            if tool is None:
                raise make_not_found_error(raw.name, self._tools)
            arguments = tool.read_arguments(parse_arguments(raw.arguments, raw.name))
        except CallError as error:
            refusal = error
        return ModelCall(
            id=raw.id or f"call_{uuid4().hex}",
            name=self.names.get(raw.name, raw.name),
            arguments=arguments,
            exported=raw.name,
            model_id=raw.id,
            root="$" if tool is None else tool.wire.root,
            refusal=refusal,
        )
