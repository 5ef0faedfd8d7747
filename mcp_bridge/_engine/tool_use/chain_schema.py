"""Infers the input schema of a chain from the schemas of its tools, for chains without a declared one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._engine.tool_use.steps import ChainStep
from mcp_bridge._json_schema.schema_checks import check_schema
from mcp_bridge._json_schema.validator import validate

FindTool = Callable[[str], ToolEntry | None]
"""Returns the tool with a name, or None."""


def infer_input_schema(find_tool: FindTool, steps: Sequence[ChainStep]) -> dict[str, Any]:
    """Return the schema of a chain's initial context; empty if nothing is known about it.

    A first step without a mapping receives the whole context, so its schema is that of the chain. Otherwise, the schema
    has the mapped values of the first step, and those of later steps while no earlier step can have produced them.
    """
    if steps and steps[0].takes_context:
        first_schema = _find_schema(find_tool, steps[0])
        if first_schema.get("type", "object") == "object":
            return deepcopy(dict(first_schema))
        return {}
    schema: dict[str, Any] = {"type": "object"}
    output_keys: set[str] = set()
    for step in steps:
        _add_inputs(schema, step, _find_schema(find_tool, step), output_keys)
        # A step without an output key may add any value to the context, so later steps say nothing about the input.
        if step.takes_context or not step.output_key:
            break
        output_keys.add(step.output_key)
    if "properties" not in schema:
        return {}
    problems = check_schema(schema)
    return _remove_types(schema) if problems else schema


def _find_schema(find_tool: FindTool, step: ChainStep) -> Mapping[str, Any]:
    entry = find_tool(step.tool_name)
    if entry is None or not isinstance(entry.input_schema, Mapping):
        return {}
    return entry.input_schema


def _add_inputs(schema: dict[str, Any], step: ChainStep, tool_schema: Mapping[str, Any], output_keys: set[str]) -> None:
    """Add the values that a step reads from the initial context to the schema of the chain."""
    properties, required = tool_schema.get("properties"), tool_schema.get("required")
    for target, source in step.input_mapping.items():
        keys = source.split(".")
        if source in output_keys or keys[0] in output_keys or not all(keys):
            continue
        property_schema = properties.get(target, {}) if isinstance(properties, Mapping) else {}
        is_required = isinstance(required, Sequence) and target in required
        # A step passes null for a mapped value that is missing. If the tool rejects null, the chain needs the value.
        if not is_required:
            is_required = not validate(None, {"$defs": tool_schema.get("$defs", {}), "allOf": [property_schema]}).valid
        is_required = is_required and target not in step.defaults
        _add_input(schema, keys, _copy_property(schema, property_schema, tool_schema), required=is_required)


def _add_input(schema: dict[str, Any], keys: Sequence[str], property_schema: Any, *, required: bool) -> None:
    """Add a property at a path of keys, inside of objects. Schemas of earlier steps stay."""
    for position, key in enumerate(keys):
        if required and key not in schema.setdefault("required", []):
            schema["required"].append(key)
        is_last = position == len(keys) - 1
        inner = schema.setdefault("properties", {}).setdefault(key, property_schema if is_last else {"type": "object"})
        # A schema of true or false has no properties.
        if not isinstance(inner, dict):
            return
        schema = inner


def _copy_property(schema: dict[str, Any], property_schema: Any, tool_schema: Mapping[str, Any]) -> Any:
    """Return a copy of a tool's property, and add the tool's definitions to the schema if the property needs them.

    Return `{}` for any value if another tool has a different definition with the same name.
    """
    definitions = tool_schema.get("$defs")
    if "$ref" not in repr(property_schema) or not isinstance(definitions, Mapping):
        return deepcopy(property_schema)
    chain_definitions = schema.get("$defs", {})
    if any(chain_definitions.get(name, value) != value for name, value in definitions.items()):
        return {}
    schema["$defs"] = {**chain_definitions, **deepcopy(dict(definitions))}
    return deepcopy(property_schema)


def _remove_types(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the names of the properties only.

    The schemas of properties can be invalid outside of their tools, because they may contain relative references.
    """
    bare: dict[str, Any] = {"type": "object", "properties": {name: {} for name in schema["properties"]}}
    return {**bare, "required": schema["required"]} if "required" in schema else bare
