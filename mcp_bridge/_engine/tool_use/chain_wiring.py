"""Checks how a chain passes values between its tools, against the schemas of these tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mcp_bridge._engine.tool_use.chain_schema import FindTool
from mcp_bridge._engine.tool_use.steps import ChainStep
from mcp_bridge._json_schema.references import resolve_schema
from mcp_bridge._json_schema.type_sets import list_types, simplify_types
from mcp_bridge._json_schema.validator import validate

_FURTHER = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties"})
"""The keywords of a schema that can have further properties."""
_LISTED = 20
"""The maximum number of names that an error lists."""


class WiringProblem(NamedTuple):
    """What is wrong with a step, counted from 0, or with one argument of its tool; without a step, with the output."""

    step: int | None
    argument: str | None
    text: str


class KnownValue(NamedTuple):
    """The schema of a value, the document with its definitions, and where the value comes from."""

    schema: Any
    root: Mapping[str, Any]
    origin: str


@dataclass(slots=True)
class ChainContext:
    """What is known about the context of a chain: values by key, and whether it may have others."""

    values: dict[str, KnownValue] = field(default_factory=dict)
    is_open: bool = True

    def add_properties(self, schema: Mapping[str, Any], origin: str) -> None:
        """Add the properties of an object that is merged into the context."""
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            self.values |= {
                name: KnownValue(property_schema, schema, origin) for name, property_schema in properties.items()
            }

    def find_value(self, path: str) -> KnownValue | str | None:
        """Return the value at a dotted path, the problem if there can be none, or None if nothing is known."""
        if path in self.values:
            return self.values[path]
        head, *keys = path.split(".")
        value = self.values.get(head)
        if value is None:
            hint = _format_names(self.values)
            return None if self.is_open else f"neither the input of the chain nor an earlier step has '{head}'. {hint}"
        for key in keys:
            schema = resolve_schema(value.schema, value.root)
            properties = schema.get("properties")
            if not isinstance(properties, Mapping) or (key not in properties and _may_have_others(schema)):
                return None
            if key not in properties:
                return f"{value.origin} has no '{key}'. {_format_names(properties)}"
            value = value._replace(schema=properties[key])
        return value


def find_wiring_problems(
    find_tool: FindTool, steps: Sequence[ChainStep], input_schema: Mapping[str, Any], outputs: Sequence[str] = ()
) -> Iterator[WiringProblem]:
    """Yield the problems of a chain of existing tools: missing and unknown arguments, and wrong types.

    `input_schema` is that of the chain, and `outputs` are the paths that it returns, of which some may not exist. What
    the schemas do not say is not a problem.
    """
    context = ChainContext(is_open=not isinstance(input_schema.get("properties"), Mapping))
    context.add_properties(input_schema, "the input of the chain")
    for number, step in enumerate(steps):
        tool = find_tool(step.tool_name)
        if tool is None:
            return
        schema = tool.input_schema if isinstance(tool.input_schema, Mapping) else {}
        for argument, text in _check_step(step, schema, context):
            yield WiringProblem(number, argument, text)
        output = tool.output_schema if isinstance(tool.output_schema, Mapping) else {}
        if step.output_key:
            context.values[step.output_key] = KnownValue(output, output, f"the output of '{step.tool_name}'")
        else:
            context.add_properties(output, f"the output of '{step.tool_name}'")
            is_known = isinstance(output.get("properties"), Mapping) and not _may_have_others(output)
            context.is_open = context.is_open or not is_known
    for value in map(context.find_value, outputs):
        if isinstance(value, str):
            yield WiringProblem(None, None, value)


def _check_step(step: ChainStep, schema: Mapping[str, Any], context: ChainContext) -> Iterator[tuple[str | None, str]]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    is_whole = step.takes_context
    names = context.values.keys() if is_whole else {*step.input_mapping, *step.defaults}
    required = schema.get("required")
    for name in required if isinstance(required, Sequence) and not (is_whole and context.is_open) else ():
        if name not in names:
            yield None, f"'{step.tool_name}' requires the argument '{name}'"
    if schema.get("additionalProperties") is False:
        unknown = [name for name in names if name not in properties]
        for name in unknown:
            text = f"'{step.tool_name}' has no argument '{name}'. {_advise(properties, is_whole=is_whole)}"
            yield None if is_whole else name, text
    for target in names if is_whole else ():
        yield from _check_type(target, context.values[target], properties, schema)
    for target, source in step.input_mapping.items():
        value = context.find_value(source)
        if isinstance(value, str):
            yield target, value
        elif value is not None:
            yield from _check_type(target, value, properties, schema)
    for target, constant in step.defaults.items():
        constant_schema = {"$defs": schema.get("$defs", {}), "allOf": [properties.get(target, {})]}
        yield from ((target, problem.removeprefix("$: ")) for problem in validate(constant, constant_schema).errors)


def _check_type(
    target: str, value: KnownValue, properties: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    tool_types, value_types = list_types(properties.get(target, {}), schema), list_types(value.schema, value.root)
    if value_types and not tool_types & value_types:
        yield (
            target,
            f"expected {_format_types(tool_types)}, but the value from {value.origin} is {_format_types(value_types)}",
        )


def _may_have_others(schema: Mapping[str, Any]) -> bool:
    """Whether a schema allows further properties than those in its `properties`."""
    return bool(schema.get("additionalProperties")) or not _FURTHER.isdisjoint(schema)


def _format_types(types: frozenset[str]) -> str:
    return " or ".join(simplify_types(types)) or "nothing"


def _advise(properties: Mapping[str, Any], *, is_whole: bool) -> str:
    """List the arguments of a tool for an error. A step without `input` passes the whole context."""
    advice = "This step has no `input`, so it passes the whole context" if is_whole else ""
    if not properties:
        return f"{advice}. Write `input: {{}}` to pass no arguments" if is_whole else "It has no arguments"
    return f"{_format_names(properties)}. {advice}" if is_whole else _format_names(properties)


def _format_names(names: Mapping[str, Any]) -> str:
    texts = [*map(str, names)]
    return f"Known names: {', '.join(texts[:_LISTED])}" if texts else "It is empty"
