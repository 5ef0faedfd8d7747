"""A tool as clients see it: its listing for each protocol version, and the way back from arguments to data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.contracts.errors import InvalidArguments
from mcp_bridge.contracts.tool import ToolDefinition
from mcp_bridge.wire.icons import icons
from mcp_bridge.wire.names import client_name
from mcp_bridge.wire.schemas import always_object, as_object, rooted, takes_null, takes_object, wrapped
from mcp_bridge.wire.values import plain, plain_mapping, text_of, words
from mcp_bridge.wire.versions import AUDIO, ICONS, STATELESS, STRUCTURED, carries

logger = logging.getLogger("mcp_bridge.wire")

INPUT = "input"
"""The one argument of a tool whose input is not an object."""
RESULT = "result"
"""The one field of structured content that is not an object, where the client's version or the SDK needs one."""
META = "mcp-bridge/"
"""What our own `_meta` keys begin with."""
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, slots=True)
class WireTool:
    """One tool, ready for the wire.

    `wraps_input` and `wraps_output` tell that a side is not an object, `may_be_null` that an answer may be null.
    `mend` is what is done with a client's arguments before anybody sees them.
    """

    name: str
    definition: ToolDefinition
    input_schema: dict[str, Any]
    wraps_input: bool
    output_schema: Mapping[str, Any] | None
    wraps_output: bool
    may_be_null: bool
    description: str
    mend: Callable[[Any], Any] | None = None
    _listings: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)

    def listing(self, version: str) -> dict[str, Any]:
        """The tool in a tools/list answer of this protocol version; made once for each version."""
        made = self._listings.get(version)
        if made is None:
            made = self._listings[version] = _listing(self, version)
        return made

    def wraps(self, version: str) -> bool:
        """Whether structured content is `{"result": ...}`: the SDK drops null, and older versions take objects only."""
        return self.wraps_output and (self.may_be_null or not carries(version, STATELESS))

    def data(self, arguments: Mapping[str, Any] | None) -> Any:
        """The handler's data from a client's arguments. Raises InvalidArguments where a wrapped input is missing."""
        given: Any = {} if arguments is None else arguments
        if self.wraps_input:
            given = self._unwrapped(given)
        return given if self.mend is None else self.mend(given)

    def _unwrapped(self, given: Mapping[str, Any]) -> Any:
        if set(given) != {INPUT}:
            extra = [f"$.{name}: additional property not allowed" for name in sorted(set(given) - {INPUT})]
            missing = [] if INPUT in given else [f"$.{INPUT}: required field missing"]
            raise InvalidArguments([*missing, *extra], tool=self.definition.name)
        return given[INPUT]


def to_wire(definition: ToolDefinition) -> WireTool:
    """Make a definition ready. An odd part of it is left out and logged; it never spoils the list."""
    given = _schema(definition, "input", definition.input_schema)
    wraps = not takes_object(given)
    schema = wrapped(given, INPUT) if wraps else as_object(given)
    output = _schema(definition, "output", definition.output_schema)
    declared = output if isinstance(output, dict) and output else None
    return WireTool(
        name=client_name(definition.name),
        definition=definition,
        input_schema=schema,
        wraps_input=wraps,
        output_schema=declared,
        wraps_output=declared is not None and not always_object(declared),
        may_be_null=declared is not None and takes_null(declared),
        description=words(definition.description),
    )


def _schema(definition: ToolDefinition, side: str, schema: Any) -> Any:
    """A schema made plain; empty where it contains itself or cannot be read."""
    try:
        return plain(schema)
    except ValueError as error:
        logger.warning("tool %r is listed without its %s schema: %s", definition.name, side, error)
        return {}


def _listing(tool: WireTool, version: str) -> dict[str, Any]:
    definition = tool.definition
    made: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
    }
    if carries(version, STRUCTURED):
        made |= _since_structured(tool, version)
    if carries(version, AUDIO) and (annotations := _annotations(definition)):
        made["annotations"] = annotations
    if carries(version, ICONS) and (shown := icons(definition.icons)):
        made["icons"] = shown
    return made


def _since_structured(tool: WireTool, version: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if title := words(tool.definition.title):
        made["title"] = title
    if (schema := output_schema(tool, version)) is not None:
        made["outputSchema"] = schema
    if meta := _meta(tool):
        made["_meta"] = meta
    return made


def output_schema(tool: WireTool, version: str) -> dict[str, Any] | None:
    """The declared output schema in a shape that `version` can read, or None when nothing is declared."""
    if (schema := tool.output_schema) is None:
        return None
    if tool.wraps(version):
        return wrapped(schema, RESULT)
    return rooted(schema) if carries(version, STATELESS) else as_object(schema)


def _meta(tool: WireTool) -> dict[str, Any]:
    definition = tool.definition
    meta = plain_mapping(definition.meta)
    if tags := [text_of(plain(tag)) for tag in definition.tags if isinstance(tag, str)]:
        meta[f"{META}tags"] = tags
    if tool.name != definition.name:
        meta[f"{META}name"] = plain(definition.name)
    return meta


def _annotations(definition: ToolDefinition) -> dict[str, Any]:
    given = definition.annotations if isinstance(definition.annotations, Mapping) else {}
    kept: dict[str, Any] = {name: given[name] for name in _HINTS if isinstance(given.get(name), bool)}
    if title := words(given.get("title")):
        kept["title"] = title
    return kept
