"""A tool made ready for a format: its name there, the schema the model fills in, the way back to its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mcp_bridge.contracts.errors import InvalidArguments
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.export.nulls import without_nulls
from mcp_bridge.export.problems import Problem
from mcp_bridge.export.strict import strictly
from mcp_bridge.schema.references import resolve
from mcp_bridge.wire.schemas import always_object, wrapped
from mcp_bridge.wire.tools import INPUT, WireTool, to_wire
from mcp_bridge.wire.values import words

COMPOSED = ("anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref", "$dynamicRef")
"""What OpenAI and Anthropic, and so Bedrock, refuse at the root of a tool's schema."""
_BESIDE = frozenset({"$ref", "$defs", "definitions", "type", "title", "description", "default", "examples"})
"""What may stand beside a reference at the root, which is then replaced by what it leads to."""
_OWN = frozenset({"$id", "$defs", "definitions"})
"""What references are relative to: a part that has its own stays where it is."""
_HOPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedTool:
    """One tool in a format. `schema` is what the model sees; `strict` is None where that was not asked for."""

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool | None
    wire: WireTool

    def arguments(self, given: Mapping[str, Any]) -> Any:
        """The handler's data from a model's arguments. Raises InvalidArguments where these are not of the shape."""
        try:
            meant = without_nulls(given, self.wire.input_schema) if self.strict else given
        except RecursionError:
            raise InvalidArguments(["$: nested too deeply"], tool=self.wire.definition.name) from None
        return self.wire.data(meant)


def made_ready(entry: ToolEntry, name: str, *, strict: bool) -> tuple[ExportedTool, list[Problem]]:
    """The tool under its name in a format, and what there is to know about it."""
    problems = [Problem(tool=entry.name, path="$", text=f"the tool is called '{name}'")] if name != entry.name else []
    wire = to_wire(entry.to_tool_definition())
    schema, composed = _rooted(wire.input_schema)
    if composed:
        alone = {keyword: value for keyword, value in schema.items() if keyword != "type"}
        schema = wrapped(alone if always_object(alone) else schema, INPUT)
        text = f"no model takes it at the root, so all of the input is the one argument '{INPUT}'"
        problems.append(Problem(tool=entry.name, path=f"$.{composed}", text=text))
    elif wire.wraps_input:
        text = f"this is no object, so it is the one argument '{INPUT}'"
        problems.append(Problem(tool=entry.name, path="$", text=text))
    said = strictly(schema) if strict else None
    if said is not None:
        problems += [Problem(tool=entry.name, path=path, text=text) for path, text in said.problems]
    schema = {"type": "object", "properties": {}, **schema}
    wire = replace(wire, input_schema=schema, wraps_input=wire.wraps_input or bool(composed))
    exported = ExportedTool(
        name=name,
        description=words(entry.description),
        schema=said.schema if said is not None and not said.problems else schema,
        strict=None if said is None else not said.problems,
        wire=wire,
    )
    return exported, problems


def _rooted(schema: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The schema with what its root refers to in its place, and the keyword that no root may have, if there is one."""
    made = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    for _ in range(_HOPS):
        target = resolve(made["$ref"], made) if isinstance(made.get("$ref"), str) else None
        if not isinstance(target, Mapping) or _OWN & target.keys() or made.keys() - _BESIDE:
            break
        made = {**target, **{keyword: value for keyword, value in made.items() if keyword != "$ref"}}
    return made, next((keyword for keyword in COMPOSED if keyword in made), None)
