"""Export: a registry's tools in a vendor's format, and the calls of its models back into the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import anyio

from mcp_bridge.contracts.context import CallContext, Caller
from mcp_bridge.contracts.errors import CallError, ConfigError
from mcp_bridge.contracts.tool import ToolEntry, ToolResult
from mcp_bridge.export.answers import told
from mcp_bridge.export.calls import ModelCall
from mcp_bridge.export.format import Format
from mcp_bridge.export.formats import FORMATS
from mcp_bridge.export.naming import exported_names
from mcp_bridge.export.problems import Problem
from mcp_bridge.export.reading import Wanted, as_arguments
from mcp_bridge.export.tools import ExportedTool, made_ready
from mcp_bridge.registry.registry import ToolRegistry, unknown
from mcp_bridge.wire.outcomes import failure

Contexts = CallContext | Callable[[ModelCall], CallContext]
"""The running call that makes the calls of a model, or what makes a context for each of them."""


class Export:
    """Tools in the format of one vendor, as they are now; `tools` is JSON-ready, for the request.

    `tools` given is a registry, or entries. `only` has the names of those to export, all otherwise. `problems` says
    what was changed and, with `strict`, why which tool is not. `names` leads from exported names to registered ones.
    Raises ConfigError for an unknown format, or for `strict` where it has none, and ToolNotFound for a name in `only`.
    """

    def __init__(
        self,
        tools: Caller | Iterable[ToolEntry],
        format: str,
        *,
        strict: bool = False,
        only: Sequence[str] = (),
    ) -> None:
        self._format = _format(format, strict)
        self._caller = _caller(tools)
        entries = _chosen(self._caller.list(), only)
        made = exported_names((entry.name for entry in entries), begins_with_letter=self._format.begins_with_letter)
        self._tools: dict[str, ExportedTool] = {}
        problems: list[Problem] = []
        for entry in entries:
            tool, known = made_ready(entry, made[entry.name], strict=strict)
            self._tools[tool.name] = tool
            problems += known
        self.problems: Sequence[Problem] = tuple(problems)
        self.names: Mapping[str, str] = MappingProxyType({made[entry.name]: entry.name for entry in entries})
        self.tools: list[dict[str, Any]] = self._format.tools(list(self._tools.values()))

    def calls(self, response: Any) -> list[ModelCall]:
        """The calls in a model's answer: an object of the vendor's SDK or plain data, whole or a part of it.

        A call that cannot be made has a `refusal` and is in the list like the others; it never raises.
        """
        return [self._call(wanted) for wanted in self._format.wanted(response)]

    async def answer(self, call: ModelCall, ctx: Contexts | None = None) -> ToolResult:
        """What comes of one call, through the registry's pipeline; whatever goes wrong is in the result."""
        try:
            if call.refusal is not None:
                raise call.refusal
            return await self._caller.dispatch(call, _context(call, ctx))
        except CallError as error:  # it was refused, or the tool has gone since
            return failure(error)

    def result(self, call: ModelCall, result: ToolResult) -> dict[str, Any]:
        """A result in the format: a message, or the block or item that it is of one. Text is verbatim."""
        return self._format.result(call, told(result))

    async def run(self, response: Any, ctx: Contexts | None = None) -> list[dict[str, Any]]:
        """Make all calls of a model's answer at once; the messages to append after it, none where it calls nothing.

        `ctx` is the running call whose tool talks to the model, or makes a context for each call.
        """
        calls = self.calls(response)
        results: dict[int, ToolResult] = {}

        async def make(at: int, call: ModelCall) -> None:
            results[at] = await self.answer(call, ctx)

        async with anyio.create_task_group() as tasks:
            for at, call in enumerate(calls):
                tasks.start_soon(make, at, call)
        return self._format.messages([self.result(call, results[at]) for at, call in enumerate(calls)])

    def _call(self, wanted: Wanted) -> ModelCall:
        tool = self._tools.get(wanted.name)
        arguments: Any = None
        refusal: CallError | None = None
        try:
            if tool is None:
                raise unknown(wanted.name, self._tools)
            arguments = tool.arguments(as_arguments(wanted.arguments, wanted.name))
        except CallError as error:
            refusal = error
        return ModelCall(
            id=wanted.id or f"call_{uuid4().hex}",
            name=self.names.get(wanted.name, wanted.name),
            arguments=arguments,
            exported=wanted.name,
            model_id=wanted.id,
            refusal=refusal,
        )


def _format(name: str, strict: bool) -> Format:
    if name not in FORMATS:
        raise ConfigError(f"unknown format '{name}'", hint=f"Name one of: {', '.join(FORMATS)}")
    if strict and not FORMATS[name].strict:
        names = ", ".join(known for known, made in FORMATS.items() if made.strict)
        raise ConfigError(f"format '{name}' has no strict mode", hint=f"These have: {names}")
    return FORMATS[name]


def _caller(tools: Caller | Iterable[ToolEntry]) -> Caller:
    if not isinstance(tools, Iterable):
        return tools
    registry = ToolRegistry()
    for entry in tools:
        registry.register(entry)
    return registry


def _chosen(entries: Sequence[ToolEntry], only: Sequence[str]) -> list[ToolEntry]:
    names = [entry.name for entry in entries]
    for name in only:
        if name not in names:
            raise unknown(name, names)
    return [entry for entry in entries if not only or entry.name in only]


def _context(call: ModelCall, ctx: Contexts | None) -> CallContext:
    if ctx is None:
        return CallContext(request_id=call.id)
    return ctx if isinstance(ctx, CallContext) else ctx(call)
