"""Converts tools between handlers and clients: definitions for tools/list, arguments, and results.

A handler may take and return any JSON value. MCP requires objects for arguments and, in the handshake versions, for
structured content, so other values are wrapped: `{"input": ...}` and `{"result": ...}`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.tool import ToolDefinition, ToolResult
from mcp_bridge._protocol.wire.annotations import render_icons
from mcp_bridge._protocol.wire.client_names import to_client_name
from mcp_bridge._protocol.wire.output_schemas import simplify_output_schema
from mcp_bridge._protocol.wire.protocol_versions import AUDIO, ICONS, STATELESS, STRUCTURED, has_feature
from mcp_bridge._protocol.wire.schemas import (
    as_object,
    can_be_null,
    can_be_object,
    is_always_object,
    sanitize_root,
    wrap_schema,
)
from mcp_bridge._protocol.wire.values import (
    get_output_text,
    make_text_block,
    sanitize_text,
    to_plain,
    to_plain_mapping,
    to_text,
)

logger = logging.getLogger("mcp_bridge.wire")

INPUT = "input"
"""The only argument of a tool whose input is not an object."""
RESULT = "result"
"""The field that wraps structured content where clients require an object."""
META = "mcp-bridge/"
"""The prefix of the bridge's own `_meta` keys."""
ERROR_CODE = f"{META}code"
"""The key of the stable code of a failure in `_meta`."""
COMPLETE = {"resultType": "complete"}
"""The required field of every complete result in the stateless versions."""
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, slots=True)
class WireTool:
    """One tool as clients see it.

    Attributes:
        name: The name for clients (see `to_client_name`).
        definition: The definition of the tool's author.
        input_schema: The schema of a client's arguments.
        wraps_input: Whether the argument `input` contains the input, because it is not an object.
        output_schema: The schema of the output, without the field that may wrap it; None if none is declared.
        wraps_output: Whether the output may be something other than an object.
        may_be_null: Whether the output may be null.
        description: The description for clients.
        repair: Repairs a client's arguments before anything else reads them.
        shows_injections: Whether a result with texts of policies has no structured content, because the client's model
            would read nothing else.
    """

    name: str
    definition: ToolDefinition
    input_schema: dict[str, Any]
    wraps_input: bool
    output_schema: Mapping[str, Any] | None
    wraps_output: bool
    may_be_null: bool
    description: str
    repair: Callable[[Any], Any] | None = None
    shows_injections: bool = False
    _listings: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def root(self) -> str:
        """The path of the handler's data in a client's arguments."""
        return f"$.{INPUT}" if self.wraps_input else "$"

    def render_listing(self, version: str) -> dict[str, Any]:
        """Return the tool as tools/list shows it in this protocol version. It is rendered once per version."""
        if version not in self._listings:
            self._listings[version] = _render_listing(self, version)
        return self._listings[version]

    def needs_wrapper(self, version: str) -> bool:
        """Whether the field `result` wraps structured content.

        The handshake versions accept only objects. In later versions, null needs the field, because clients would take
        it for missing content.
        """
        return self.wraps_output and (self.may_be_null or not has_feature(version, STATELESS))

    def read_arguments(self, arguments: Mapping[str, Any] | None, root: str = "$") -> Any:
        """Turn a client's arguments into the handler's data. `root` is their path in the client's message.

        Raises InvalidArguments if a wrapped input is missing.
        """
        data: Any = {} if arguments is None else arguments
        if self.wraps_input:
            if set(data) != {INPUT}:
                problems = [f"{root}.{name}: additional property not allowed" for name in sorted(set(data) - {INPUT})]
                if INPUT not in data:
                    problems.insert(0, f"{root}.{INPUT}: required field missing")
                raise InvalidArguments(problems, tool=self.definition.name)
            data = data[INPUT]
        if self.repair is not None:
            data = self.repair(data)
        return data


def to_wire(definition: ToolDefinition) -> WireTool:
    """Prepare a definition for clients. Invalid parts are logged and left out, so that no tool can break the list."""
    plain_input = _make_plain_schema(definition, "input", definition.input_schema)
    wraps_input = not can_be_object(plain_input)
    output_schema = simplify_output_schema(_make_plain_schema(definition, "output", definition.output_schema))
    if not isinstance(output_schema, dict) or not output_schema:
        output_schema = None
    return WireTool(
        name=to_client_name(definition.name),
        definition=definition,
        input_schema=wrap_schema(plain_input, INPUT) if wraps_input else as_object(plain_input),
        wraps_input=wraps_input,
        output_schema=output_schema,
        wraps_output=output_schema is not None and not is_always_object(output_schema),
        may_be_null=output_schema is not None and can_be_null(output_schema),
        description=sanitize_text(definition.description),
    )


def _make_plain_schema(definition: ToolDefinition, side: str, schema: Any) -> Any:
    """Return a schema as plain JSON, or an empty one if it contains itself or cannot be read."""
    try:
        return to_plain(schema)
    except ValueError as error:
        logger.warning("tool %r is listed without its %s schema: %s", definition.name, side, error)
        return {}


