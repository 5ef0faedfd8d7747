"""completion/complete, for a prompt's arguments and a template's variables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcp_bridge.contracts.prompt import PromptEntry
from mcp_bridge.contracts.resource import ResourceTemplate
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.pipeline.prepared import Prepared
from mcp_bridge.registry.registry import ToolRegistry
from mcp_bridge.schema.callables import adapt_completion
from mcp_bridge.schema.templates import template_variables
from mcp_bridge.server.answers import Answers, complete, shorten, succeeded
from mcp_bridge.server.context import Request, ServedContext
from mcp_bridge.server.ranking import LONGEST, ranked
from mcp_bridge.wire.outcomes import INVALID_PARAMS
from mcp_bridge.wire.values import plain

KNOWN, KNOWN_LENGTH = 100, 10_000
"""The most arguments in the context of a request, and the most characters of the name and the value of each."""


@dataclass(frozen=True)
class Completer:
    """A function that completes one argument, called as every handler is."""

    handler: Callable[[Any], Any]


class Completion:
    """completion/complete over what the registry's prompts and templates offer."""

    def __init__(self, registry: ToolRegistry, answers: Answers) -> None:
        self._registry = registry
        self._answers = answers
        self._known: dict[tuple[str, str], tuple[Any, Prepared]] = {}

    async def complete(self, request: Request, params: types.CompleteRequestParams) -> dict[str, Any]:
        """The values that fit what was typed, best first. Raises MCPError for what is not there to be completed."""
        version, argument = request.protocol_version, params.argument
        _check_size(argument.value, (params.context.arguments if params.context is not None else None) or {})
        await self._answers.started()
        name, entry = self._entry(params.ref)
        if argument.name not in _arguments(entry):
            asked = shorten(argument.name)
            raise MCPError(INVALID_PARAMS, f"{name} has no argument '{asked}'", {"argument": asked})
        offered = entry.completions.get(argument.name, ())
        found = await self._ask(offered, name, request, params) if callable(offered) else offered
        values, total = ranked([str(value) for value in found], argument.value)
        made = {"values": values, "total": total, "hasMore": total > len(values)}
        return complete({"completion": made}, version)

    async def _ask(
        self, function: Callable[..., Any], name: str, request: Request, params: types.CompleteRequestParams
    ) -> Iterable[Any]:
        known = params.context.arguments if params.context is not None else None
        argument = params.argument
        data = {"argument": argument.name, "value": argument.value, "known": dict(known or {})}
        call = ToolCall(id=str(request.request_id), name=name, arguments=data, kind="completion")
        prepared = self._prepared(name, argument.name, function)
        result = await self._registry.carry_out(prepared, call, ServedContext(request, self._registry))
        return _values(succeeded(result, request.protocol_version, name=name))

    def _entry(self, ref: Any) -> tuple[str, PromptEntry | ResourceTemplate]:
        if isinstance(ref, types.PromptReference):
            name, entry = ref.name, self._registry.prompts.get(ref.name)
            if entry is not None:
                return name, entry
            name = shorten(name)
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name}", {"name": name})
        template = self._registry.templates.get(ref.uri)
        if template is None:
            uri = shorten(ref.uri)
            raise MCPError(INVALID_PARAMS, f"Unknown resource template: {uri}", {"uri": uri})
        return ref.uri, template

    def _prepared(self, name: str, argument: str, function: Callable[..., Any]) -> Prepared:
        known = self._known.get((name, argument))
        if known is None or known[0] is not function:
            known = self._known[name, argument] = (function, Prepared(Completer(adapt_completion(function))))
        return known[1]


def _check_size(value: str, known: Mapping[str, str]) -> None:
    """Raise MCPError before any work is done with a text that nobody types."""
    if len(value) > LONGEST:
        raise MCPError(
            INVALID_PARAMS,
            f"argument.value has {len(value)} characters, and at most {LONGEST} can be completed. Send a shorter value",
        )
    if len(known) > KNOWN:
        raise MCPError(
            INVALID_PARAMS, f"context.arguments has {len(known)} arguments, and at most {KNOWN} are allowed. Send fewer"
        )
    for name, text in known.items():
        if (longest := max(len(name), len(text))) > KNOWN_LENGTH:
            raise MCPError(
                INVALID_PARAMS,
                f"context.arguments: '{shorten(name)}' has {longest} characters, and at most {KNOWN_LENGTH} are "
                f"allowed. Send a shorter value, or omit it",
            )


def _arguments(entry: PromptEntry | ResourceTemplate) -> Collection[str]:
    if isinstance(entry, PromptEntry):
        return [argument.name for argument in entry.arguments]
    return [variable.name for variable in template_variables(entry.uri_template)]


def _values(result: ToolResult) -> Iterable[Any]:
    output = plain(result.output)
    return output if isinstance(output, list) else [] if output is None else [output]
