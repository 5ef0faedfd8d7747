"""The tools that the server itself provides, beside those of the sources.

Some of them name another entry, such as `call_tool` a tool. Their calls run that entry through its own pipeline, so
policies, limits and the log see the entry and not the tool that names it. Their own handlers run only if there is no
such entry, or if the arguments are invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mcp_bridge._contracts.listing import BuiltInEntry
from mcp_bridge._contracts.tool import ToolCall, ToolEntry, ToolResult
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._protocol.wire.tools import WireTool
from mcp_bridge._server.requests import Request

TEXT: Mapping[str, Any] = {"type": "string"}
"""The schema of a text argument."""


class Target(NamedTuple):
    """What a call of a built-in tool runs in its place.

    Attributes:
        prepared: The entry to run.
        tool: How its result is rendered; None to render it like that of the built-in tool.
        given: The arguments that the client sends to `tool`.
        root: The path of these arguments in the message of the client.
        call: The call, if the entry is not a tool.
        convert: Turns the result of the entry into that of a tool.
    """

    prepared: PreparedEntry
    tool: WireTool | None = None
    given: Any = None
    root: str = "$"
    call: ToolCall | None = None
    convert: Callable[[ToolResult], ToolResult] | None = None


FindTarget = Callable[[Mapping[str, Any], Request], Target | None]
"""Finds what a call with these arguments runs in place of the built-in tool."""


class BuiltInTool(NamedTuple):
    """A tool of the server itself."""

    entry: ToolEntry
    find_target: FindTarget | None = None


def build_tool(
    handler: Callable[..., Any],
    name: str,
    description: str,
    properties: Mapping[str, Any],
    required: Sequence[str] = (),
    *,
    reads: bool = True,
    find_target: FindTarget | None = None,
) -> BuiltInTool:
    """Build a built-in tool. `reads` means that it changes nothing."""
    schema = {
        "type": "object",
        "properties": dict(properties),
        **({"required": list(required)} if required else {}),
        "additionalProperties": False,
    }
    annotations = {"readOnlyHint": True, "openWorldHint": False} if reads else {}
    return BuiltInTool(BuiltInEntry(name, description, handler, schema, annotations=annotations), find_target)


def read_reference(given: Mapping[str, Any], key: str) -> tuple[str, dict[str, Any]] | None:
    """Return the name of an entry and its arguments; None for anything that is not exactly that."""
    name, arguments = given.get(key), given.get("arguments", {})
    is_valid = isinstance(name, str) and isinstance(arguments, dict) and given.keys() <= {key, "arguments"}
    return (str(name), arguments) if is_valid else None