def _render_listing(tool: WireTool, version: str) -> dict[str, Any]:
    """Render a tool for tools/list. Each version of MCP adds fields to those of the earlier ones."""
    definition = tool.definition
    listing: dict[str, Any] = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    if has_feature(version, STRUCTURED):
        if title := sanitize_text(definition.title):
            listing["title"] = title
        if (schema := render_output_schema(tool, version)) is not None:
            listing["outputSchema"] = schema
        meta = to_plain_mapping(definition.meta)
        if tags := [to_text(to_plain(tag)) for tag in definition.tags if isinstance(tag, str)]:
            meta[f"{META}tags"] = tags
        if tool.name != definition.name:
            meta[f"{META}name"] = to_plain(definition.name)
        if meta:
            listing["_meta"] = meta
    if has_feature(version, AUDIO) and isinstance(definition.annotations, Mapping):
        annotations: dict[str, Any] = {}
        for name in _HINTS:
            if isinstance(definition.annotations.get(name), bool):
                annotations[name] = definition.annotations[name]
        if title := sanitize_text(definition.annotations.get("title")):
            annotations["title"] = title
        if annotations:
            listing["annotations"] = annotations
    if has_feature(version, ICONS) and (icons := render_icons(definition.icons)):
        listing["icons"] = icons
    return listing


def render_output_schema(tool: WireTool, version: str) -> dict[str, Any] | None:
    """Return the declared output schema in the form of `version`, or None if there is none."""
    if tool.output_schema is None:
        return None
    if tool.needs_wrapper(version):
        return wrap_schema(tool.output_schema, RESULT)
    if has_feature(version, STATELESS):
        return sanitize_root(tool.output_schema)
    return as_object(tool.output_schema)


def to_mcp(result: ToolResult, tool: WireTool, version: str) -> dict[str, Any]:
    """Render a result as a JSON-ready dict.

    An object, or an output with a declared schema, becomes structured content in addition to text.
    """
    response: dict[str, Any] = dict(COMPLETE) if has_feature(version, STATELESS) else {}
    if result.is_error:
        response["content"] = _render_failure(result, version)
        response["isError"] = True
    elif result.content is not None:
        response["content"] = _render_blocks(result.content, version)
    elif result.output is None:
        response["content"] = []
    else:
        response["content"] = [{"type": "text", "text": get_output_text(result)}]
    # A failure has structured content only if its author has written both content and an output.
    is_structured = not result.is_error or (result.content is not None and result.output is not None)
    hides_output = tool.shows_injections and _has_injections(result.content)
    if is_structured and not hides_output and has_feature(version, STRUCTURED):
        output = result.output
        # A policy may have replaced the output by content, so even a declared output can be None.
        is_declared = tool.output_schema is not None and output is not None
        if tool.needs_wrapper(version):
            response["structuredContent"] = {RESULT: output}
        elif isinstance(output, dict) or (is_declared and has_feature(version, STATELESS)):
            response["structuredContent"] = output
    if result.meta is not None or result.is_error:
        response |= render_meta(result, version)
    return response


def render_meta(result: ToolResult, version: str) -> dict[str, Any]:
    """Return the member `_meta` of a result, with the code of a failure. Return `{}` if it would be empty."""
    if not has_feature(version, STRUCTURED):
        return {}
    meta = to_plain_mapping(result.meta)
    if result.is_error and result.code:
        meta[ERROR_CODE] = to_text(to_plain(result.code))
    return {"_meta": meta} if meta else {}


def _has_injections(content: Any) -> bool:
    """Whether content has an injected text of a policy."""
    from mcp_bridge._contracts.content import Content, InjectedText

    if content is None or isinstance(content, str | bytes | Content):
        return isinstance(content, InjectedText)
    return any(isinstance(item, InjectedText) for item in content)


def _render_failure(result: ToolResult, version: str) -> list[dict[str, Any]]:
    """Render the error first, and then the other content of the result."""
    text = str(to_plain(result.error_text))
    blocks = []
    if result.content is not None:
        if text and join_texts(result.content) != text:
            blocks.append(make_text_block(text))
        blocks += _render_blocks(result.content, version)
    else:
        if text:
            blocks.append(make_text_block(text))
        if result.output is not None:
            output = get_output_text(result)
            if output != text:
                blocks.append(make_text_block(output))
    return blocks or [make_text_block(text or "The tool failed without an error message.")]


def join_texts(content: Any) -> str:
    """Return the texts of blocks, without the injected texts of policies."""
    from mcp_bridge._contracts.content import Content, InjectedText, Text

    items = (content,) if isinstance(content, str | bytes | Content) else content
    return "\n".join(item.text for item in items if isinstance(item, Text) and not isinstance(item, InjectedText))


def _render_blocks(content: Any, version: str) -> list[dict[str, Any]]:
    # Neither a start nor results without content need this module.
    from mcp_bridge._protocol.wire.content import render_blocks

    return render_blocks(content, version)
